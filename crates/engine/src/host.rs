//! What an engine is handed when it is opened.

use std::sync::Arc;

use device::Device;
use environment::Environment;
use telemetry::Registry;
use workers::Pool;

use crate::barrier::Barrier;
use crate::budget::MemoryBudget;
use crate::sequence::Sequence;

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
