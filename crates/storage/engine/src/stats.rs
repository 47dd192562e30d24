//! Figures of an engine.

use environment::WaitCounts;

/// Figures of the engine of one keyspace at one moment: `thermocline::EngineStats`. They are read
/// without stopping anything, so they may be a little apart from each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// Live keys, if the engine counts them.
    pub live_keys: Option<u64>,
    /// Bytes of live keys and values, if the engine counts them.
    pub live_bytes: Option<u64>,
    /// Bytes of memory in use.
    pub memory_bytes: u64,
    /// Bytes of files.
    pub disk_bytes: u64,
    /// Room of the reservations that are not dropped, as far as the engine counts it and in its own
    /// unit; 0 if there is none.
    pub reserved: u64,
    /// Long waits of writers in the engine, by cause.
    pub waits: Vec<(&'static str, WaitCounts)>,
    /// Figures that only this engine has, by name.
    pub detail: Vec<(&'static str, u64)>,
    /// The names of the figures that count since the store was opened, or report work in progress:
    /// they mean nothing for a store that was opened only to be inspected.
    pub running: &'static [&'static str],
}
