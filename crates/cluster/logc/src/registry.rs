//! The surroundings of a log: the coordinator's record, and StoCs.

use std::fmt::Debug;
use std::sync::Arc;

use stoc::{Epoch, Kind, Link};

use crate::record::LogRecord;

/// A change of the record of one log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which log of the range it is.
    pub kind: Kind,
    /// The record that is replaced.
    pub before: LogRecord,
    /// The record that takes its place.
    pub after: LogRecord,
}

/// A failure of the coordinator's store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// The range belongs to another epoch, or the record is another one than `before`.
    #[error("another owner has the range")]
    Fenced,
    /// The store cannot be reached. The change may have happened, or not.
    #[error("{0}")]
    Unavailable(String),
}

/// The coordinator's record of the logs of one range.
pub trait Registry: Send + Sync + Debug {
    /// Returns the record of a log; an empty one if it has none yet.
    ///
    /// # Errors
    /// [`RegistryError::Unavailable`].
    fn load(&self, kind: Kind) -> Result<LogRecord, RegistryError>;

    /// Makes all `changes` in one step, if the range belongs to `epoch`, and each record is the one
    /// before the change. Durable on return. Changes of unknown outcome that were sent before a
    /// change that succeeds have happened before it, or never happen: the store compares revisions.
    ///
    /// # Errors
    /// [`RegistryError`].
    fn change(&self, epoch: Epoch, changes: &[Change]) -> Result<(), RegistryError>;
}

/// The StoCs of a cluster, as far as they can be reached.
pub trait Stocs: Send + Sync + Debug {
    /// Returns the link to a StoC, if there is one now.
    fn link(&self, node: u32) -> Option<Arc<dyn Link>>;

    /// Returns at most `count` StoCs for a new segment, in distinct failure domains as far as there
    /// are enough. None of them is in `avoid`.
    fn choose(&self, count: usize, avoid: &[u32]) -> Vec<Arc<dyn Link>>;
}
