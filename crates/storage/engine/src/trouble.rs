//! Background work of an engine that fails: its name, cause, begin, and consequence.

use std::fmt;

use crate::error::Error;

/// Work in the background that has failed and is tried again from time to time. Undamaged stored
/// data can be read.
#[derive(Clone, Debug, PartialEq)]
pub struct Trouble {
    /// The work that fails, in words.
    pub work: &'static str,
    /// Why it failed last; damage with its place.
    pub cause: Error,
    /// When it began to fail: milliseconds since the Unix epoch, by the wall clock.
    pub since_ms: u64,
    /// How often it has failed since.
    pub failures: u64,
    /// Whether writes are refused because of it.
    pub refuses_writes: bool,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { work, cause, failures, refuses_writes, .. } = self;
        let times = if *failures == 1 { "once" } else { "again and again" };
        let writes = if *refuses_writes { "writes are refused" } else { "writes are taken" };
        write!(f, "{work} has failed {times} ({writes}): {cause}")
    }
}
