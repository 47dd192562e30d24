//! Stores of small parts, for tests that run over every engine of a list.
//!
//! The memtables, tables and segments of an engine are large in use, and the data of a test would
//! not fill one of them. With these settings little data takes many parts. The driver has them, so
//! that such a test names no engine.

use crate::settings::Settings;

/// Bytes of the longest value that tests write: longer than an engine keeps in a usual page.
const VALUE_BYTES_MAX: usize = 6000;

/// Stores of small parts of one engine.
#[derive(Debug)]
pub struct Trials {
    /// Stores that are crashed on a simulated disk. The first has the name of the engine.
    pub crashed: &'static [Trial],
    /// Returns settings of a database whose process is killed while it writes.
    pub killed: fn() -> Settings,
    /// Names of counts of background work ([`Stats::detail`]). Each of them must have risen next to
    /// the writes of processes that were killed for a minute.
    ///
    /// [`Stats::detail`]: crate::Stats::detail
    pub work: &'static [&'static str],
}

/// A store of small parts, and how it differs from others for a test.
#[derive(Debug)]
pub struct Trial {
    /// Its name, in messages and for the crash harness.
    pub name: &'static str,
    /// Returns its settings. They may be beyond the values that a user is allowed.
    pub settings: fn() -> Settings,
    /// Bytes of the longest key that tests write: less than [`KEY_BYTES_MAX`] only if such a key
    /// does not fit its small parts.
    ///
    /// [`KEY_BYTES_MAX`]: crate::KEY_BYTES_MAX
    pub key_bytes_max: usize,
    /// Bytes of the longest value that tests write; fewer only for the same reason.
    pub value_bytes_max: usize,
    /// Writes of a long life between two crashes, which all of its parts need to have work; 0 if
    /// no life is long.
    pub long_life_writes: usize,
    /// Stores of the same engine that share the usual number of cases.
    pub variants: u64,
    /// Whether files may hold a write above the number that the store reports as persisted,
    /// without others below it.
    pub flushes_keys_apart: bool,
    /// Whether the store takes its memory in large units, such as the pages of a log.
    pub takes_memory_in_units: bool,
}

impl Trial {
    /// Returns a store with the usual limits.
    pub const fn new(name: &'static str, settings: fn() -> Settings) -> Self {
        Self {
            name,
            settings,
            key_bytes_max: crate::KEY_BYTES_MAX,
            value_bytes_max: VALUE_BYTES_MAX,
            long_life_writes: 0,
            variants: 1,
            flushes_keys_apart: false,
            takes_memory_in_units: false,
        }
    }
}
