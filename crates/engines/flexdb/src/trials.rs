//! Stores of small parts, for tests over every engine.

use engine::{Trial, Trials};

use crate::options::Options;

pub(crate) static TRIALS: Trials = Trials {
    crashed: &[Trial {
        // So that intervals are split, and segments come and go.
        long_life_writes: 400,
        ..Trial::new("flexdb", || crashed().into())
    }],
    killed: || {
        let options = Options {
            memtable_bytes_max: 64 << 10,
            interval_pairs: 8,
            interval_bytes: 4 << 10,
            tail_pairs_max: 6,
            fragments_max: 6,
            segment_bytes_max: 64 << 10,
            stored_intervals_min: 1,
            ..Options::default()
        };
        options.into()
    },
    work: &[
        "commits",
        "intervals_appended",
        "intervals_rewritten",
        "intervals_in_place",
        "collected_segments",
    ],
};

/// Returns options of small parts, so that little data takes many commits and intervals. Each
/// interval is then written in each way.
fn crashed() -> Options {
    Options {
        memtable_bytes_max: 4 << 10,
        interval_pairs: 4,
        interval_bytes: 1 << 10,
        tail_pairs_max: 3,
        fragments_max: 5,
        segment_bytes_max: 16 << 10,
        stored_intervals_min: 1,
        ..Options::default()
    }
}
