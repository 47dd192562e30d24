//! Flushing, opening, failures and damage.

use std::sync::Arc;

use codec::SeqNo;
use device::{Device, Failure, Fault, FaultDevice, Faults, Lasting, Mode, SimulatedDisk};
use engine::{Barrier, BlockingWrites, Demand, Engine, Error, NoJournal, Op, Result, Wait};
use sync::locks::Mutex;

use super::stores::{Bench, Pairs, key};
use crate::check;

fn fill(bench: &Bench, keys: std::ops::Range<u64>, value: &[u8]) {
    for number in keys {
        bench.put(&key(number), value);
    }
}

#[test]
fn a_flush_survives_the_process_and_replaces_the_one_before() {
    let device = device::memory();
    let bench = Bench::on(device.clone()).expect("opens");
    assert_eq!(bench.store.persisted(), SeqNo::ZERO);
    fill(&bench, 0..300, b"value");
    bench.put(b"large", &[9; 5000]);
    bench.store.flush().expect("flushes");
    let persisted = bench.store.persisted();
    assert_eq!(persisted, bench.sequence.visible());
    let expected = bench.pairs();
    fill(&bench, 0..300, b"not flushed");
    drop(bench);
    for _ in 0..3 {
        let bench = Bench::on(device.clone()).expect("opens again");
        assert_eq!(bench.store.persisted(), persisted);
        assert_eq!(bench.pairs(), expected);
        assert_eq!(bench.store.stats().live_keys, Some(301));
        bench.store.flush().expect("nothing to do");
        assert_eq!(bench.detail("snapshots_written"), 0, "nothing was new");
    }
    let bench = Bench::on(device.clone()).expect("opens again");
    bench.delete(b"large");
    bench.store.flush().expect("flushes");
    drop(bench);
    let bench = Bench::on(device.clone()).expect("opens again");
    assert_eq!(bench.get(b"large"), None);
    let files = device.list("").expect("lists");
    assert_eq!(files.len(), 2, "one snapshot and the superblock: {files:?}");
}

#[test]
fn a_checkpoint_is_a_store_of_its_own() {
    let bench = Bench::new();
    fill(&bench, 0..200, b"value");
    let copy = device::memory();
    bench.store.checkpoint(copy.clone(), &engine::go_on).expect("copies");
    let expected = bench.pairs();
    fill(&bench, 100..400, b"later");
    assert_eq!(bench.store.persisted(), SeqNo::ZERO, "a copy elsewhere persists nothing here");
    let again = bench.store.checkpoint(copy.clone(), &engine::go_on);
    assert!(matches!(again, Err(Error::Device(device::Error::AlreadyExists { .. }))), "{again:?}");
    assert!(check(&*copy).expect("reads").is_sound());
    let opened = Bench::on(copy).expect("opens");
    assert_eq!(opened.pairs(), expected);
}

/// Records each number that a flush passes to `reach`, and the number that was persisted on the
/// device then.
#[derive(Debug)]
struct Journal {
    device: Arc<dyn Device>,
    asked: Mutex<Vec<(SeqNo, SeqNo)>>,
    refuses: bool,
}

impl Barrier for Journal {
    fn reach(&self, seqno: SeqNo) -> Result<SeqNo> {
        // A process that opened the device now must not find the write in question.
        let persisted = check(&*self.device)?.persisted;
        self.asked.lock().push((seqno, persisted));
        if self.refuses { Err(Error::of_journal(Error::Closed)) } else { Ok(seqno) }
    }
}

#[test]
fn the_journal_is_reached_before_the_snapshot_stands() {
    let device = device::memory();
    let journal = Journal { device: device.clone(), asked: Mutex::default(), refuses: false };
    let journal = Arc::new(journal);
    let bench = Bench::with(device, journal.clone(), u64::MAX).expect("opens");
    let first = bench.put(b"a", b"1");
    bench.store.flush().expect("flushes");
    let second = bench.put(b"a", b"2");
    bench.store.flush().expect("flushes");
    assert_eq!(*journal.asked.lock(), [(first, SeqNo::ZERO), (second, first)]);
}

