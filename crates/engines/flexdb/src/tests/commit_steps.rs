//! Writers during a commit: they get room with each of its steps (`commit_steps.rs`).

use std::sync::{Arc, Mutex};

use conformance::Journaled;
use engine::{Demand, Engine, Op, Wait};

use super::stores::{Bench, key, small};
use crate::Options;
use crate::commit_steps::{STEPS, at_each_step};

/// The budget, of which memtables may take four sixteenths.
const BUDGET: u64 = 1 << 20;
const MEMTABLE: u64 = BUDGET / 16;
/// Keys that are written again and again during the commit, so that some of its versions are
/// replaced. A prime, so that the test writes each of them.
const KEYS: u64 = 1499;
const VALUE: [u8; 20] = [7; 20];

/// Puts another pair, if it need not wait.
fn try_put(bench: &Bench, number: u64) -> bool {
    let name = key(number.wrapping_mul(0x9e37_79b9) % KEYS);
    let put = [Op::Put { key: &name, value: &VALUE }];
    let granted = bench.store.reserve(&Demand::Ops(&put), Wait::No).expect("it is taken");
    let Some(mut room) = granted else { return false };
    let ticket = bench.sequence.begin();
    bench.store.apply(&put, ticket.seqno(), &mut room).expect("it was granted");
    true
}

/// A writer that writes as fast as it can during a commit of several memtables gets room with each
/// of its steps. So it waits for one step at most, and there is room until the last one.
#[test]
fn writers_get_in_with_each_step_of_a_commit() {
    let options = Options { memtable_bytes_max: MEMTABLE, ..small() };
    let opened = Bench::with(device::memory(), Arc::new(Journaled), BUDGET, options);
    let bench = Arc::new(opened.expect("an empty device opens"));
    let (mut next, entered) = (0, Arc::new(Mutex::new(Vec::new())));
    for round in 0..4 {
        let commits = bench.detail("commits");
        while bench.detail("memtables") < 4 {
            assert!(try_put(&bench, next), "there is room for three");
            next += 1;
        }
        assert_eq!(bench.detail("commits"), commits, "no task has run one");
        entered.lock().expect("no panic").clear();
        let (writer, counts) = (Arc::clone(&bench), Arc::clone(&entered));
        let mut number = next;
        at_each_step(move |_| {
            let before = number;
            while try_put(&writer, number) {
                number += 1;
            }
            counts.lock().expect("no panic").push(number - before);
        });
        bench.crank.run_all();
        at_each_step(|_| {});
        let entered = entered.lock().expect("no panic").clone();
        next += entered.iter().sum::<u64>();
        println!("{entered:?}");
        // The part of its versions that the first commit puts is not known before.
        if round == 0 {
            continue;
        }
        assert!(entered.len() as u64 >= STEPS / 2, "{} steps", entered.len());
        let (all, most) = (entered.iter().sum::<u64>(), entered.iter().max().copied());
        assert!(entered.iter().all(|count| *count > 0), "no write got in at a step: {entered:?}");
        assert!(most.is_some_and(|most| most <= all / 3), "most got in with one step: {entered:?}");
    }
    assert_eq!(bench.detail("stalls"), 0);
    let names = KEYS as usize;
    assert!(bench.pairs().len() <= names && bench.pairs().len() > names / 2);
}
