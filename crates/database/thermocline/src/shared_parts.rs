//! The parts that several databases of one process share.

use telemetry::Registry;

use crate::expiry::PauseExpiry;
use crate::memory_balance::SharedMemory;

/// The parts that several databases of one process share.
///
/// A program that serves several databases as one gives all of them the same shared parts.
#[derive(Clone, Debug, Default)]
pub struct SharedParts {
    /// The metrics. Give each database other labels ([`Registry::with_labels`]).
    pub telemetry: Registry,
    /// The switch that pauses the expiry sweeps of all these databases.
    pub pause_expiry: PauseExpiry,
    /// The memory that their keyspaces share. Without it each database has its own.
    pub memory: Option<SharedMemory>,
}
