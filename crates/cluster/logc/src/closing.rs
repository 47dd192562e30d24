//! The end of the use of logs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Closes the logs of an owner. Its clones close the same logs, also while they are opened.
#[derive(Clone, Debug, Default)]
pub struct Closing(Arc<AtomicBool>);

impl Closing {
    /// Closes the logs. A call that waits for replies ends with [`crate::Error::Closed`].
    pub fn close(&self) {
        self.0.store(true, SeqCst);
    }

    /// Whether the logs are closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.load(SeqCst)
    }
}
