//! The index that a closed store leaves, and its use by an opening.

use std::sync::Arc;

use device::{Device, Failure, Fault, FaultDevice, Faults, Lasting, Mode, SimulatedDisk};
use engine::{Engine, NoJournal};

use super::*;
use crate::index::Lie;
use crate::tests::stores::{Bench, key, small};
use crate::{Options, check};

fn options() -> Options {
    Options { stored_intervals_min: 1, ..small() }
}

fn on(device: &Arc<dyn Device>) -> Bench {
    let opened = Bench::with(Arc::clone(device), Arc::new(NoJournal), 1 << 20, options());
    opened.expect("opens")
}

/// Writes some keys again and again, so that intervals have tails, and deletes others, so that
/// first pairs are deleted.
fn fill(bench: &Bench, round: u64) {
    for number in 0..400 {
        match (number + round) % 7 {
            0 => _ = bench.delete(&key(number)),
            1..4 => _ = bench.put(&key(number), &[round as u8; 30]),
            _ => {}
        }
        if number % 50 == 0 {
            bench.flush();
        }
    }
    bench.flush();
}

/// The content of the index for each interval.
fn intervals(bench: &Bench) -> Vec<Stored> {
    let committer = bench.store.shared.committer.lock();
    let all = committer.index().now().range(0..u64::MAX);
    all.map(|found| stored(found.entry.head().expect("an interval"), found.length)).collect()
}

fn bytes(device: &dyn Device) -> Vec<u8> {
    let file = device.open(FILE, Mode::Read).expect("it was closed");
    read(&*file, 0, file.len().expect("a file") as usize).expect("a file")
}

fn put_back(device: &dyn Device, bytes: &[u8]) {
    let file = device.open(FILE, Mode::Create).expect("opens");
    file.set_len(0).expect("a file");
    file.write_at(0, bytes).expect("room");
}

#[test]
fn a_store_that_was_closed_is_opened_with_its_index_and_reads_no_key() {
    let mut bench = on(&device::memory());
    let (mut tails, mut firsts) = (0, 0);
    for round in 1..8 {
        fill(&bench, round);
        let (known, pairs) = (intervals(&bench), bench.pairs());
        assert!(known.len() > 20, "{} intervals", known.len());
        let has_tail = |stored: &Stored| stored.tail.as_ref().is_some_and(|tail| tail.len() > 0);
        tails += known.iter().filter(|stored| has_tail(stored)).count();
        firsts += known.iter().filter(|stored| stored.first.is_some()).count();
        bench.store.close().expect("closes");
        assert_eq!(check(&bench.device).expect("reads").damage, []);
        bench = on(&bench.device);
        assert_eq!(bench.detail("opening_keys"), 0);
        assert_eq!(intervals(&bench), known);
        assert_eq!(bench.pairs(), pairs);
        bench.check();
        // Nothing was changed, so the next opening takes it as well.
        let before = bytes(&*bench.device);
        bench.store.close().expect("closes");
        assert_eq!(bytes(&*bench.device), before);
        bench = on(&bench.device);
        assert_eq!(bench.detail("opening_keys"), 0);
        assert_eq!(intervals(&bench), known);
    }
    assert!(tails > 0 && firsts > 0, "{tails} tails, {firsts} intervals without their first pair");
}

#[test]
fn what_a_kill_leaves_is_opened_by_its_tags() {
    let bench = on(&device::memory());
    fill(&bench, 1);
    let pairs = bench.pairs();
    bench.store.close().expect("closes");
    let bench = on(&bench.device);
    let stored = {
        bench.store.close().expect("closes");
        bytes(&*bench.device)
    };
    let bench = on(&bench.device);
    bench.put(b"later", b"than the index");
    bench.flush();
    // As if it had not been taken away. The process is killed.
    put_back(&*bench.device, &stored);
    let device = Arc::clone(&bench.device);
    bench.store.shared.space.close().expect("what was flushed stays");
    let bench = on(&device);
    assert!(bench.detail("opening_keys") > 0, "an index of a life before was taken");
    assert_eq!(bench.pairs().len(), pairs.len() + 1);
}

