//! The thread that reads for the loops: slices of walks, and values if a loop has no queue of the
//! device.
//!
//! 1. A command that walks over keys waits, as one does whose key is looked up. Its connection
//!    takes its turn, and the loop asks for the next slice ([`Walker::ask`]).
//! 2. The thread reads slices sequentially, in the order of the requests: a long walk delays
//!    another one by a slice at most.
//! 3. The slice comes back as a letter. The command runs again with it, and ends, or asks for the
//!    next one.
//!
//! So no loop waits for the device, and none is busy with more than a slice. The thread is not in
//! the gate: a walk meets each key at some moment, and a transaction that is committed meanwhile
//! perhaps in part.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use thermocline::sync::locks::{Condvar, Mutex};

use super::{Asker, Letter};
use crate::shared::Shared;
use crate::store::StoreError;
use crate::store::reads::{Done, Wanted, read};

/// How often the thread looks whether the server stops.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// The request for a slice, or the slice.
#[derive(Debug)]
pub(crate) struct Walked<T> {
    pub(crate) asker: Asker,
    /// The place of its command among the replies.
    pub(crate) number: u64,
    pub(crate) of: T,
}

/// Slices to be read.
#[derive(Debug, Default)]
pub(crate) struct Walker {
    /// Each with the loop that asks.
    asked: Mutex<VecDeque<(usize, Walked<Wanted>)>>,
    changed: Condvar,
}

impl Walker {
    /// Has a slice read for the loop at `index`.
    pub(crate) fn ask(&self, index: usize, walked: Walked<Wanted>) {
        self.asked.lock().push_back((index, walked));
        self.changed.notify_one();
    }

    /// Reads slices until the server stops.
    pub(crate) fn run(shared: &Shared) -> io::Result<()> {
        let walker = &shared.threads.walker;
        while !shared.threads.stop.is_asked() {
            let mut asked = walker.asked.lock();
            let Some((index, Walked { asker, number, of })) = asked.pop_front() else {
                walker.changed.wait_for(&mut asked, LOOK_INTERVAL);
                continue;
            };
            drop(asked);
            let of: Result<Done, StoreError> = read(shared.store.commands(), &of);
            shared.threads.send(index, Letter::Walked(Walked { asker, number, of }));
        }
        Ok(())
    }
}
