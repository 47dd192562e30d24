//! Each example program does its work, twice in the same directory.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::error::Error;
use std::path::Path;

#[path = "../examples/backup.rs"]
#[expect(dead_code, reason = "the test does what `main` does")]
mod backup;
#[path = "../examples/engines.rs"]
#[expect(dead_code, reason = "the test does what `main` does")]
mod engines;
#[path = "../examples/expiry.rs"]
#[expect(dead_code, reason = "the test does what `main` does")]
mod expiry;
#[path = "../examples/merge.rs"]
#[expect(dead_code, reason = "the test does what `main` does")]
mod merge;
#[path = "../examples/scans.rs"]
#[expect(dead_code, reason = "the test does what `main` does")]
mod scans;
#[path = "../examples/tour.rs"]
#[expect(dead_code, reason = "the test does what `main` does")]
mod tour;
#[path = "../examples/transactions.rs"]
#[expect(dead_code, reason = "the test does what `main` does")]
mod transactions;

fn runs_twice(show: fn(&Path) -> Result<(), Box<dyn Error>>) {
    let dir = tempfile::tempdir().unwrap();
    show(dir.path()).unwrap();
    show(dir.path()).unwrap();
}

#[test]
fn example_programs_run() {
    let all = [
        backup::show,
        engines::show,
        expiry::show,
        merge::show,
        scans::show,
        tour::show,
        transactions::show,
    ];
    all.into_iter().for_each(|show| runs_twice(show));
}
