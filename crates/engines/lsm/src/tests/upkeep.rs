//! Flushes and compactions: their results, and that writers wait for them, but not forever.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use codec::SeqNo;
use engine::{
    Barrier, BlockingWrites, Demand, Direction, Engine, KeyRange, Reservation, Result, Sequence,
    Wait,
};
use reads::BlockingReads;
use sync::locks::Mutex;

use super::stores::{Bench, both, key, scan, small};
use crate::Options;
use lsm_tree::version::LEVELS;

#[test]
fn levels_keep_their_measure_and_everything_is_found() {
    for options in both() {
        let bench = Bench::of(options.clone());
        let mut expected = BTreeMap::new();
        for number in 0..4000_u64 {
            let number = number * 7919 % 1999;
            let value = vec![number as u8; 30];
            bench.put(&key(number), &value);
            expected.insert(key(number), value);
        }
        bench.run_background();
        let depth = bench.store.shared.state.load().version.level0_weight(u64::MAX);
        assert!(depth < options.level0_tables);
        for (level, figure) in ["level1_bytes", "level2_bytes"].into_iter().enumerate() {
            let measure = options.level1_bytes * options.level_ratio.pow(level as u32);
            assert!(
                bench.detail(figure) <= measure,
                "{figure}: {} of {measure}",
                bench.detail(figure)
            );
        }
        assert!(bench.detail("level3_tables") > 0, "there are several levels");
        assert_eq!(bench.pairs(), expected.clone().into_iter().collect::<Vec<_>>());
        for (key, value) in &expected {
            assert_eq!(bench.get(key).as_ref(), Some(value));
        }
    }
}

#[test]
fn overwritten_and_deleted_keys_leave_nothing() {
    for options in both() {
        let bench = Bench::of(options);
        for round in 0..5_u8 {
            for number in 0..500 {
                bench.put(&key(number), &[round; 40]);
            }
        }
        bench.run_background();
        for number in 0..500 {
            bench.delete(&key(number));
        }
        for _ in 0..3 {
            bench.run_background();
        }
        assert_eq!(bench.pairs(), []);
        assert_eq!(bench.table_entries(), 0);
        for number in 0..3000 {
            bench.put(&key(number % 600), b"again");
        }
        bench.run_background();
        assert_eq!(bench.pairs().len(), 600);
        assert!(bench.table_entries() < 2000, "{} versions of 600 keys", bench.table_entries());
    }
}

/// Nor does the last reader that leaves them wait for the file system.
#[test]
fn tables_that_a_reader_leaves_are_removed_by_a_task_or_at_the_close() {
    for is_closed in [false, true] {
        let bench = Bench::of(small());
        let files = || bench.device.list("").expect("memory lists").len();
        let write = |value| {
            for number in 0..300 {
                bench.put(&key(number), &[value; 40]);
            }
        };
        write(1);
        bench.run_background();
        let reader = bench.store.shared.state.load_full();
        write(2);
        bench.run_background();
        let with_reader = files();
        drop(reader);
        assert_eq!(files(), with_reader, "it removed nothing itself");
        if is_closed {
            bench.store.close().expect("closes");
        } else {
            bench.crank.run_all();
        }
        assert!(files() < with_reader, "{} of {with_reader} files", files());
    }
}

/// A queue: a reader of its first pair does not walk over all pairs that were removed before.
#[test]
fn tombstones_of_a_queue_go_though_no_level_is_full() {
    let options = Options { level0_tables: 9, level1_bytes: 1 << 20, ..small() };
    let bench = Bench::of(options);
    for number in 0..2000 {
        bench.put(&key(number), &[1; 40]);
        if number >= 10 {
            bench.delete(&key(number - 10));
        }
    }
    let snapshot = bench.view();
    bench.delete(&key(1990));
    bench.run_background();
    // The version that the snapshot sees, its successor, and the younger versions in the same
    // table.
    let seen = bench.table_entries();
    assert!(seen < 200, "{seen} versions for 10 pairs");
    assert_eq!(scan(&snapshot, KeyRange::all(), Direction::Forward).len(), 10);
    drop(snapshot);
    bench.put(b"zzz", b"the next flush asks again");
    bench.run_background();
    assert_eq!((bench.table_entries(), bench.pairs().len()), (10, 10));
}

