//! The harness finds nothing wrong with the journal, and finds every planted bug.

use super::{Bug, Failure, Mode, Tally, run};

/// Runs seeds until a promise is broken, `seeds` at most.
fn search(mode: Mode, bug: Option<Bug>, seeds: u64) -> Result<Tally, Box<Failure>> {
    let mut tally = Tally::default();
    for seed in 0..seeds {
        tally.add(&run(seed, mode, bug)?);
    }
    Ok(tally)
}

fn nothing_is_lost(mode: Mode, seeds: u64) -> Tally {
    match search(mode, None, seeds) {
        Ok(tally) => {
            println!("{tally:?}");
            tally
        }
        Err(failure) => panic!("{failure}"),
    }
}

fn caught(bug: Bug, mode: Mode, seeds: u64) {
    let failure = search(mode, Some(bug), seeds);
    assert!(failure.is_err(), "{bug:?} was not caught in {seeds} seeds: {failure:?}");
}

#[test]
fn power_cuts_lose_nothing() {
    let tally = nothing_is_lost(Mode::Honest, 10);
    assert!(tally.crashes > 2000 && tally.torn > 100, "too little happened: {tally:?}");
}

#[test]
fn power_cuts_and_errors_lose_nothing() {
    let tally = nothing_is_lost(Mode::Loud, 20);
    assert!(tally.stopped > 3, "too little went wrong: {tally:?}");
}

#[test]
fn what_is_silently_lost_is_never_made_up() {
    let tally = nothing_is_lost(Mode::Silent, 20);
    assert!(tally.refused > 10, "too little went wrong: {tally:?}");
}

#[test]
fn a_seed_replays_itself() {
    assert_eq!(run(7, Mode::Loud, None).unwrap(), run(7, Mode::Loud, None).unwrap());
}

#[test]
fn a_lying_disk_is_noticed() {
    assert!(search(Mode::Lying, None, 5).is_err());
}

#[test]
fn unchained_records_are_caught() {
    caught(Bug::Unchained, Mode::Honest, 100);
}

#[test]
fn a_checksum_without_the_offset_is_caught() {
    caught(Bug::OffsetLeftOut, Mode::Silent, 200);
}

#[test]
fn going_on_after_a_failed_sync_is_caught() {
    caught(Bug::FailedSyncIgnored, Mode::Loud, 100);
}

#[test]
fn a_skipped_sync_is_caught() {
    caught(Bug::SyncSkipped, Mode::Honest, 20);
}

#[test]
fn a_missing_directory_sync_is_caught() {
    caught(Bug::DirectorySyncMissing, Mode::Honest, 20);
}

#[test]
fn a_begun_segment_that_is_not_noted_is_caught() {
    caught(Bug::EndUnnoted, Mode::Honest, 20);
}

#[test]
fn an_unsynced_recovery_is_caught() {
    caught(Bug::RecoveryUnsynced, Mode::Honest, 20);
}