#[test]
fn a_journal_that_fails_keeps_the_old_snapshot() {
    let device = device::memory();
    let journal = Journal { device: device.clone(), asked: Mutex::default(), refuses: true };
    let bench = Bench::with(device.clone(), Arc::new(journal), u64::MAX).expect("opens");
    bench.put(b"a", b"1");
    let error = bench.store.flush();
    assert_eq!(error, Err(Error::of_journal(Error::Closed)));
    assert_eq!(bench.store.persisted(), SeqNo::ZERO);
    drop(bench);
    let report = check(&*device).expect("reads");
    // Flushes that are tried again and again would fill the device.
    assert!(report.is_sound() && report.leftover.is_empty(), "{report:?}");
    let bench = Bench::on(device.clone()).expect("opens");
    assert_eq!(bench.pairs(), Pairs::new());
}

#[test]
fn an_idle_store_moves_persisted_without_writing_its_data_again() {
    let device = device::memory();
    let bench = Bench::on(device.clone()).expect("opens");
    drop(bench.sequence.begin());
    bench.store.flush().expect("nothing was ever written here");
    assert_eq!(bench.store.persisted(), SeqNo::new(1));
    fill(&bench, 0..50, b"value");
    bench.store.flush().expect("flushes");
    let expected = bench.pairs();
    for _ in 0..9 {
        drop(bench.sequence.begin());
        bench.store.flush().expect("commits alone");
    }
    assert_eq!(bench.detail("snapshots_written"), 1);
    assert_eq!(bench.store.persisted(), SeqNo::new(60));
    drop(bench);
    assert!(check(&*device).expect("reads").is_sound());
    let bench = Bench::on(device).expect("opens again");
    assert_eq!((bench.store.persisted(), bench.pairs()), (SeqNo::new(60), expected));
}

#[test]
fn every_failed_operation_of_a_flush_stops_writes_and_loses_nothing() {
    let run = |nth: Option<u64>| {
        let device = device::memory();
        let bench = Bench::on(device.clone()).expect("opens");
        fill(&bench, 0..100, b"old");
        bench.store.flush().expect("flushes");
        drop(bench);
        let faulty = FaultDevice::new(device.clone());
        let bench = Bench::on(faulty.clone()).expect("opens");
        let before = faulty.count(None);
        fill(&bench, 0..150, b"new");
        if let Some(nth) = nth {
            let (failure, lasting) = (Failure::Io, Lasting::Once);
            faulty.fail(Fault { kind: None, nth: before + nth, failure, lasting });
        }
        let flushed = bench.store.flush();
        (device, bench, flushed, faulty.count(None) - before)
    };
    let (_, _, flushed, operations) = run(None);
    assert_eq!(flushed, Ok(()));
    assert!(operations > 8, "{operations} operations are a whole flush");
    for nth in 1..=operations {
        let (device, bench, flushed, _) = run(Some(nth));
        let error = flushed.expect_err("every operation of a flush counts");
        let ticket = bench.sequence.begin();
        let ops = [Op::Put { key: b"more", value: b"" }];
        let refused = bench.store.write(&ops, ticket.seqno());
        assert_eq!(refused, Err(error.poisoning()), "operation {nth}");
        assert_eq!(
            bench.store.reserve(&Demand::Ops(&ops), Wait::Yes).map(drop),
            Err(error.poisoning())
        );
        assert_eq!(bench.store.flush(), Err(error.poisoning()), "operation {nth}");
        assert_eq!(bench.get(&key(0)).as_deref(), Some(&b"new"[..]), "reads go on");
        drop(ticket);
        drop(bench);
        let bench = Bench::on(device).expect("opens");
        let found = bench.get(&key(0));
        let keys = bench.pairs().len();
        let whole = match found.as_deref() {
            Some(b"old") => keys == 100,
            Some(b"new") => keys == 150,
            _ => false,
        };
        assert!(whole, "operation {nth}: {keys} keys with {found:?}");
    }
}

