//! The harness finds nothing wrong with the journal. The patches in `reliability/mutants/journal`
//! are faults that it must find.

use super::{Failure, Mode, Tally, run};

/// Runs seeds until a promise is broken, `seeds` at most.
fn search(mode: Mode, seeds: u64) -> Result<Tally, Box<Failure>> {
    let mut tally = Tally::default();
    for seed in 0..seeds {
        tally.add(&run(seed, mode)?);
    }
    Ok(tally)
}

fn nothing_is_lost(mode: Mode, seeds: u64) -> Tally {
    match search(mode, seeds) {
        Ok(tally) => {
            println!("{tally:?}");
            tally
        }
        Err(failure) => panic!("{failure}"),
    }
}

#[test]
fn power_cuts_lose_nothing() {
    let tally = nothing_is_lost(Mode::Honest, 20);
    assert!(tally.crashes > 2000 && tally.torn > 100, "too little happened: {tally:?}");
}

#[test]
fn power_cuts_and_errors_lose_nothing() {
    let tally = nothing_is_lost(Mode::Loud, 60);
    assert!(tally.stopped > 3, "too little went wrong: {tally:?}");
}

#[test]
fn what_is_silently_lost_is_never_made_up() {
    let tally = nothing_is_lost(Mode::Silent, 60);
    assert!(tally.refused > 10, "too little went wrong: {tally:?}");
}

#[test]
fn a_seed_replays_itself() {
    assert_eq!(run(7, Mode::Loud).unwrap(), run(7, Mode::Loud).unwrap());
}

#[test]
fn a_lying_disk_is_noticed() {
    assert!(search(Mode::Lying, 5).is_err());
}