/// Bytes that do not compress.
fn noise(round: u32) -> Vec<u8> {
    (0..13_u8).flat_map(|part| codec::hash64(u64::from(round), &[part]).to_le_bytes()).collect()
}

#[test]
fn a_key_with_many_seen_versions_stays_in_one_table() {
    for options in both() {
        let bench = Bench::of(options);
        let mut views = Vec::new();
        for round in 0..300_u32 {
            bench.put(b"hot", &noise(round));
            bench.put(&key(u64::from(round)), b"cold");
            views.push((bench.view(), round));
            if round % 30 == 29 {
                bench.run_background();
            }
        }
        let mut value = Vec::new();
        for (view, round) in &views {
            assert!(view.get(b"hot", &mut value).expect("the store is open"));
            assert_eq!(value, noise(*round));
        }
        let report = crate::check(&bench.device).expect("memory reads");
        assert_eq!(report.damage, []);
        let state = bench.store.shared.state.load_full();
        let with_hot = (1..LEVELS).map(|level| {
            state.version.level(level).iter().filter(|table| table.covers(b"hot")).count()
        });
        assert!(with_hot.into_iter().all(|count| count <= 1), "V2");
    }
}

#[test]
fn writers_wait_for_flushes_without_end_of_memory() {
    let bench = Bench::new();
    // Nothing is cranked but by waiting writers.
    for number in 0..3000 {
        bench.put(&key(number), &[1; 100]);
    }
    assert!(bench.detail("stalls") > 0);
    assert!(bench.detail("memtables") <= 4);
    let unit = bench.store.shared.memory_split().level0_unit();
    let weight = bench.store.shared.state.load().version.level0_weight(unit);
    assert!(weight <= 2 * 8 + 1, "{weight}");
    assert_eq!(bench.pairs().len(), 3000);
}

/// Writers that were admitted together do not exceed the memtables' share together, nor do writers
/// without admission.
#[test]
fn long_values_of_several_writers_stay_within_the_share() {
    for options in both() {
        let barrier = std::sync::Arc::new(engine::NoJournal);
        let bench = Bench::with_options(device::memory(), barrier, 1 << 20, options);
        let bench = bench.expect("opens");
        let shared = &bench.store.shared;
        // Two of them, but not three.
        let share = shared.memory_split().memtables_bytes;
        let value = vec![1; share as usize * 2 / 5];
        let keys: Vec<_> = (0..4).map(key).collect();
        let ops: Vec<_> = keys.iter().map(|key| engine::Op::Put { key, value: &value }).collect();
        ops.iter().for_each(|op| {
            bench.store.reserve(&Demand::Ops(&[*op]), Wait::Yes).map(drop).expect("it is admitted")
        });
        for op in &ops {
            bench.store.write_next(&[*op], &bench.sequence).expect("it was admitted");
            let used = shared.memtables.memory().bytes();
            assert!(used <= share, "{used} bytes of {share}");
        }
        for number in 4..8 {
            let ticket = bench.sequence.begin();
            let mut operator = |_: Option<&[u8]>| engine::Change::Put(value.clone());
            bench.store.rmw(&key(number), &mut operator, ticket.seqno()).expect("it is taken");
            let used = shared.memtables.memory().bytes();
            assert!(used <= share, "{used} bytes of {share}");
        }
        // One larger than the share goes in alone, and the next one waits until it is flushed.
        let large = vec![2; share as usize + 1];
        for number in 8..10 {
            bench.put(&key(number), &large);
            let used = shared.memtables.memory().bytes();
            assert!(used < 2 * share, "{used} bytes of {share}");
        }
        assert_eq!(bench.pairs().len(), 10);
        drop(bench.store.close());
        assert!(!bench.store.shared.memtables.memory().has_reservations());
    }
}

