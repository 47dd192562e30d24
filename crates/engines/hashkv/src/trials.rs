//! Stores of small parts, for tests over every engine.

use engine::{Trial, Trials};

use crate::options::Options;

pub(crate) static TRIALS: Trials = Trials {
    crashed: &[Trial::new("hashkv", || {
        let options = Options { segment_bytes_max: 8 << 10, ..small() };
        options.into()
    })],
    killed: || {
        let options = Options { segment_bytes_max: 64 << 10, ..small() };
        options.into()
    },
    work: &[],
};

/// Returns options of small parts. Little data then takes many segments, has pairs on both sides of
/// the separation, and fills the reserve for garbage.
fn small() -> Options {
    Options {
        separation_bytes: 24,
        groups_max: 4,
        buffer_bytes_max: 64 << 10,
        reserve_percent: 0,
        table_bytes: 1 << 10,
        ..Options::default()
    }
}
