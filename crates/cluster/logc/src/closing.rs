//! The end of the use of logs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};

const OPEN: u8 = 0;
const CLOSED: u8 = 1;
const FULL: u8 = 2;

/// Closes the logs of an owner. Its clones close the same logs, also while they are opened.
#[derive(Clone, Debug, Default)]
pub struct Closing(Arc<AtomicU8>);

impl Closing {
    /// Closes the logs. A call that waits for replies ends with [`crate::Error::Closed`].
    pub fn close(&self) {
        self.close_as(CLOSED);
    }

    /// Closes the logs since too few StoCs have room.
    pub fn close_full(&self) {
        self.close_as(FULL);
    }

    /// The first reason counts.
    fn close_as(&self, reason: u8) {
        let _was_closed = self.0.compare_exchange(OPEN, reason, SeqCst, SeqCst);
    }

    /// Whether the logs are closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.load(SeqCst) != OPEN
    }

    /// Whether they were closed since too few StoCs have room.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.0.load(SeqCst) == FULL
    }
}