#[test]
fn a_power_cut_at_every_operation_leaves_the_old_or_the_new_snapshot() {
    let disk = SimulatedDisk::new(7, Faults::none());
    let bench = Bench::on(disk.clone()).expect("opens");
    fill(&bench, 0..60, b"old");
    bench.store.flush().expect("flushes");
    let old = (bench.store.persisted(), bench.pairs());
    fill(&bench, 30..90, b"new and longer");
    disk.keep_history();
    let before = disk.operations();
    bench.store.flush().expect("flushes");
    let new = (bench.store.persisted(), bench.pairs());
    let history = disk.history();
    let mut replay = history.replay();
    let mut found = [0, 0];
    for operation in before..=history.last_operation() {
        replay.advance_to(operation);
        for seed in 0..20 {
            let image = replay.crash(seed);
            let again = format!("operation {operation}, image {seed}");
            let report = check(&*image).expect("reads");
            assert!(report.is_sound(), "{again}: {report:?}");
            // Opening removes files, so it may be cut short as well, and again.
            let opened =
                Bench::on(image.clone()).unwrap_or_else(|error| panic!("{again}: {error}"));
            drop(opened);
            let bench =
                Bench::on(image.crash(seed)).unwrap_or_else(|error| panic!("{again}: {error}"));
            let state = (bench.store.persisted(), bench.pairs());
            assert!(state == old || state == new, "{again}: neither of the two");
            found[usize::from(state == new)] += 1;
        }
    }
    assert!(found.iter().all(|count| *count > 0), "both must have been seen: {found:?}");
}

#[test]
fn every_damaged_byte_is_found_with_its_place() {
    let device = device::memory();
    let bench = Bench::on(device.clone()).expect("opens");
    fill(&bench, 0..100, b"value");
    bench.store.flush().expect("flushes");
    drop(bench);
    let mut damaged = 0;
    for entry in device.list("").expect("lists") {
        let file = device.open(&entry.name, Mode::Write).expect("opens");
        // Every byte of headers and payload, and one in seven of the padding.
        for offset in
            (0..file.len().expect("has a length")).filter(|at| at % 4096 < 640 || at % 7 == 0)
        {
            let mut byte = [0];
            file.read_at(offset, &mut byte).expect("reads");
            file.write_at(offset, &[byte[0] ^ 1]).expect("writes");
            let report = check(&*device).expect("reads");
            let [damage] = report.damage.as_slice() else {
                panic!("byte {offset} of {} is not missed", entry.name)
            };
            assert_eq!(damage.file, entry.name);
            assert!(damage.offset / 4096 <= offset / 4096, "{damage} for byte {offset}");
            let opened = Bench::on(device.clone());
            assert!(matches!(opened.err(), Some(Error::Corruption(_))));
            file.write_at(offset, &byte).expect("writes");
            damaged += 1;
        }
    }
    assert!(damaged > 3000, "{damaged} bytes");
    Bench::on(device).expect("opens once it is whole again");
}

#[test]
fn a_missing_or_foreign_file_is_damage() {
    let device = device::memory();
    let bench = Bench::on(device.clone()).expect("opens");
    bench.put(b"a", b"1");
    bench.store.flush().expect("flushes");
    drop(bench);
    let names: Vec<_> =
        device.list("").expect("lists").into_iter().map(|entry| entry.name).collect();
    for name in &names {
        device.rename(name, "elsewhere").expect("renames");
        let Some(Error::Corruption(damage)) = Bench::on(device.clone()).err() else {
            panic!("without {name} it must not open")
        };
        assert_eq!(&damage.file, name);
        device.rename("elsewhere", name).expect("renames");
    }
    // The snapshot of another store, of the same length and under the right name.
    let other = device::memory();
    let bench = Bench::on(other.clone()).expect("opens");
    bench.put(b"a", b"0");
    bench.put(b"a", b"1");
    bench.store.flush().expect("flushes");
    drop(bench);
    let snapshot = names.iter().find(|name| name.starts_with("snapshot")).expect("there is one");
    let foreign = other.open(snapshot, Mode::Read).expect("opens");
    let mut bytes = vec![0; foreign.len().expect("has a length") as usize];
    foreign.read_at(0, &mut bytes).expect("reads");
    device.open(snapshot, Mode::Write).expect("opens").write_at(0, &bytes).expect("writes");
    assert!(matches!(Bench::on(device).err(), Some(Error::Corruption(_))));
}

#[test]
fn a_store_without_a_journal_flushes_alone() {
    let disk = SimulatedDisk::with_alignment(3, Faults::none(), 4096);
    let bench = Bench::with(disk.clone(), Arc::new(NoJournal), u64::MAX).expect("opens");
    fill(&bench, 0..50, &[5; 900]);
    bench.store.flush().expect("every write is aligned");
    let image = disk.crash(1);
    assert_eq!(Bench::on(image).expect("opens").pairs(), bench.pairs());
}