/// Writers that wait for each other's memory finish, and leave no memory reserved.
#[test]
fn long_values_of_many_threads_all_go_in() {
    let bench = std::sync::Arc::new(Bench::new());
    let share = bench.store.shared.memory_split().memtables_bytes;
    let environment = environment::Environment::real();
    let write = |thread: u64| {
        let bench = std::sync::Arc::clone(&bench);
        let task = move || {
            for number in 0..25 {
                let size = share / (1 + (thread + number) % 4);
                bench.put(&key(100 * thread + number), &vec![1; size as usize]);
            }
        };
        environment.spawn("write", task).expect("a thread")
    };
    let threads: Vec<_> = (0..4).map(write).collect();
    threads.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
    assert!(!bench.store.shared.memtables.memory().has_reservations());
    assert_eq!(bench.pairs().len(), 100);
}

/// With any choice, all of Level 0 is due before writers wait for it.
#[test]
fn writers_wait_for_nothing_that_is_never_planned() {
    let small = super::stores::small();
    let options = crate::Options { level0_tables: 100, level0_tables_slow: 2, ..small };
    let bench = Bench::of(options);
    for number in 0..3000 {
        bench.put(&key(number), &[1; 60]);
    }
    assert_eq!(bench.pairs().len(), 3000);
}

#[test]
fn a_table_with_nothing_below_moves_without_being_written() {
    let bench = Bench::new();
    for number in 0..4000 {
        bench.put(&key(number), &[2; 60]);
    }
    bench.run_background();
    assert!(bench.detail("moves") > 0, "ascending keys overlap with nothing");
    assert_eq!(bench.pairs().len(), 4000);
}

/// A table that cannot be read is no reason to stop writes, until Level 0 is full; its error has a
/// place.
#[test]
fn damage_halts_compactions_and_nothing_else() {
    let bench = Bench::new();
    for number in 0..200 {
        bench.put(&key(number), &[3; 60]);
    }
    bench.run_background();
    let state = bench.store.shared.state.load_full();
    for (_, table) in state.version.tables() {
        let name = format!("table-{}", table.summary().id.number);
        let file = bench.device.open(&name, device::Mode::Write).expect("it is there");
        file.write_at(20, b"damage").expect("memory writes");
    }
    drop(state);
    let value = [4; 60];
    let mut refused = None;
    for number in 0..4000 {
        let key = key(number % 200);
        let ops = [engine::Op::Put { key: &key, value: &value }];
        if let Err(error) = bench.store.reserve(&Demand::Ops(&ops), Wait::Yes).map(drop) {
            refused = Some((number, error));
            break;
        }
        bench.store.write_next(&ops, &bench.sequence).expect("it was admitted");
    }
    let (written, error) = refused.expect("Level 0 is full some time");
    assert!(
        matches!(&error, engine::Error::Corruption(damage) if damage.offset == 16),
        "{error:?}"
    );
    assert!(written > 500, "writes went on: {written}");
    assert_eq!(bench.get(&key(1)), Some(value.to_vec()));
    bench.store.flush().expect("flushes go on");
}

#[test]
fn tables_of_a_small_store_are_small() {
    let options = crate::Options::default();
    let barrier = std::sync::Arc::new(engine::NoJournal);
    let bench = Bench::with_options(device::memory(), barrier, 1 << 20, options).expect("opens");
    for number in 0..30_000 {
        bench.put(&key(number * 7919 % 30_000), &noise(number as u32));
    }
    bench.run_background();
    let state = bench.store.shared.state.load_full();
    let largest = state.version.tables().map(|(_, table)| table.summary().stored_bytes).max();
    let largest = largest.expect("there are tables");
    assert!((2 << 20..9 << 18).contains(&largest), "{largest} bytes");
}

