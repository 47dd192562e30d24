//! Writers beside a commit: room comes to them as it comes along (`pace.rs`).

use std::sync::{Arc, Mutex};

use conformance::Journaled;
use engine::{Engine, Op};

use super::stores::{Bench, key, small};
use crate::Options;
use crate::pace::{STEPS, at_each_step};

/// What memtables may take: four of a sixteenth.
const BUDGET: u64 = 1 << 20;
const MEMTABLE: u64 = BUDGET / 16;
/// Keys that are written over and over beside the commit, so that it has what replaces some of its versions.
/// A prime, so that each of them is met.
const KEYS: u64 = 1499;
const VALUE: [u8; 20] = [7; 20];

/// Puts another pair, if it need not wait.
fn put_at_once(bench: &Bench, number: u64) -> bool {
    let name = key(number.wrapping_mul(0x9e37_79b9) % KEYS);
    let put = [Op::Put { key: &name, value: &VALUE }];
    if !bench.store.admit_at_once(&put).expect("it is taken") {
        return false;
    }
    let ticket = bench.sequence.begin();
    bench.store.apply(&put, ticket.seqno()).expect("it was admitted");
    true
}

/// Whoever writes as fast as it can beside a commit of several memtables gets in with each step of it: so it waits
/// for one of them at most, and there is room until the last.
#[test]
pub(super) fn writers_get_in_with_each_step_of_a_commit() {
    let options = Options { memtable_bytes_max: MEMTABLE, ..small() };
    let opened = Bench::with(device::memory(), Arc::new(Journaled), BUDGET, options);
    let bench = Arc::new(opened.expect("an empty device opens"));
    let (mut next, entered) = (0, Arc::new(Mutex::new(Vec::new())));
    for round in 0..4 {
        let commits = bench.detail("commits");
        while bench.detail("memtables") < 4 {
            assert!(put_at_once(&bench, next), "there is room for three");
            next += 1;
        }
        assert_eq!(bench.detail("commits"), commits, "nobody has run one");
        entered.lock().expect("no panic").clear();
        let (writer, told) = (Arc::clone(&bench), Arc::clone(&entered));
        let mut number = next;
        at_each_step(move |_| {
            let before = number;
            while put_at_once(&writer, number) {
                number += 1;
            }
            told.lock().expect("no panic").push(number - before);
        });
        bench.crank.run_all();
        at_each_step(|_| {});
        let entered = entered.lock().expect("no panic").clone();
        next += entered.iter().sum::<u64>();
        println!("{entered:?}");
        // What the first commit puts of its versions nobody knows before.
        if round == 0 {
            continue;
        }
        assert!(entered.len() as u64 >= STEPS / 2, "{} steps", entered.len());
        let (all, most) = (entered.iter().sum::<u64>(), entered.iter().max().copied());
        assert!(entered.iter().all(|count| *count > 0), "nobody got in at a step: {entered:?}");
        assert!(most.is_some_and(|most| most <= all / 3), "most got in at once: {entered:?}");
    }
    assert_eq!(bench.detail("stalls"), 0);
    let names = KEYS as usize;
    assert!(bench.pairs().len() <= names && bench.pairs().len() > names / 2);
}
