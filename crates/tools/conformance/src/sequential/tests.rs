//! The reference engine passes; the shrinker finds the heart of a failure.

use super::{Memory, operations, run, shrink};
use crate::operation::Operation;
use crate::operation::Profile;
use crate::reference::ReferenceFixture;

#[test]
fn the_reference_engine_passes() {
    for seed in 0..30 {
        for memory in [Memory::Ample, Memory::Small] {
            let run = run(&ReferenceFixture, &operations(seed, Profile::all(true), 120), memory);
            assert!(run.is_ok(), "seed {seed}, {memory:?}: {run:?}");
        }
    }
}

#[test]
fn a_failure_shrinks_to_its_heart() {
    let is_heart = |operation: &Operation| matches!(operation, Operation::Write(s) if s.len() > 2);
    let fails_at = |run: &[Operation]| run.iter().position(is_heart);
    let long = operations(5, Profile::all(true), 120);
    assert!(long.len() > 100);
    let short = shrink(long, fails_at);
    assert_eq!(short.len(), 1);
    let Operation::Write(steps) = &short[0] else { panic!("{short:?}") };
    assert_eq!(steps.len(), 3, "no step more than needed");
}
