//! The parts of a host that an engine gets when it is opened.

use std::sync::Arc;

use device::Device;
use environment::Environment;
use telemetry::Registry;
use workers::{Group, Pool, TaskPanic};

use crate::barrier::Barrier;
use crate::error::{Error, Result};
use crate::health::Health;
use memory_budget::MemoryBudget;
use sequence::Sequence;

/// Everything that an engine needs from outside; it takes nothing from anywhere else.
#[derive(Clone)]
pub struct Host {
    /// The engine's own directory.
    pub device: Arc<dyn Device>,
    /// Clock, randomness, threads.
    pub environment: Environment,
    /// Runs its background work; it takes a group of its own.
    pub workers: Pool,
    /// Counts it.
    pub telemetry: Registry,
    /// Numbers writes and pins snapshots, shared by all engines of a database.
    pub sequence: Arc<Sequence>,
    /// Called before anything becomes durable (law L3).
    pub barrier: Arc<dyn Barrier>,
    /// How much memory it may use.
    pub memory: Arc<MemoryBudget>,
}

impl Host {
    /// Returns the group in which an engine runs its background tasks. A task that panics is a
    /// mistake of ours, and does not run again: as after a failed write, no further write is
    /// accepted.
    pub fn tasks(&self, name: &str, health: &Arc<Health>) -> Group {
        let (group, health) = (self.workers.group(name), Arc::clone(health));
        group.on_panic(move |panic| health.fail(&Error::Panicked(panic.clone())));
        group
    }
}

/// Returns the result of a close that has stopped the engine's background tasks: the first panic
/// that was not reported.
///
/// # Errors
/// [`Error::Panicked`].
pub fn stopped(panics: Vec<TaskPanic>) -> Result<()> {
    panics.into_iter().next().map_or(Ok(()), |panic| Err(panic.into()))
}
