//! Runs of operations by one thread, compared with the model after each.

mod compare;
mod session;
mod shrink;
#[cfg(test)]
mod tests;

use crate::failure::Violation;
use crate::operation::{Generator, Operation, Profile};
use crate::{Fixture, trace::Trace};

pub(crate) use compare::{collect, compare_everything, compare_pairs, describe, walk};
use session::Session;
pub(crate) use shrink::shrink;

/// A budget that a run soon uses up.
const SMALL_BUDGET_BYTES: u64 = 24 << 10;

/// How much memory the engine gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    Ample,
    Small,
}

impl Memory {
    fn bytes(self) -> u64 {
        match self {
            Self::Ample => u64::MAX,
            Self::Small => SMALL_BUDGET_BYTES,
        }
    }
}

/// Returns the random run of `seed`, of `count` operations.
pub(crate) fn operations(seed: u64, profile: Profile, count: usize) -> Vec<Operation> {
    Generator::new(seed, profile).take(count).collect()
}

/// Runs `operations` on a fresh store. Returns a trace that is the same for the same operations.
pub(crate) fn run(
    fixture: &dyn Fixture,
    operations: &[Operation],
    memory: Memory,
) -> Result<Trace, Violation> {
    let opened = Session::open(fixture, memory.bytes());
    let mut session = opened.map_err(|what| Violation { at: 0, what })?;
    for (at, operation) in operations.iter().enumerate() {
        session.step(operation).map_err(|what| Violation { at, what })?;
    }
    session.finish().map_err(|what| Violation { at: operations.len(), what })
}
