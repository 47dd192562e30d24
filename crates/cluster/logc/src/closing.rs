//! The end of the use of logs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};

const OPEN: u8 = 0;
const CLOSED: u8 = 1;
const FULL: u8 = 2;

/// Closes the logs of an owner. Its clones close the same logs, also while they are opened.
#[derive(Clone, Debug, Default)]
pub struct Closing(Arc<State>);

#[derive(Debug, Default)]
struct State {
    reason: AtomicU8,
    /// It closes these logs together with others.
    parent: Option<Closing>,
}

impl Closing {
    /// Closes the logs. A call that waits for replies ends with [`crate::Error::Closed`].
    pub fn close(&self) {
        self.close_as(CLOSED);
    }

    /// Returns one for a part of the logs, which this one closes, too.
    #[must_use]
    pub fn child(&self) -> Self {
        Self(Arc::new(State { reason: AtomicU8::new(OPEN), parent: Some(self.clone()) }))
    }

    /// Closes the logs since too few StoCs have room.
    pub fn close_full(&self) {
        self.close_as(FULL);
    }

    /// The first reason counts.
    fn close_as(&self, reason: u8) {
        let _was_closed = self.0.reason.compare_exchange(OPEN, reason, SeqCst, SeqCst);
    }

    /// Whether the logs are closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.reason() != OPEN
    }

    /// Whether they were closed since too few StoCs have room.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.reason() == FULL
    }

    fn reason(&self) -> u8 {
        match (self.0.reason.load(SeqCst), &self.0.parent) {
            (OPEN, Some(parent)) => parent.reason(),
            (reason, _) => reason,
        }
    }
}
