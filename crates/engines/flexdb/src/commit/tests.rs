//! Changes that are broken off.

use engine::{BlockingWrites, Demand, Engine, Wait};
use reads::BlockingReads;

use std::ops::Bound;

use super::plan::{Known, Planner, Step};
use super::plan_parallel::{Inputs, Planning};
use super::*;
use crate::Options;
use crate::memory_split::ChunkLimits;
use crate::memtable::Walker;
use crate::tests::fragmented_queue;
use crate::tests::stores::{Bench, key, small};

/// A change of an interval that several were taken as, of which only tags were taken away: its
/// first pair is still the one it was.
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
        // A quarter of that is taken together.
        let options = Options { interval_bytes: 4 << 10, ..options.clone() };
        Bench::with(bench.0.device, barrier, 1 << 20, options).expect("opens")
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
    let number: u64 = String::from_utf8_lossy(&second[4..]).parse().expect("a number");
    // More than may be appended.
    [0, 4, 8, 12].iter().for_each(|by| _ = bench.delete(&key(number + by)));
    bench.flush();
    assert_eq!(bench.detail("intervals_in_place"), 1);
    shared.cache.shrink(0);
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
fn break_off(shared: &Arc<Shared>, name: &[u8]) {
    let memtables = memtable::MemtableSet::new(&shared.host.memory);
    let memtable = Memtable::new(SeqNo::ZERO, &memtables);
    let entered = memtable.enter().expect("it is not sealed");
    entered.insert(&engine::Op::Put { key: name, value: b"gone" }, SeqNo::new(1));
    drop(entered);
    let batch = Batch::of(vec![memtable]);
    let mut walker = batch.walker(SeqNo::ZERO, SeqNo::MAX);
    walker.seek(Bound::Unbounded);
    let (updates, _) = take_updates(&mut walker, None, &shared.options);
    let mut committer = shared.committer.lock();
    let done = shared.space.together(|space| {
        let mut changing = Changing::new(shared, space, &mut committer);
        let base = Arc::new(changing.base().expect("the space is open"));
        let found = base.interval_of(name).expect("an interval");
        let planner = Planner { shared, base: &base, limits: shared.interval_limits() };
        let planned = planner.plan(Some(&found), &updates, Known::Nothing);
        let planned = planned.expect("nothing is read");
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

/// Changes the first interval to one without bytes, as no plan does: it panics in the middle of
/// that.
pub(crate) fn change_to_nothing_sound(shared: &Arc<Shared>) {
    let mut committer = shared.committer.lock();
    let first = committer.index().now().get(0).expect("an interval");
    let (length, entry) = (first.length, first.entry.clone());
    let pieces = vec![(0, entry)];
    let edit = plan::Edit { offset: 0, length, data: Vec::new(), steps: Vec::new(), pieces };
    let done = shared.space.together(|space| {
        Ok(Changing::new(shared, space, &mut committer).change(&edit, edit.offset))
    });
    unreachable!("{done:?}");
}

/// Workers plan chunks ahead, no more than the limit, and the chunks are handed out in the order of
/// their keys; afterwards no thread holds the base.
#[test]
fn workers_plan_ahead_of_what_is_done() {
    let bench = Bench::of(1 << 20, small());
    for number in 0..600 {
        bench.put(&key(2 * number), b"before");
    }
    bench.flush();
    let shared = &bench.store.shared;
    let memtables = memtable::MemtableSet::new(&shared.host.memory);
    let memtable = Memtable::new(SeqNo::ZERO, &memtables);
    let entered = memtable.enter().expect("it is not sealed");
    for number in 0..600 {
        let put = engine::Op::Put { key: &key(2 * number + 1), value: b"after" };
        entered.insert(&put, SeqNo::new(number + 1));
    }
    drop(entered);
    let base = shared.base_of(shared.committer.lock().index()).map(Arc::new).expect("it is open");
    let weak = Arc::downgrade(&base);
    let inputs = |base: &Arc<Base>, chunks_max| Inputs {
        base: Arc::clone(base),
        batch: Batch::of(vec![Arc::clone(&memtable)]),
        above: SeqNo::ZERO,
        upto: SeqNo::MAX,
        from: index::Key::default(),
        limits: shared.interval_limits(),
        chunk: ChunkLimits { updates: 10, bytes: u64::MAX },
        chunks_max,
        is_short_of_room: false,
        run: Arc::default(),
    };
    let mut section = Planning::begin(shared, inputs(&base, 5));
    let updates = |chunk: Result<super::plan_parallel::Chunk>| -> usize {
        chunk.expect("nothing fails").planned.iter().map(|planned| planned.updates).sum()
    };
    let done: Vec<usize> = std::iter::from_fn(|| section.next().map(updates)).collect();
    assert_eq!(done.len(), 5, "a section of so many chunks");
    let next = section.rest().expect("the rest");
    assert_eq!(*next, *key(2 * done.iter().sum::<usize>() as u64 + 1));
    let mut planning = Planning::begin(shared, inputs(&base, usize::MAX));
    drop(base);
    planning.have_helped();
    bench.crank.run_all();
    assert_eq!(planning.planned(), plan_parallel::AHEAD);
    let (mut end, mut updates, mut chunks) = (0, 0, 0);
    while let Some(chunk) = planning.next() {
        let planned = chunk.expect("nothing fails").planned;
        assert!(!planned.is_empty());
        chunks += 1;
        for planned in planned {
            let edit = planned.edit.expect("each interval changes");
            assert!(edit.offset >= end && edit.length > 0, "in order");
            end = edit.offset + u64::from(edit.length);
            updates += planned.updates;
        }
    }
    assert_eq!(updates, 600);
    assert!((30..=60).contains(&chunks), "{chunks} chunks");
    drop(planning);
    assert!(weak.upgrade().is_none(), "somebody holds the base");
    bench.crank.run_all();
}

/// The bases that an earlier try has kept for pins are of its own memtables, so a memtable that was
/// sealed since waits for the next commit.
#[test]
fn a_commit_that_is_not_done_is_done_again_with_the_same_memtables() {
    let bench = Bench::new();
    let shared = &bench.store.shared;
    let seal = || shared.seal(&Arc::clone(&shared.open_state().expect("it is open").active));
    let next = || {
        let state = shared.open_state().expect("it is open");
        let batch = shared.next_batch(&mut shared.committer.lock(), &state, u64::MAX);
        batch.map(|batch| batch.ids())
    };
    assert_eq!(next(), None);
    bench.put(b"first", b"1");
    seal();
    bench.put(b"second", b"2");
    seal();
    let ids = next().expect("two wait");
    assert_eq!(ids.1, ids.0 + 1, "as one");
    bench.put(b"third", b"3");
    seal();
    assert_eq!(next(), Some(ids));
    bench.crank.run_all();
    assert_eq!((bench.detail("commits"), bench.detail("committed_memtables")), (2, 3));
    assert_eq!(bench.detail("committed_pairs"), 3);
    assert_eq!(bench.pairs().len(), 3);
}

/// A commit whose plans come from several threads, with little memory, against a map.
#[test]
fn many_threads_plan_what_one_does() {
    use rand::RngExt;
    let seed = std::env::var("THERMOCLINE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| environment::Seed::from_entropy().get());
    println!("seed {seed}; THERMOCLINE_SEED={seed} cargo test -p thermocline-flexdb many_threads");
    let mut random: environment::Random = environment::Seed::from(seed).stream("planning");
    let environment = environment::Environment::real();
    let telemetry = telemetry::Registry::default();
    let workers = workers::Pool::start(&environment, 3, &telemetry).expect("threads");
    let sequence = Arc::new(engine::Sequence::new());
    let host = engine::Host {
        device: device::memory(),
        environment,
        workers,
        telemetry,
        sequence: Arc::clone(&sequence),
        barrier: Arc::new(engine::NoJournal),
        memory: Arc::new(memory_budget::MemoryBudget::new(1 << 20)),
    };
    let options = Options { memtable_bytes_max: 48 << 10, ..small() };
    let store = crate::Store::open(host, options).expect("opens");
    let mut model = BTreeMap::new();
    for step in 0..40_000_u64 {
        let name = key(random.random_range(0..3000));
        let value = vec![step as u8; random.random_range(0..100)];
        let op = match random.random_range(0..4) {
            0 => engine::Op::Delete { key: &name },
            _ => engine::Op::Put { key: &name, value: &value },
        };
        store.reserve(&Demand::Ops(&[op]), Wait::Yes).map(drop).expect("there is room");
        store.write_next(&[op], &sequence).expect("taken");
        match op.value() {
            Some(_) => drop(model.insert(name, value)),
            None => drop(model.remove(&name)),
        }
    }
    store.flush().expect("flushes");
    let commits = store.shared.figures.counts.commits.load(Relaxed);
    println!("{commits} commits");
    assert!(commits > 10, "{commits}");
    store.shared.committer.lock().check().unwrap_or_else(|fault| panic!("{fault}"));
    let view = store.view(sequence.pin());
    let all = engine::KeyRange::all();
    let pairs = crate::tests::stores::scan(&view, all, engine::Direction::Forward);
    assert!(pairs == model.into_iter().collect::<Vec<_>>());
    store.close().expect("closes");
}

/// A chunk also ends by the bytes of its intervals, which are read whole: few of them are planned
/// together if values are long, however short their deletes are.
#[test]
fn a_chunk_of_long_values_has_few() {
    let bench = Bench::of(4 << 20, small());
    for number in 0..40 {
        bench.put(&key(number), &[7; 6000]);
    }
    bench.flush();
    let shared = &bench.store.shared;
    let memtables = memtable::MemtableSet::new(&shared.host.memory);
    let memtable = Memtable::new(SeqNo::ZERO, &memtables);
    let entered = memtable.enter().expect("it is not sealed");
    for number in 0..40 {
        entered.insert(&engine::Op::Delete { key: &key(number) }, SeqNo::new(number + 1));
    }
    drop(entered);
    let chunk = shared.memory_split().chunk(&shared.options);
    assert_eq!(chunk, ChunkLimits { updates: 8, bytes: 32 << 10 });
    let base = shared.base_of(shared.committer.lock().index()).map(Arc::new).expect("it is open");
    let (above, upto, from) = (SeqNo::ZERO, SeqNo::MAX, index::Key::default());
    let limits = shared.interval_limits();
    let (chunks_max, is_short_of_room) = (usize::MAX, false);
    let inputs = Inputs {
        base,
        batch: Batch::of(vec![memtable]),
        above,
        upto,
        from,
        limits,
        chunk,
        chunks_max,
        is_short_of_room,
        run: Arc::default(),
    };
    let mut planning = Planning::begin(shared, inputs);
    let mut intervals = 0;
    while let Some(chunk) = planning.next() {
        let planned = chunk.expect("nothing fails").planned;
        assert!(planned.len() <= 6, "{} intervals of 6000 bytes at once", planned.len());
        intervals += planned.len();
    }
    assert_eq!(intervals, 40);
}

/// Pins get the state that they see before the first pair is taken out, whatever fails afterwards.
#[test]
fn room_by_deletes_that_is_broken_off_takes_nothing_from_a_view() {
    let bench = Bench::of(1 << 20, small());
    for number in 0..100 {
        bench.put(&key(number), b"there");
    }
    bench.flush();
    let view = bench.view();
    for number in 0..100 {
        bench.delete(&key(number));
    }
    let shared = &bench.store.shared;
    {
        let mut committer = shared.committer.lock();
        let state = shared.open_state().expect("it is open");
        let memtables: Vec<_> = state.memtables().cloned().collect();
        let newest = bench.sequence.visible();
        let pins = bench.sequence.pins_below(newest).expect("nobody takes one");
        let before = Arc::new(shared.base_of(committer.index()).expect("it is open"));
        let taken = shared.space.together(|space| {
            Ok(shared.take_out(space, &mut committer, &before, &pins, &memtables, newest))
        });
        assert!(taken.expect("it is open").expect("nothing fails") > 0);
    }
    let seen =
        || crate::tests::stores::scan(&view, engine::KeyRange::all(), engine::Direction::Forward);
    assert_eq!(seen().len(), 100);
    bench.flush();
    assert_eq!(seen().len(), 100);
    assert_eq!(bench.pairs(), []);
}

/// A delete of pairs that the refused commit itself has put in: the next try takes the freed room
/// again, so it helps once, and then the commit fails.
#[test]
fn room_by_deletes_that_the_next_try_takes_again_is_made_once() {
    // Each interval that is changed is rewritten, so pairs can be taken out of it.
    let options = Options { capacity_bytes: 140 * (16 << 10), tail_pairs_max: 0, ..small() };
    let bench = Bench::of(256 << 10, options);
    let scattered = (0..10_000).map(|number| (number * 7919 % 10_007, 7));
    let taken = crate::tests::commits::fill(&bench, scattered).expect("some time it is full");
    let shared = &bench.store.shared;
    let waiting = || shared.open_state().expect("it is open").sealed.last().cloned();
    let least = {
        let oldest = waiting().expect("a memtable that was refused");
        let mut walker = Walker::new(&oldest, SeqNo::ZERO, SeqNo::MAX);
        walker.seek(Bound::Unbounded);
        walker.here().expect("a write").key().to_vec()
    };
    bench.delete(&least);
    let committed = (0..50).map(|_| shared.commit_oldest(u64::MAX)).find(Result::is_err);
    let Some(Err(refused)) = committed else { panic!("no end: {committed:?}") };
    assert!(is_for_want_of_room(&refused), "{refused}");
    assert!(bench.detail("relieved_pairs") > 0);
    let view = bench.view();
    let pairs =
        crate::tests::stores::scan(&view, engine::KeyRange::all(), engine::Direction::Forward);
    assert_eq!(pairs.len(), taken - 1);
}

/// A commit that has found no room continues where it stopped: a blindly appended update is there
/// once.
#[test]
fn a_commit_that_was_refused_puts_nothing_twice() {
    use device::{Failure, Fault, FaultDevice, Lasting, OperationKind};
    let device = FaultDevice::new(device::memory());
    let options = Options {
        memtable_bytes_max: 256 << 10,
        interval_bytes: 16 << 10,
        tail_pairs_max: 24,
        fragments_max: 64,
        ..small()
    };
    let barrier = Arc::new(engine::NoJournal);
    let bench = Bench::with(device.clone(), barrier, 4 << 20, options).expect("opens");
    for number in 0..1200 {
        bench.put(&key(number), &[1; 20]);
    }
    bench.flush();
    let shared = &bench.store.shared;
    shared.cache.shrink(0);
    let before = shared.space.len();
    let mut bytes = 0;
    for number in (0..1200).step_by(10) {
        let (key, value) = (key(number), [2; 1000]);
        let mut pair = Vec::new();
        crate::pair::Pair { key: &key, value: Some(&value) }.encode(&mut pair);
        bytes += pair.len() as u64;
        bench.put(&key, &value);
    }
    // More than two segments, of which the second finds no room.
    assert!(bytes > 64 << 10);
    let kind = Some(OperationKind::Resize);
    let nth = device.count(kind) + 2;
    device.fail(Fault { kind, nth, failure: Failure::NoSpace, lasting: Lasting::Once });
    bench.flush();
    assert!(bench.detail("room_made") > 0 && device.count(kind) > nth);
    assert_eq!(shared.space.len(), before + bytes);
    assert_eq!(bench.pairs().len(), 1200);
}

/// A change that was planned for an interval that does not exist is refused before anything is
/// done.
#[test]
fn a_change_of_an_interval_that_is_not_there_is_refused() {
    let bench = Bench::new();
    for number in 0..100 {
        bench.put(&key(number), b"there");
    }
    bench.flush();
    let shared = &bench.store.shared;
    let first = {
        let committer = shared.committer.lock();
        committer.index().now().get(0).expect("an interval").length
    };
    for (offset, length) in [(1, first), (0, first - 1), (0, first + 1), (0, 0), (u64::MAX, first)]
    {
        let mut committer = shared.committer.lock();
        let steps = vec![Step::Splice { at: 0, removed: length, data: 0..0, tag: 0 }];
        let edit = plan::Edit { offset, length, data: Vec::new(), steps, pieces: Vec::new() };
        let done = shared.space.together(|space| {
            Ok(Changing::new(shared, space, &mut committer).change(&edit, offset))
        });
        assert!(matches!(done, Ok(Err(Error::Corruption(_)))), "{offset}, {length}: {done:?}");
    }
    bench.check();
    assert_eq!(bench.pairs().len(), 100);
    let refused =
        bench.store.reserve(&Demand::Ops(&[engine::Op::Delete { key: b"k" }]), Wait::Yes).map(drop);
    assert!(matches!(refused, Err(Error::ReadOnly { .. })), "{refused:?}");
}

/// In the middle of a commit readers may get a base that has a part of it. No reader gets a pair
/// that was kept before, because a memtable has these keys. The pair is forgotten before the
/// memtable goes.
#[test]
fn a_base_of_a_part_of_a_commit_changes_no_pair() {
    use crate::tests::pairs::{crowded, get, value};
    let bench = crowded();
    let shared = &bench.store.shared;
    let view = bench.view();
    let changed: Vec<u64> = (0..300).map(|at| at * 40).collect();
    for number in &changed {
        bench.get(&key(*number));
        assert_eq!(get(&bench, &key(*number)), (Some(value(*number)), true));
        bench.put(&key(*number), b"new");
    }
    let active = Arc::clone(&shared.open_state().expect("it is open").active);
    shared.seal(&active);
    {
        let mut committer = shared.committer.lock();
        let before = Arc::new(shared.base_of(committer.index()).expect("it is open"));
        let pins = bench.sequence.pins_below(active.newest()).expect("nobody takes one");
        pins.iter().for_each(|pin| _ = committer.kept.insert(*pin, Arc::clone(&before)));
        let put = shared.space.together(|space| {
            let mut changing = Changing::new(shared, space, &mut committer);
            Ok(changing.put_between(&Batch::of(vec![Arc::clone(&active)]), SeqNo::ZERO, SeqNo::MAX))
        });
        assert_eq!(put.expect("it is open"), Ok(true));
        shared.renew_base(&mut committer).expect("it is open");
    }
    let mut seen = Vec::new();
    for number in &changed {
        assert_eq!(get(&bench, &key(*number)), (Some(b"new".to_vec()), false));
        assert_eq!(view.get(&key(*number), &mut seen), Ok(true));
        assert_eq!(seen, value(*number));
    }
    bench.flush();
    for number in &changed {
        assert_eq!(get(&bench, &key(*number)), (Some(b"new".to_vec()), false));
        assert_eq!(view.get(&key(*number), &mut seen), Ok(true));
        assert_eq!(seen, value(*number));
    }
}

#[test]
fn nothing_is_written_for_scans_where_a_commit_has_found_no_room() {
    let (bench, _) = fragmented_queue::in_pieces();
    let shared = &bench.store.shared;
    for is_short_of_room in [true, false] {
        fragmented_queue::pass_a_second(&bench);
        shared.cache.shrink(0);
        fragmented_queue::all(&bench);
        shared.committer.lock().is_short_of_room = is_short_of_room;
        shared.rewrite_fragmented().expect("nothing fails");
        let written = bench.detail("bytes_written_for_scans");
        assert_eq!(written == 0, is_short_of_room, "{written} bytes");
    }
}