/// The space has the same number of bytes and the same tags as when the index was stored, but a key
/// in another interval.
#[test]
fn an_index_of_a_life_before_is_not_believed_where_the_space_looks_the_same() {
    let on = |device: &Arc<dyn Device>| {
        let options = Options { tail_pairs_max: 0, interval_bytes: 256, ..options() };
        let opened = Bench::with(Arc::clone(device), Arc::new(NoJournal), 1 << 20, options);
        opened.expect("opens")
    };
    let kill = |bench: Bench| {
        bench.flush();
        bench.store.shared.space.close().expect("what was flushed stays");
        // The only index is the one that is put back below.
        let _: device::Result<()> = bench.device.remove(FILE);
        bench.0.device
    };
    let bench = on(&device::memory());
    (0..40).for_each(|number| _ = bench.put(&key(10 * number), &[1; 20]));
    bench.flush();
    bench.store.close().expect("closes");
    let stored = bytes(&*bench.device);
    let bench = on(&bench.device);
    let bounds: Vec<Vec<u8>> = intervals(&bench).into_iter().map(|stored| stored.bound).collect();
    let length = bench.store.shared.space.len();
    // The second interval loses its first pair, and with the next opening the bound.
    bench.delete(&bounds[1]);
    bench.put(&[&bounds[2][..13], b"-"].concat(), &[2; 20]);
    let bench = on(&kill(bench));
    assert!(bench.detail("opening_keys") > 0, "it was not closed");
    // So the key comes back into the first one.
    bench.put(&bounds[1], &[3; 20]);
    bench.delete(&key(10));
    bench.flush();
    assert_eq!(bench.store.shared.space.len(), length, "it is as long as it was");
    let pairs = bench.pairs();
    let device = kill(bench);
    put_back(&*device, &stored);
    let bench = on(&device);
    assert_eq!(bench.get(&bounds[1]), Some(vec![3; 20]), "a key in another interval");
    assert_eq!(bench.pairs(), pairs);
    assert!(bench.detail("opening_keys") > 0, "an index of a life before was taken");
}

/// A damaged range that is longer than an interval can be is several intervals, of which only the
/// first begins at a tag. A reader of the stored index would take that for damage of the index.
#[test]
fn an_index_that_is_not_what_the_tags_say_is_not_stored() {
    let bench = on(&device::memory());
    fill(&bench, 1);
    {
        let shared = &bench.store.shared;
        let mut committer = shared.committer.lock();
        let first = committer.index().now().get(0).expect("an interval").length;
        let part = |bound: &[u8]| {
            let lie = Lie { is_out_of_order: true, ..Lie::default() };
            Interval::new(Head::new(bound, bound, lie, &shared.index_memory.heads))
        };
        let pieces = [(first / 2, part(b"k")), (first - first / 2, part(b"k\0"))];
        index::replace(committer.index_mut(), 0, first, &pieces);
    }
    bench.store.close().expect("closes");
    assert!(!bench.device.exists(FILE).expect("looks"));
    assert_eq!(check(&bench.device).expect("reads").damage, []);
    assert_eq!(on(&bench.device).store.background_errors(), []);
}

/// The index of a store that has failed cannot be trusted.
#[test]
fn an_index_of_a_store_that_has_failed_is_not_stored() {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    let fail = |bench: &Bench| {
        let damage = Corruption::new("no interval", 0).at("data", 0);
        bench.store.shared.health.fail(&engine::Error::Corruption(damage));
    };
    let panic = |bench: &Bench| {
        let shared = &bench.store.shared;
        let change = || crate::commit::change_to_nothing_sound(shared);
        assert!(catch_unwind(AssertUnwindSafe(change)).is_err(), "it panics");
    };
    let whole = |_: &Bench| {};
    let ways: [&dyn Fn(&Bench); 3] = [&whole, &fail, &panic];
    for (way, is_stored) in [true, false, false].into_iter().enumerate() {
        let bench = on(&device::memory());
        fill(&bench, 1);
        ways[way](&bench);
        bench.store.close().expect("closes");
        assert_eq!(bench.device.exists(FILE), Ok(is_stored), "way {way}");
    }
}

#[test]
fn damage_of_the_index_is_found_and_in_nobodys_way() {
    let bench = on(&device::memory());
    fill(&bench, 1);
    fill(&bench, 2);
    let pairs = bench.pairs();
    bench.store.close().expect("closes");
    let whole = bytes(&*bench.device);
    let mut device = bench.0.device;
    for place in (0..whole.len()).step_by(whole.len() / 60).chain([whole.len() - 1]) {
        let of_this_life = bytes(&*device);
        let mut damaged = of_this_life.clone();
        let place = place.min(damaged.len() - 1);
        damaged[place] ^= 0x10;
        let ways = [damaged, of_this_life[..place].to_vec(), [&of_this_life[..], b"x"].concat()];
        for way in &ways[..] {
            put_back(&*device, way);
            let report = check(&device).expect("reads");
            assert_eq!(
                report.damage.first().map(|damage| &*damage.file),
                Some(FILE),
                "byte {place}"
            );
        }
        put_back(&*device, &ways[0]);
        let bench = on(&device);
        let told = bench.store.background_errors();
        let is_reported =
            matches!(&told[..], [told] if told.work.contains("index that was stored"));
        assert!(is_reported && bench.detail("opening_keys") > 0, "byte {place}: {told:?}");
        assert_eq!(bench.pairs(), pairs, "byte {place}");
        bench.store.close().expect("closes");
        device = bench.0.device;
    }
}

