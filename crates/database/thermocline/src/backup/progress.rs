//! How far a backup or a restoring is, for whoever waits for it on another thread.

use std::sync::Arc;

use device::{Device, IoCounts};
use sync::locks::Mutex;

/// What is being done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// Nothing yet.
    #[default]
    Waiting,
    /// Files are written.
    Copying,
    /// Files are read, and their checksums made or compared.
    Summing,
    /// What was written is verified, record by record.
    Verifying,
}

/// How far long work is. One is handed to the work; anybody may look at it meanwhile.
#[derive(Debug, Default)]
pub struct Progress {
    present: Mutex<Present>,
}

#[derive(Debug, Default)]
struct Present {
    stage: Stage,
    done_bytes: u64,
    total_bytes: u64,
    /// Where the work is done by others, their device tells how far they are.
    watched: Option<Watched>,
}

/// Which of a device's counts is the progress, and what it was in the beginning.
#[derive(Debug)]
struct Watched {
    device: Arc<dyn Device>,
    count: fn(IoCounts) -> u64,
    from: u64,
}

/// A stage whose progress a device tells. Dropped, it keeps how far that came, and no device.
pub(super) struct Watching<'a>(&'a Progress);

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        let (_, done_bytes, _) = self.0.now();
        let mut present = self.0.present.lock();
        present.done_bytes = done_bytes;
        present.watched = None;
    }
}

impl Progress {
    /// The stage, how many bytes of it are done, and about how many it has in all.
    pub fn now(&self) -> (Stage, u64, u64) {
        let present = self.present.lock();
        let watched = present.watched.as_ref().map(|watched| {
            let count = (watched.count)(watched.device.accounting().counts());
            count.saturating_sub(watched.from)
        });
        (present.stage, watched.unwrap_or(present.done_bytes), present.total_bytes)
    }

    pub(super) fn begin(&self, stage: Stage, total_bytes: u64) {
        *self.present.lock() = Present { stage, total_bytes, ..Present::default() };
    }

    /// Begins a stage. Its progress is a count of `device`, which is held until the returned value
    /// is dropped.
    #[must_use]
    pub(super) fn watch(
        &self,
        stage: Stage,
        total_bytes: u64,
        device: &Arc<dyn Device>,
        count: fn(IoCounts) -> u64,
    ) -> Watching<'_> {
        let from = count(device.accounting().counts());
        let watched = Some(Watched { device: Arc::clone(device), count, from });
        *self.present.lock() = Present { stage, total_bytes, watched, done_bytes: 0 };
        Watching(self)
    }

    pub(super) fn add(&self, bytes: u64) {
        self.present.lock().done_bytes += bytes;
    }
}
