//! One run, kept, so that it can be crashed at every operation without running it again.

use std::sync::Arc;

use super::SimulatedDisk;
use super::crash::{crash, crash_losing_all, crash_losing_nothing};
use super::event::Event;
use super::faults::Faults;
use super::state::State;

/// The events of a disk, in order.
#[derive(Clone, Debug)]
pub struct History {
    pub(super) start: State,
    /// Each with the number of the operation that it belongs to.
    pub(super) events: Vec<(u64, Event)>,
    /// The number of the last operation.
    pub(super) last: u64,
    pub(super) faults: Faults,
    pub(super) alignment: usize,
}

impl History {
    /// The number of the last operation in it, as [`SimulatedDisk::operations`] counts.
    pub fn last_operation(&self) -> u64 {
        self.last
    }

    /// The run from its beginning.
    ///
    /// ```
    /// use thermocline_device::{Device, Faults, File, Mode, SimulatedDisk};
    /// let disk = SimulatedDisk::new(1, Faults::none());
    /// disk.keep_history();
    /// disk.open("a", Mode::CreateNew)?.write_at(0, b"bytes")?;
    ///
    /// let history = disk.history();
    /// let mut replay = history.replay();
    /// for operation in 0..=history.last_operation() {
    ///     replay.advance_to(operation);
    ///     for seed in 0..10 {
    ///         let image = replay.crash(seed); // open the store on it, and check what it holds
    /// #       let _ = image.list("")?;
    ///     }
    /// }
    /// # Ok::<(), thermocline_device::Error>(())
    /// ```
    pub fn replay(&self) -> Replay<'_> {
        Replay { history: self, state: self.start.clone(), next: 0 }
    }
}

/// A moment in a [`History`], which moves forward.
#[derive(Debug)]
pub struct Replay<'a> {
    history: &'a History,
    state: State,
    next: usize,
}

impl Replay<'_> {
    /// Moves on until `operation` was done, as [`SimulatedDisk::operations`] counts; zero is
    /// before the first.
    pub fn advance_to(&mut self, operation: u64) {
        let rest = self.history.events.get(self.next..).unwrap_or_default();
        for (_, event) in rest.iter().take_while(|(number, _)| *number <= operation) {
            self.state.apply(event);
            self.next += 1;
        }
    }

    /// Like [`SimulatedDisk::crash`], at this moment of the run; the same seed gives the same
    /// image as it would have then.
    pub fn crash(&self, image_seed: u64) -> Arc<SimulatedDisk> {
        self.image(crash(&self.state, image_seed), image_seed)
    }

    /// The one in which nothing is left that was not synced.
    pub fn crash_losing_all(&self) -> Arc<SimulatedDisk> {
        self.image(crash_losing_all(&self.state), 0)
    }

    /// Returns the image that keeps every operation. The old name of a moved file may be there next
    /// to the new one.
    pub fn crash_losing_nothing(&self) -> Arc<SimulatedDisk> {
        self.image(crash_losing_nothing(&self.state), 0)
    }

    fn image(&self, state: State, seed: u64) -> Arc<SimulatedDisk> {
        let (faults, alignment) = (self.history.faults.clone(), self.history.alignment);
        SimulatedDisk::from_state(state, seed, faults, alignment)
    }
}
