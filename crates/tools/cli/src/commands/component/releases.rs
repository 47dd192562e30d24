//! The release of the files of ranges that were dropped.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

use coordinator::Coordinator;
use environment::{Environment, JoinHandle};
use stoc::Stoc;

use crate::failure::Failure;

/// Time between two questions to the coordinator.
const ASK: Duration = Duration::from_secs(5);

/// A thread that asks the coordinator which ranges are forgotten, and releases their files.
pub(super) struct Releases {
    ends: Sender<()>,
    thread: JoinHandle<()>,
}

impl Releases {
    /// Starts the thread.
    pub(super) fn start(
        stoc: Arc<Stoc>,
        coordinator: Coordinator,
        environment: &Environment,
    ) -> Result<Self, Failure> {
        let (ends, is_over) = mpsc::channel();
        let thread = environment.spawn("stoc releases", move || {
            while is_over.recv_timeout(ASK) == Err(RecvTimeoutError::Timeout) {
                release(&stoc, &coordinator);
            }
        });
        let thread = thread.map_err(|error| Failure::io("a thread", &error))?;
        Ok(Self { ends, thread })
    }

    /// Ends the thread. A call of the coordinator that is under way has to end before.
    pub(super) fn stop(self) {
        drop(self.ends);
        let _ended = self.thread.join();
    }
}

/// Releases the files of forgotten ranges. The next call does what this one could not.
fn release(stoc: &Stoc, coordinator: &Coordinator) {
    let ranges = stoc.ranges_with_files();
    if ranges.is_empty() {
        return;
    }
    for range in coordinator.forgotten(&ranges).unwrap_or_default() {
        match stoc.drop_range(range) {
            Ok(files) => eprintln!("thermocline: range {range} was dropped, and its {files} files"),
            Err(error) => eprintln!("thermocline: the files of range {range} stay: {error}"),
        }
    }
}
