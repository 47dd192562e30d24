//! The manifest: committed edits are read back, damage is found, and growth ends.

use device::Mode;
use engine::Error;

use super::*;
use crate::range_deletes::RangeDelete;
use crate::table::{Properties, TableId};

fn summary(number: u64) -> crate::table::Summary {
    let properties = Properties {
        smallest: format!("from-{number}").into_bytes(),
        largest: format!("to-{number}").into_bytes(),
        entries: 3,
        oldest: SeqNo::new(1),
        newest: SeqNo::new(2),
        fragments: vec![10, 20],
        ..Properties::default()
    };
    let properties = Properties { smallest: b"a".to_vec(), ..properties };
    let ingested = (number % 2 == 1).then_some(SeqNo::new(2));
    let oldest = ingested.unwrap_or(properties.oldest);
    let properties = Properties { oldest, ..properties };
    let id = TableId { number, nonce: 7 };
    crate::table::Summary { id, stored_bytes: 4096, ingested, properties }
}

fn begin(device: &Arc<dyn Device>, bytes_max: u64) -> (Manifest, Contents) {
    let found = read(&**device).expect("nothing is damaged");
    Manifest::begin(device, found, bytes_max).expect("memory takes it")
}

fn adds(numbers: &[u64]) -> Edit {
    Edit {
        removed: Vec::new(),
        added: numbers.iter().map(|number| (1, summary(*number))).collect(),
        range_deletes: Vec::new(),
    }
}

fn deletes() -> Vec<Arc<RangeDelete>> {
    let delete = |start: &[u8], end: Option<&[u8]>| {
        let (start, end) = (start.to_vec(), end.map(<[u8]>::to_vec));
        Arc::new(RangeDelete { seqno: SeqNo::new(8), start, end })
    };
    vec![delete(b"", Some(b"m")), delete(b"x", None)]
}

fn numbers(edit: &Edit) -> Vec<u64> {
    let mut numbers: Vec<u64> = edit.added.iter().map(|(_, summary)| summary.id.number).collect();
    numbers.sort_unstable();
    numbers
}

fn never() -> Edit {
    panic!("it is not written anew")
}

#[test]
fn what_was_committed_is_there_when_it_is_opened() {
    let device = device::memory();
    let (mut manifest, contents) = begin(&device, 1 << 20);
    assert_eq!(contents.edit, Edit::default());
    manifest.commit(&adds(&[1, 2]), SeqNo::new(5), never).expect("memory takes it");
    let replaced =
        Edit { removed: vec![(1, 1)], added: vec![(2, summary(3))], range_deletes: deletes() };
    manifest.commit(&replaced, SeqNo::ZERO, never).expect("memory takes it");
    manifest.commit(&Edit::default(), SeqNo::new(9), never).expect("memory takes it");
    drop(manifest);
    for _ in 0..2 {
        let (manifest, contents) = begin(&device, 1 << 20);
        assert_eq!(manifest.persisted(), SeqNo::new(9));
        assert_eq!(numbers(&contents.edit), [2, 3]);
        assert!(contents.edit.added.contains(&(2, summary(3))), "with its level");
        assert_eq!(contents.edit.range_deletes, deletes());
    }
    let files = device.list("").expect("memory lists");
    assert_eq!(files.len(), 2, "the superblock and one manifest: {files:?}");
}

#[test]
fn it_is_written_anew_when_that_makes_it_shorter() {
    let device = device::memory();
    let (mut manifest, _) = begin(&device, 2000);
    let mut longest = 0;
    for number in 1..200 {
        let removed = if number > 1 { vec![(1, number - 1)] } else { Vec::new() };
        let edit = Edit { removed, ..adds(&[number]) };
        manifest.commit(&edit, SeqNo::new(number), || adds(&[number])).expect("memory takes it");
        longest = longest.max(manifest.standing.bytes);
    }
    assert!(longest < 2200, "{longest} bytes");
    drop(manifest);
    let (manifest, contents) = begin(&device, 2000);
    assert_eq!((numbers(&contents.edit), manifest.persisted()), (vec![199], SeqNo::new(199)));
}

#[test]
fn what_lies_behind_the_end_is_not_read() {
    let device = device::memory();
    let (mut manifest, _) = begin(&device, 1 << 20);
    manifest.commit(&adds(&[1]), SeqNo::new(5), never).expect("memory takes it");
    let name = format::file_name(manifest.standing.manifest);
    let file = device.open(&name, Mode::Write).expect("it is there");
    file.write_at(manifest.standing.bytes, b"torn").expect("memory writes");
    drop(manifest);
    assert_eq!(numbers(&begin(&device, 1 << 20).1.edit), [1]);
}