/// A table ends where it would overlap with too much of the level that it goes to next.
#[test]
fn no_table_overlaps_with_all_of_a_large_level() {
    use lsm_tree::plan::compaction::Job;
    use lsm_tree::version::Change;
    let bench = Bench::new();
    let shared = &bench.store.shared;
    let flush = |numbers: &mut dyn Iterator<Item = u64>, level| {
        numbers.for_each(|number| {
            bench.put(&key(number), &noise(number as u32));
        });
        bench.store.flush().expect("memory takes it");
        let state = shared.state.load_full();
        let tables = state.version.level(0).iter().cloned();
        let added: Vec<_> = tables.map(|table| (level, table)).collect();
        let removed = added.iter().map(|(_, table)| (0, table.summary().id.number)).collect();
        shared.commit(Change { removed, added }, &[], codec::SeqNo::ZERO).expect("memory takes it");
    };
    for number in 0..100 {
        flush(&mut (20 * number..20 * number + 20), 3);
    }
    flush(&mut (0..20).map(|number| 50 * number), 1);
    flush(&mut (20..40).map(|number| 50 * number), 1);
    let version = shared.state.load().version.clone();
    let upper = version.level(1).to_vec();
    let job = || Job {
        from: 1,
        to: 2,
        upper: upper.clone(),
        lower: Vec::new(),
        drops: false,
        yields: false,
    };
    let below = version.overlapping(3, b"", &key(u64::MAX)).len();
    assert_eq!((upper.len(), below), (2, 100));
    let one = Job { upper: upper[..1].to_vec(), ..job() };
    for job in [one, Job { upper: upper[1..].to_vec(), ..job() }] {
        shared.compact(job, &shared.background.group.token()).expect("memory takes it");
    }
    let state = shared.state.load_full();
    let overlapping = |table: &std::sync::Arc<lsm_tree::table::Table>| {
        let properties = &table.summary().properties;
        state.version.overlapping(3, &properties.smallest, &properties.largest).len()
    };
    let most = state.version.level(2).iter().map(overlapping).max().expect("there are tables");
    assert!((5..40).contains(&most), "{most}");
    assert_eq!(bench.pairs().len(), 2000);
}

/// Writes a value of one byte's repetitions to keys of these numbers.
fn put(bench: &Bench, numbers: std::ops::Range<u64>, byte: u8) {
    for number in numbers {
        bench.put(&key(number), &[byte; 60]);
    }
}

#[test]
fn damage_halts_no_compactions_of_other_keys() {
    let bench = Bench::new();
    put(&bench, 0..20, 3);
    bench.store.flush().expect("memory takes it");
    let table = bench.store.shared.state.load().version.level(0)[0].summary().id.number;
    let file = bench.device.open(&format!("table-{table}"), device::Mode::Write);
    file.expect("it is there").write_at(20, b"damage").expect("memory writes");
    put(&bench, 0..20, 4);
    bench.run_background();
    assert_eq!((bench.detail("compactions_failed"), bench.detail("compactions")), (1, 0));
    for round in 0..20 {
        put(&bench, 10_000..10_200, round);
        bench.run_background();
    }
    assert!(bench.detail("compactions") >= 10);
    assert_eq!(bench.detail("compactions_failed"), 1, "it is not tried again");
    assert!(bench.detail("level0_tables") <= 3, "two that could not be merged, and a single one");
    assert_eq!(bench.get(&key(1)), Some(vec![4; 60]));
    assert_eq!(bench.get(&key(10_001)), Some(vec![19; 60]));
}

/// A memtable that has a successor may still be written to, by a writer that entered it before.
#[test]
fn a_flush_waits_for_writers_of_its_memtable() {
    let bench = Bench::new();
    bench.put(b"early", b"1");
    let shared = &bench.store.shared;
    let state = shared.state.load_full();
    let entered = state.actives[0].enter().expect("it is not sealed");
    let environment = environment::Environment::real();
    let (sealing, full) = (shared.clone(), state.actives.clone());
    let seal = environment.spawn("seal", move || sealing.seal(&full)).expect("a thread");
    while shared.state.load().sealed.is_empty() {
        std::thread::yield_now();
    }
    let flushing = shared.clone();
    let flush = environment
        .spawn("flush", move || flushing.flush_sealed(crate::background::flush::Wanted::Everything))
        .expect("a thread");
    for _ in 0..10_000 {
        std::thread::yield_now();
    }
    let late = bench.sequence.begin();
    let op = engine::Op::Put { key: b"late", value: b"2" };
    entered.insert(&op, late.seqno(), &mut engine::Reservation::uncounted());
    drop((entered, late));
    seal.join().expect("it does not panic");
    flush.join().expect("it does not panic").expect("memory takes it");
    assert_eq!(bench.detail("flushes"), 1);
    assert_eq!(bench.get(b"late").as_deref(), Some(&b"2"[..]));
}