/// An index that is sound, but of other bytes: as if two spaces had changed places.
#[test]
fn an_index_that_does_not_fit_the_tags_is_not_taken() {
    let bench = on(&device::memory());
    fill(&bench, 1);
    bench.store.close().expect("closes");
    let bench = on(&bench.device);
    let space = bench.store.shared.space.snapshot().expect("open");
    let wanted = Wanted { life: 7, space_bytes: space.len() };
    let device = device::memory();
    let mut other = Index::default();
    let header = StoreHeader::BYTES as u64;
    let heads = Arc::new(Account::new(&bench.budget));
    for (number, length) in [(1, 10), (2, (space.len() - header - 10) as u32)] {
        let head = Head::new(&key(number), &key(number), Lie::default(), &heads);
        index::append(&mut other, length, Interval::new(head));
    }
    store(&*device, other.now(), wanted).expect("room");
    let begin = |wanted, end| {
        Reading::begin(&*device, wanted, space.extents(header..end)).expect("its head is right")
    };
    let damage = begin(wanted, space.len()).expect("this life's").check().expect_err("no tag");
    assert!(damage.to_string().contains("where no tag is"), "{damage}");
    assert!(begin(Wanted { life: 8, ..wanted }, space.len()).is_none());
    assert!(begin(Wanted { space_bytes: space.len() + 1, ..wanted }, space.len()).is_none());
}

#[test]
fn an_index_that_is_too_large_for_the_memory_is_made_coarser() {
    let bench = on(&device::memory());
    fill(&bench, 1);
    let (many, pairs) = (bench.intervals(), bench.pairs());
    bench.store.close().expect("closes");
    let opened = Bench::with(bench.0.device, Arc::new(NoJournal), 32 << 10, options());
    let bench = opened.expect("opens");
    assert_eq!(bench.detail("opening_keys"), 0);
    assert!(bench.intervals() < many / 2, "{} of {many}", bench.intervals());
    assert_eq!(bench.pairs(), pairs);
    fill(&bench, 2);
    let pairs = bench.pairs();
    bench.store.close().expect("closes");
    assert_eq!(check(&bench.device).expect("reads").damage, []);
    assert_eq!(on(&bench.device).pairs(), pairs);
}

/// Power cuts at every operation of a close, and of the opening behind it.
#[test]
fn a_cut_at_any_operation_of_a_close_loses_nothing() {
    let mut taken = 0;
    for seed in 0..3 {
        let disk = SimulatedDisk::new(seed, Faults::none());
        disk.keep_history();
        let device: Arc<dyn Device> = disk.clone();
        let bench = on(&device);
        fill(&bench, seed);
        let pairs = bench.pairs();
        let flushed = disk.history().last_operation();
        bench.store.close().expect("closes");
        drop(on(&device));
        let history = disk.history();
        let mut replay = history.replay();
        for operation in flushed..=history.last_operation() {
            replay.advance_to(operation);
            let image: Arc<dyn Device> = replay.crash(seed ^ operation);
            let report = check(&image).expect("reads");
            assert_eq!(report.damage, [], "seed {seed}, operation {operation}");
            let bench = on(&image);
            assert_eq!(bench.pairs(), pairs, "seed {seed}, operation {operation}");
            bench.check();
            taken += u64::from(bench.detail("opening_keys") == 0);
        }
    }
    assert!(taken > 0, "no cut left an index");
}

/// A close whose operations fail one by one: it reports that, or the index is not there.
#[test]
fn what_fails_while_the_index_is_stored_harms_nothing() {
    let close = |nth: Option<(u64, Failure)>| {
        let inner = device::memory();
        let device = FaultDevice::new(Arc::clone(&inner));
        let faulty: Arc<dyn Device> = device.clone();
        let bench = on(&faulty);
        fill(&bench, 1);
        let pairs = bench.pairs();
        let before = device.count(None);
        if let Some((nth, failure)) = nth {
            device.fail(Fault { kind: None, nth: before + nth, failure, lasting: Lasting::Once });
        }
        let closed = bench.store.close();
        let count = device.count(None) - before;
        device.heal();
        drop(bench);
        let bench = on(&inner);
        assert_eq!(bench.pairs(), pairs, "{nth:?}");
        bench.check();
        (count, closed.is_err())
    };
    let (count, _) = close(None);
    let mut told = 0;
    for nth in 1..=count {
        for failure in [Failure::Io, Failure::NoSpace] {
            told += u64::from(close(Some((nth, failure))).1);
        }
    }
    assert!(told > 0, "of {count} operations none was told of");
}
