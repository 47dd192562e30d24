//! Progress of a backup or a restoring, for a thread that waits for it.

use std::sync::Arc;

use device::{Device, IoCounts};
use sync::locks::Mutex;

/// The work that is being done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// Nothing yet.
    #[default]
    Waiting,
    /// Files are written.
    Copying,
    /// Files are read, and their checksums made or compared.
    Summing,
    /// The written files are verified, record by record.
    Verifying,
}

/// The progress of long work. One is handed to the work; any thread may read it meanwhile.
///
/// No stage marks the end: the work is done when the call returns. Afterwards the value keeps the
/// last stage and its bytes. Another call may use it again, and begins its stages from zero. Two
/// calls at the same time need a value each.
#[derive(Debug, Default)]
pub struct Progress {
    present: Mutex<Present>,
}

#[derive(Debug, Default)]
struct Present {
    stage: Stage,
    done_bytes: u64,
    total_bytes: u64,
    /// If other code does the work, the progress is a count of its device.
    watched: Option<Watched>,
}

/// The count of a device that is the progress, and its value in the beginning.
#[derive(Debug)]
struct Watched {
    device: Arc<dyn Device>,
    count: fn(IoCounts) -> u64,
    from: u64,
}

/// A stage whose progress is a count of a device. When dropped, it keeps the last progress, and no
/// device.
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
    /// Returns the stage, the number of its bytes that are done, and their approximate total.
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
