//! Stores of small parts, for tests over every engine.

use engine::{Trial, Trials};

use crate::options::Options;

/// Small blocks, so that little data takes many of them.
pub(crate) static TRIALS: Trials = Trials {
    crashed: &[Trial::new("memory", || Options { snapshot_block_bytes: 1024 }.into())],
    killed: || Options { snapshot_block_bytes: 4 << 10 }.into(),
    work: &[],
};
