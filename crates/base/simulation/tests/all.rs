//! The tests of the schedule, as one program.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod failures;
mod processes;
mod schedule;
