//! Makes a failing run short: fewer operations first, simpler ones then.
//!
//! 1. Cut everything after the operation that failed.
//! 2. Leave out chunks, of half the run and down to single operations, as long as it still fails.
//! 3. Replace operations by simpler ones, as long as it still fails.
//! 4. Repeat 2 and 3 until nothing helps or the attempts are used up.

use crate::operation::Operation;

/// Runs at most, so that a slow engine does not shrink for ever.
const ATTEMPTS_MAX: usize = 3000;

/// Returns the shortest failing run found. `fails_at` returns the index at which a run fails.
pub(crate) fn shrink(
    mut run: Vec<Operation>,
    mut fails_at: impl FnMut(&[Operation]) -> Option<usize>,
) -> Vec<Operation> {
    let mut attempts = 0;
    let mut try_run = |candidate: Vec<Operation>| {
        attempts += 1;
        if attempts > ATTEMPTS_MAX {
            return None;
        }
        let at = fails_at(&candidate)?;
        let mut shorter = candidate;
        shorter.truncate(at + 1);
        Some(shorter)
    };
    if let Some(cut) = try_run(run.clone()) {
        run = cut;
    }
    loop {
        let before = run.clone();
        run = without_chunks(run, &mut try_run);
        run = simplified(run, &mut try_run);
        if run == before {
            return run;
        }
    }
}

fn without_chunks(
    mut run: Vec<Operation>,
    try_run: &mut impl FnMut(Vec<Operation>) -> Option<Vec<Operation>>,
) -> Vec<Operation> {
    let mut chunk = (run.len() / 2).max(1);
    loop {
        let mut start = 0;
        while start < run.len() {
            let mut candidate = run.clone();
            candidate.drain(start..(start + chunk).min(run.len()));
            match try_run(candidate) {
                Some(shorter) => run = shorter,
                None => start += chunk,
            }
        }
        if chunk == 1 {
            return run;
        }
        chunk /= 2;
    }
}

fn simplified(
    mut run: Vec<Operation>,
    try_run: &mut impl FnMut(Vec<Operation>) -> Option<Vec<Operation>>,
) -> Vec<Operation> {
    let mut index = 0;
    while index < run.len() {
        let mut candidates = run[index].simpler().into_iter();
        let simpler = candidates.find_map(|simpler| {
            let mut candidate = run.clone();
            candidate[index] = simpler;
            try_run(candidate)
        });
        match simpler {
            Some(simpler) => run = simpler,
            None => index += 1,
        }
    }
    run
}
