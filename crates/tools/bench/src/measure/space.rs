//! The most that a store's files take up on the disk, sampled through a run.
//!
//! A thread looks at the files every [`INTERVAL`], since a compaction takes its space while nothing
//! else looks. A peak between two looks is not seen.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use environment::{Environment, JoinHandle};

use super::disk_bytes;

/// Time between two looks at the files.
const INTERVAL: Duration = Duration::from_secs(1);
/// Time between two looks at whether the sampling has to end.
const LOOK: Duration = Duration::from_millis(50);

/// A thread that samples a directory until it is dropped.
#[derive(Debug)]
pub struct SpacePeak {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    peak_bytes: AtomicU64,
    stops: AtomicBool,
}

impl SpacePeak {
    /// Samples the files below `dir` from now on.
    ///
    /// # Errors
    /// The operating system refuses a thread.
    pub fn watch(env: &Environment, dir: &Path) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (seen, clock, dir) = (shared.clone(), env.clone(), dir.to_owned());
        let thread = env.spawn("bench-space", move || {
            while !seen.stops.load(Ordering::Relaxed) {
                seen.peak_bytes.fetch_max(disk_bytes(&dir), Ordering::Relaxed);
                let next = clock.now() + INTERVAL;
                while clock.now() < next && !seen.stops.load(Ordering::Relaxed) {
                    clock.sleep(LOOK);
                }
            }
        })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Counts `bytes`, which the caller has found by itself.
    pub fn note(&self, bytes: u64) {
        self.shared.peak_bytes.fetch_max(bytes, Ordering::Relaxed);
    }

    /// The most that was seen, in bytes.
    pub fn bytes(&self) -> u64 {
        self.shared.peak_bytes.load(Ordering::Relaxed)
    }
}

impl Drop for SpacePeak {
    fn drop(&mut self) {
        self.shared.stops.store(true, Ordering::Relaxed);
        // A panic of the thread has no effect on the measurement.
        let _ended = self.thread.take().map(JoinHandle::join);
    }
}
