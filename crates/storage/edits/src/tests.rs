//! The chain over a store of numbers: committed edits are read back, damage is found, and growth
//! ends.

use std::collections::BTreeSet;
use std::sync::Arc;

use codec::{Corruption, Format, Reader, SeqNo, Writer};
use device::{Device, Faults, Mode, SimulatedDisk};
use engine::Error;
use proptest::prelude::*;

use crate::{Chain, Contents, Edit, Kind, decode_committed, read, stored_bytes};

/// Numbers that go and come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Numbers {
    removed: Vec<u64>,
    added: Vec<u64>,
}

impl Edit for Numbers {
    const KIND: Kind = Kind {
        superblock: *b"numbers ",
        format: Format::new(*b"TCNUMBER", 1, 0),
        prefix: "edits-",
        is_of_store: |name| name.starts_with("number-"),
    };

    type All = BTreeSet<u64>;

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut out = Writer::new(&mut bytes);
        for numbers in [&self.removed, &self.added] {
            out.put_varint(numbers.len() as u64);
            numbers.iter().for_each(|number| out.put_u64(*number));
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, Corruption> {
        let mut reader = Reader::new(bytes);
        let mut take = || -> Result<Vec<u64>, Corruption> {
            (0..reader.take_count(8)?).map(|_| reader.take_u64()).collect()
        };
        let edit = Self { removed: take()?, added: take()? };
        reader.finish()?;
        Ok(edit)
    }

    fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty()
    }

    fn apply(self, all: &mut BTreeSet<u64>) -> Result<(), Corruption> {
        let fits = self.removed.iter().all(|number| all.remove(number))
            && self.added.iter().all(|number| all.insert(*number));
        if fits { Ok(()) } else { Err(Corruption::new("an edit does not fit", 0)) }
    }

    fn of_all(all: BTreeSet<u64>) -> Self {
        adds(&all.into_iter().collect::<Vec<_>>())
    }
}

fn begin(device: &Arc<dyn Device>, bytes_max: u64) -> (Chain<Numbers>, Contents<Numbers>) {
    let found = read(&**device).expect("nothing is damaged");
    Chain::begin(device, found, bytes_max).expect("memory takes it")
}

fn adds(numbers: &[u64]) -> Numbers {
    Numbers { removed: Vec::new(), added: numbers.to_vec() }
}

fn never() -> Numbers {
    panic!("it is not rewritten")
}

/// Returns the committed part, as the superblock has it.
fn committed(device: &Arc<dyn Device>) -> crate::Committed {
    let (_, contents) = read::<Numbers>(&**device).expect("is whole").expect("is there");
    contents.committed
}

#[test]
fn committed_edits_are_there_when_the_chain_is_opened() {
    let device = device::memory();
    let (mut chain, contents) = begin(&device, 1 << 20);
    assert_eq!(contents.edit, Numbers::default());
    chain.commit(&adds(&[1, 2]), SeqNo::new(5), never).expect("memory takes it");
    let replaced = Numbers { removed: vec![1], added: vec![3] };
    chain.commit(&replaced, SeqNo::ZERO, never).expect("memory takes it");
    chain.commit(&Numbers::default(), SeqNo::new(9), never).expect("memory takes it");
    drop(chain);
    for _ in 0..2 {
        let (chain, contents) = begin(&device, 1 << 20);
        assert_eq!((chain.persisted(), contents.edit), (SeqNo::new(9), adds(&[2, 3])));
    }
    let files = device.list("").expect("memory lists");
    assert_eq!(files.len(), 2, "the superblock and one file: {files:?}");
    let bytes = stored_bytes::<Numbers>(&*device).expect("memory lists");
    assert_eq!(bytes, committed(&device).bytes);
}

