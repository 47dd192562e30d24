//! Changes that are broken off.

use engine::Engine;

use super::*;
use crate::Options;
use crate::tests::stores::{Bench, key, small};

/// A change of an interval that several were taken as, of which only tags were taken away: its first
/// pair is still the one it was.
#[test]
fn a_change_that_put_nothing_leaves_the_first_key() {
    let options = Options { fragments_max: 64, capacity_bytes: 140 * (16 << 10), ..small() };
    let bench = Bench::of(1 << 20, options.clone());
    for number in 0..100 {
        bench.put(&key(2 * number), &[7; 30]);
    }
    bench.flush();
    bench.store.close().expect("closes");
    let again = |bench: Bench| {
        let barrier = Arc::new(engine::NoJournal);
        Bench::with(bench.device, barrier, 1 << 20, options.clone()).expect("opens")
    };
    let bench = again(bench);
    let shared = &bench.store.shared;
    let bound_of = |found: &index::IndexSnapshot, at| index::bound_at(found, at).cloned();
    let second = {
        let index = shared.committer.lock().index.now().clone();
        let length = index.get(0).expect("an interval").length;
        bound_of(&index, u64::from(length)).expect("a second one")
    };
    // Cached, so its first pair is taken out in place.
    assert!(bench.get(&second).is_some());
    bench.delete(&second);
    bench.flush();
    assert_eq!(bench.detail("intervals_in_place"), 1);
    shared.cache.shrink(0);
    let number: u64 = String::from_utf8_lossy(&second[4..]).parse().expect("a number");
    let between = key(number + 1);
    let first_key = |shared: &Shared| {
        let index = shared.committer.lock().index.now().clone();
        let head = index::find(&index, &between).and_then(|found| found.entry.head().cloned());
        head.expect("an interval").first_key().to_vec()
    };
    assert_eq!(first_key(shared), key(number + 2));
    break_off(shared, &between);
    assert_eq!(first_key(shared), key(number + 2));
    bench.put(&between, b"kept");
    bench.flush();
    bench.store.close().expect("closes");
    assert_eq!(crate::check(&bench.device).expect("reads").damage, vec![]);
    let bench = again(bench);
    assert_eq!(bench.get(&between), Some(b"kept".to_vec()));
}

/// Puts a key to its interval, blindly, and more bytes with it than the space may have.
fn break_off(shared: &Shared, name: &[u8]) {
    let family = crate::memtable::Family::new(crate::tally::Tally::new(&shared.host.memory));
    let memtable = Memtable::new(SeqNo::ZERO, &family);
    let entered = memtable.enter().expect("it is not sealed");
    entered.insert(&engine::Op::Put { key: name, value: b"gone" }, SeqNo::new(1));
    drop(entered);
    let mut walker = Walker::new(&memtable, SeqNo::ZERO, SeqNo::MAX);
    walker.seek(Bound::Unbounded);
    let (updates, _) = take_updates(&mut walker, None);
    let mut committer = shared.committer.lock();
    let done = shared.space.together(|space| {
        let mut changing = Changing { shared, space, committer: &mut committer, delta: 0 };
        let base = changing.base().expect("the space is open");
        let found = base.interval_of(name).expect("an interval");
        let planner = Planner { shared, base: &base, limits: shared.interval_limits() };
        let planned = planner.plan(Some(&found), &updates).expect("nothing is read");
        let mut edit = planned.expect("a change");
        edit.data.resize(16 << 20, 0);
        let [Step::Tag { tag: 0, .. }, others @ ..] = &mut edit.steps[..] else {
            panic!("no tag is taken away first: {:?}", edit.steps);
        };
        for step in others {
            if let Step::Splice { data, .. } = step {
                *data = 0..16 << 20;
            }
        }
        Ok(changing.change(&edit, edit.offset))
    });
    assert_eq!(done.expect("the space is open"), Ok(false));
}
