//! The suite's report when an engine breaks its contract.

use std::fmt;

/// A broken law, with all that is needed to see it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The engine's name.
    pub engine: String,
    /// The check that found it.
    pub check: &'static str,
    /// The seed of the case.
    pub seed: u64,
    /// How many cases of this check had passed before.
    pub passed: u64,
    /// The expected result, and the result that was seen.
    pub what: String,
    /// The shortest story that shows it, a line per operation; empty where there is none.
    pub story: Vec<String>,
    /// One command that shows it again.
    pub replay: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { engine, check, seed, passed, what, replay, .. } = self;
        writeln!(f, "engine {engine} fails check {check} (seed {seed}, {passed} cases passed)")?;
        writeln!(f, "  {what}")?;
        for line in &self.story {
            writeln!(f, "    {line}")?;
        }
        write!(f, "  replay: {replay}")
    }
}

impl std::error::Error for Failure {}

/// A broken promise, and its place in a run of operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    /// The index of the operation.
    pub(crate) at: usize,
    /// The expected result, and the result that was seen.
    pub(crate) what: String,
}

/// Runs `body`; a panic in it becomes an error, since an engine must never panic.
pub(crate) fn catch<T>(body: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
    caught.unwrap_or_else(|payload| {
        let text = payload
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| payload.downcast_ref::<&str>().copied());
        Err(format!("the engine panicked: {}", text.unwrap_or("(no message)")))
    })
}