#[test]
fn every_damaged_byte_is_found() {
    let device = device::memory();
    let (mut manifest, _) = begin(&device, 1 << 20);
    for number in 1..4 {
        manifest.commit(&adds(&[number]), SeqNo::new(number), never).expect("memory takes it");
    }
    let name = format::file_name(manifest.standing.manifest);
    let bytes = manifest.standing.bytes;
    drop(manifest);
    let file = device.open(&name, Mode::Write).expect("it is there");
    for offset in 0..bytes {
        let mut byte = [0];
        file.read_at(offset, &mut byte).expect("memory reads");
        file.write_at(offset, &[byte[0] ^ 4]).expect("memory writes");
        match read(&*device) {
            Err(Error::Corruption(damage)) => assert_eq!(damage.file, name),
            other => panic!("byte {offset}: {:?}", other.map(|found| found.is_some())),
        }
        file.write_at(offset, &byte).expect("memory writes");
    }
    file.set_len(bytes - 1).expect("memory cuts");
    assert!(matches!(read(&*device), Err(Error::Corruption(_))));
    device.remove(&name).expect("memory removes");
    assert!(matches!(read(&*device), Err(Error::Corruption(_))));
}

#[test]
fn a_missing_superblock_is_damage() {
    let device = device::memory();
    drop(begin(&device, 1 << 20));
    device.remove(SUPERBLOCK).expect("memory removes");
    assert!(matches!(read(&*device), Err(Error::Corruption(_))));
}

#[test]
fn edits_that_contradict_each_other_are_damage() {
    let device = device::memory();
    for (first, second) in [
        (adds(&[1]), adds(&[1])),
        (adds(&[1]), Edit { removed: vec![(2, 1)], ..Edit::default() }),
        (adds(&[1]), Edit { removed: vec![(1, 9)], ..Edit::default() }),
    ] {
        let (mut manifest, contents) = begin(&device, 1 << 20);
        assert_eq!(contents.edit, Edit::default());
        manifest.commit(&first, SeqNo::ZERO, never).expect("memory takes it");
        manifest.commit(&second, SeqNo::ZERO, never).expect("memory takes it");
        drop(manifest);
        assert!(matches!(read(&*device), Err(Error::Corruption(_))));
        for entry in device.list("").expect("memory lists") {
            device.remove(&entry.name).expect("memory removes");
        }
    }
}

/// An opening that finds nothing to remove writes nothing, and the first edit after it goes to a
/// manifest of its own.
#[test]
fn an_opening_writes_nothing_before_the_first_edit() {
    let device = device::memory();
    let (mut manifest, _) = begin(&device, 1 << 20);
    manifest.commit(&adds(&[1]), SeqNo::new(5), never).expect("memory takes it");
    drop(manifest);
    let before = device.accounting().counts();
    let (mut manifest, _) = begin(&device, 1 << 20);
    let opened = device.accounting().counts();
    assert_eq!((opened.write_ops, opened.syncs), (before.write_ops, before.syncs));
    let old = manifest.standing.manifest;
    manifest.commit(&adds(&[2]), SeqNo::new(6), || adds(&[1, 2])).expect("memory takes it");
    assert_eq!(manifest.standing.manifest, old + 1);
    drop(manifest);
    assert!(!device.exists(&format::file_name(old)).expect("memory knows"));
    let (manifest, contents) = begin(&device, 1 << 20);
    assert_eq!((numbers(&contents.edit), manifest.persisted()), (vec![1, 2], SeqNo::new(6)));
}

/// The sync of the last commit failed, and another process opens the store: the state that it has
/// found is on the disk before anything is removed because of it.
#[test]
fn the_superblock_is_settled_before_anything_is_removed() {
    use device::{Faults, SimulatedDisk};
    for seed in 0..20 {
        let disk = SimulatedDisk::new(seed, Faults::none());
        let device: Arc<dyn Device> = disk.clone();
        let (mut manifest, _) = begin(&device, 1 << 20);
        manifest.commit(&adds(&[1]), SeqNo::new(5), never).expect("it works still");
        device.open("manifest-9", Mode::CreateNew).expect("a crash has left it");
        disk.set_faults(Faults { sync_error_ppm: 1_000_000, ..Faults::none() });
        manifest.commit(&Edit::default(), SeqNo::new(7), never).expect_err("the sync fails");
        drop(manifest);
        disk.set_faults(Faults::none());
        let (manifest, _) = begin(&device, 1 << 20);
        let found = manifest.persisted();
        for image in 0..20 {
            let image: Arc<dyn Device> = disk.crash(image);
            assert_eq!(begin(&image, 1 << 20).0.persisted(), found, "seed {seed}");
        }
    }
}
