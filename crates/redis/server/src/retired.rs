//! Drops large things for event loops, outside of the gate and of all locks: many watched keys take
//! long to forget.

use std::io;
use std::time::Duration;

use crate::session::{Queue, Watched};
use crate::shared::Shared;
use crate::watch::Changed;

/// How often the thread looks.
const INTERVAL: Duration = Duration::from_millis(100);

/// A thing to be dropped.
pub(crate) enum Retired {
    /// Keys that a connection has watched, and the flag of their changes.
    Watched(Watched, Changed),
    /// Commands that are not executed.
    Queue(Queue),
}

impl Retired {
    /// Bytes by which the clients' memory is charged until it is dropped.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Self::Watched(watched, _) => watched.memory_bytes(),
            Self::Queue(queue) => queue.memory_bytes(),
        }
    }
}

/// Drops such things until the server stops.
pub(crate) fn drop_them(shared: &Shared) -> io::Result<()> {
    while !shared.threads.stop.wait_for(INTERVAL) {
        let retired = std::mem::take(&mut *shared.threads.retired.lock());
        for thing in retired {
            let mut charged = thing.memory_bytes();
            match thing {
                Retired::Watched(mut watched, changed) => {
                    watched.forget(&shared.keys.watches, &changed);
                }
                other => drop(other),
            }
            shared.clients.memory.recharge(&mut charged, 0);
        }
    }
    Ok(())
}