/// A journal that does something else once, when it is first asked how far it goes.
struct Interrupting(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl std::fmt::Debug for Interrupting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Interrupting")
    }
}

impl Barrier for Interrupting {
    fn reach(&self, seqno: SeqNo) -> Result<SeqNo> {
        let interrupt = self.0.lock().take();
        interrupt.into_iter().for_each(|interrupt| interrupt());
        Ok(seqno)
    }
    fn is_journaled(&self) -> bool {
        true
    }
}

/// A journal with a writer that fills a memtable each time that it is asked, a given number of
/// times.
#[derive(Debug, Default)]
struct Pacing {
    store: Mutex<Option<(Arc<crate::store::Shared>, Arc<Sequence>)>>,
    left: AtomicU64,
}

impl Barrier for Pacing {
    fn reach(&self, seqno: SeqNo) -> Result<SeqNo> {
        let store = self.store.lock().clone();
        if let Some((shared, sequence)) = store
            && self.left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok()
        {
            let ticket = sequence.begin();
            let op = engine::Op::Put { key: b"meanwhile", value: b"2" };
            shared
                .apply(&[op], ticket.seqno(), &mut Reservation::uncounted())
                .expect("the store is open");
            drop(ticket);
            shared.seal_where(&|active| !active.is_empty());
        }
        Ok(seqno)
    }
    fn is_journaled(&self) -> bool {
        true
    }
}

/// Otherwise the journal is not trimmed as long as a writer writes much.
#[test]
fn a_flush_ends_though_memtables_are_filled_as_fast_as_it_writes_them() {
    const TIMES: u64 = 100;
    let journal = Arc::new(Pacing::default());
    let bench = Bench::with(device::memory(), journal.clone(), 1 << 20).expect("opens");
    let before = bench.put(b"before", b"1");
    journal.left.store(TIMES, SeqCst);
    *journal.store.lock() = Some((bench.store.shared.clone(), bench.sequence.clone()));
    bench.store.flush().expect("memory takes it");
    *journal.store.lock() = None;
    let filled = TIMES - journal.left.load(SeqCst);
    assert!((1..5).contains(&filled), "{filled} memtables were filled until it ended");
    assert!(bench.store.persisted() >= before);
    assert!(bench.store.shared.state.load().due() > 0, "the last one waits");
    bench.crank.run_all();
    assert_eq!(bench.store.shared.state.load().due(), 0, "and for no other flush");
    assert_eq!(bench.pairs().len(), 2);
}

/// Or threads of the pool would wait for a flush to end, and compact nothing.
#[test]
fn no_flush_is_queued_beside_one_and_what_is_sealed_meanwhile_is_flushed() {
    let journal = Arc::new(Interrupting(Mutex::new(None)));
    let bench = Bench::with(device::memory(), journal.clone(), 1 << 20).expect("opens");
    let (shared, sequence) = (bench.store.shared.clone(), Arc::clone(&bench.sequence));
    let crank = bench.crank.clone();
    let hook = move || {
        let ticket = sequence.begin();
        let op = engine::Op::Put { key: b"second", value: b"2" };
        shared
            .apply(&[op], ticket.seqno(), &mut Reservation::uncounted())
            .expect("the store is open");
        shared.seal_where(&|active| !active.is_empty());
        assert_eq!(shared.state.load().due(), 2, "the first one is not in its table yet");
        assert_eq!(crank.ready(), 0, "the flush that is under way sees to it");
    };
    // The plan that an opening makes.
    bench.crank.run_all();
    *journal.0.lock() = Some(Box::new(hook));
    bench.put(b"first", b"1");
    bench.store.shared.seal_where(&|active| !active.is_empty());
    bench.crank.run_all();
    assert!(journal.0.lock().is_none(), "a flush has asked");
    assert_eq!((bench.store.shared.state.load().due(), bench.detail("flushes")), (0, 2));
    assert_eq!(bench.pairs().len(), 2);
}