#[test]
fn a_file_is_rewritten_when_that_makes_it_shorter() {
    let device = device::memory();
    let (mut chain, _) = begin(&device, 2000);
    let mut longest = 0;
    for number in 1..400 {
        let removed = if number > 1 { vec![number - 1] } else { Vec::new() };
        let edit = Numbers { removed, added: vec![number] };
        chain.commit(&edit, SeqNo::new(number), || adds(&[number])).expect("memory takes it");
        longest = longest.max(stored_bytes::<Numbers>(&*device).expect("memory lists"));
    }
    assert!((1900..2100).contains(&longest), "{longest} bytes");
    drop(chain);
    let (chain, contents) = begin(&device, 2000);
    assert_eq!((contents.edit, chain.persisted()), (adds(&[399]), SeqNo::new(399)));
}

#[test]
fn bytes_behind_the_end_are_not_read() {
    let device = device::memory();
    let (mut chain, _) = begin(&device, 1 << 20);
    chain.commit(&adds(&[1]), SeqNo::new(5), never).expect("memory takes it");
    drop(chain);
    let committed = committed(&device);
    let name = format!("edits-{}", committed.file);
    let file = device.open(&name, Mode::Write).expect("it is there");
    file.write_at(committed.bytes, b"torn").expect("memory writes");
    assert_eq!(begin(&device, 1 << 20).1.edit, adds(&[1]));
}

#[test]
fn every_damaged_byte_is_found() {
    let device = device::memory();
    let (mut chain, _) = begin(&device, 1 << 20);
    for number in 1..4 {
        chain.commit(&adds(&[number]), SeqNo::new(number), never).expect("memory takes it");
    }
    drop(chain);
    let committed = committed(&device);
    let name = format!("edits-{}", committed.file);
    let file = device.open(&name, Mode::Write).expect("it is there");
    for offset in 0..committed.bytes {
        let mut byte = [0];
        file.read_at(offset, &mut byte).expect("memory reads");
        file.write_at(offset, &[byte[0] ^ 4]).expect("memory writes");
        match read::<Numbers>(&*device) {
            Err(Error::Corruption(damage)) => assert_eq!(damage.file, name),
            other => panic!("byte {offset}: {:?}", other.map(|found| found.is_some())),
        }
        file.write_at(offset, &byte).expect("memory writes");
    }
    file.set_len(committed.bytes - 1).expect("memory cuts");
    assert!(matches!(read::<Numbers>(&*device), Err(Error::Corruption(_))));
    device.remove(&name).expect("memory removes");
    assert!(matches!(read::<Numbers>(&*device), Err(Error::Corruption(_))));
}

#[test]
fn a_missing_superblock_is_damage_beside_files_of_the_store() {
    for file in ["edits-1", "number-7"] {
        let device = device::memory();
        device.open(file, Mode::CreateNew).expect("memory makes it");
        assert!(matches!(read::<Numbers>(&*device), Err(Error::Corruption(_))), "{file}");
    }
    let device = device::memory();
    device.open("another", Mode::CreateNew).expect("memory makes it");
    assert!(matches!(read::<Numbers>(&*device), Ok(None)));
}

#[test]
fn edits_that_contradict_each_other_are_damage() {
    for second in [adds(&[1]), Numbers { removed: vec![9], added: Vec::new() }] {
        let device = device::memory();
        let (mut chain, _) = begin(&device, 1 << 20);
        chain.commit(&adds(&[1]), SeqNo::ZERO, never).expect("memory takes it");
        chain.commit(&second, SeqNo::ZERO, never).expect("memory takes it");
        assert!(matches!(read::<Numbers>(&*device), Err(Error::Corruption(_))));
    }
}

/// An opening that finds nothing to remove writes nothing, and the first edit after it goes to a
/// file of its own.
#[test]
fn an_opening_writes_nothing_before_the_first_edit() {
    let device = device::memory();
    let (mut chain, _) = begin(&device, 1 << 20);
    chain.commit(&adds(&[1]), SeqNo::new(5), never).expect("memory takes it");
    drop(chain);
    let before = device.accounting().counts();
    let (mut chain, _) = begin(&device, 1 << 20);
    let opened = device.accounting().counts();
    assert_eq!((opened.write_ops, opened.syncs), (before.write_ops, before.syncs));
    let old = committed(&device).file;
    chain.commit(&adds(&[2]), SeqNo::new(6), || adds(&[1, 2])).expect("memory takes it");
    assert_eq!(committed(&device).file, old + 1);
    drop(chain);
    assert!(!device.exists(&format!("edits-{old}")).expect("memory knows"));
    let (chain, contents) = begin(&device, 1 << 20);
    assert_eq!((contents.edit, chain.persisted()), (adds(&[1, 2]), SeqNo::new(6)));
}

/// The sync of the last commit failed, and another process opens the store: the state that it has
/// found is on the disk before anything is removed because of it.
#[test]
fn the_superblock_is_durable_before_anything_is_removed() {
    for seed in 0..20 {
        let disk = SimulatedDisk::new(seed, Faults::none());
        let device: Arc<dyn Device> = disk.clone();
        let (mut chain, _) = begin(&device, 1 << 20);
        chain.commit(&adds(&[1]), SeqNo::new(5), never).expect("it works still");
        device.open("edits-9", Mode::CreateNew).expect("a crash has left it");
        disk.set_faults(Faults { sync_error_ppm: 1_000_000, ..Faults::none() });
        chain.commit(&Numbers::default(), SeqNo::new(7), never).expect_err("the sync fails");
        drop(chain);
        disk.set_faults(Faults::none());
        let (chain, _) = begin(&device, 1 << 20);
        let found = chain.persisted();
        for image in 0..20 {
            let image: Arc<dyn Device> = disk.crash(image);
            assert_eq!(begin(&image, 1 << 20).0.persisted(), found, "seed {seed}");
        }
    }
}

#[test]
fn a_copy_is_a_chain_of_its_own() {
    let device = device::memory();
    Chain::write_copy(&*device, SeqNo::new(3), &adds(&[4, 5])).expect("memory takes it");
    assert!(Chain::<Numbers>::check_absent(&*device).is_err());
    assert!(Chain::<Numbers>::check_absent(&*device::memory()).is_ok());
    let (chain, contents) = begin(&device, 1 << 20);
    assert_eq!((contents.edit, chain.persisted()), (adds(&[4, 5]), SeqNo::new(3)));
}

/// Commits edits on a disk that loses power after some operation. Each image has all edits up to
/// the last acknowledged one, and at most one more.
#[test]
fn an_acknowledged_edit_survives_power_cuts() {
    for seed in 0..40 {
        let disk = SimulatedDisk::new(seed, Faults::none());
        disk.keep_history();
        let device: Arc<dyn Device> = disk.clone();
        let mut acknowledged = vec![(0, 0)];
        let mut committed = 0;
        for opening in 0..3 {
            let (mut chain, _) = begin(&device, 200);
            for _ in 0..4 + opening {
                committed += 1;
                let all = || adds(&(1..=committed).collect::<Vec<_>>());
                chain.commit(&adds(&[committed]), SeqNo::new(committed), all).expect("works");
                acknowledged.push((disk.operations(), committed));
            }
        }
        let history = disk.history();
        let mut replay = history.replay();
        for operation in acknowledged.get(1).map_or(0, |first| first.0)..=disk.operations() {
            replay.advance_to(operation);
            let least = acknowledged.iter().rev().find(|(at, _)| *at <= operation);
            let least = least.map_or(0, |(_, number)| *number);
            let image: Arc<dyn Device> = replay.crash(seed);
            let (chain, contents) = begin(&image, 200);
            let found = contents.edit.added.len() as u64;
            assert_eq!(contents.edit, adds(&(1..=found).collect::<Vec<_>>()));
            assert!((least..=least + 1).contains(&found), "{found} edits, {least} acknowledged");
            assert_eq!(chain.persisted(), SeqNo::new(found));
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_panic_and_committed_states_have_one_encoding(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let _ = Numbers::decode_chain(&bytes);
        let _ = decode_committed(&bytes);
    }
}
