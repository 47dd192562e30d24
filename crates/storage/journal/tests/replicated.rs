//! A journal whose segments are in two places: one of them is enough to recover from.

use std::sync::Arc;

use codec::SeqNo;
use device::{Device, File, Mode, SyncKind};
use environment::Environment;
use thermocline_journal::{
    Durability, Journal, LocalSegments, Options, SegmentStore, check_in, read_in,
};

type Local = LocalSegments<Arc<dyn Device>>;

/// Each step is done in both places. Reads are from the first.
#[derive(Debug)]
struct Mirrored([Local; 2]);

impl Mirrored {
    fn both(&self, step: impl Fn(&Local) -> device::Result<()>) -> device::Result<()> {
        self.0.iter().try_for_each(step)
    }
}

impl SegmentStore for Mirrored {
    fn prepare(&self) -> device::Result<()> {
        self.both(Local::prepare)
    }

    fn exists(&self) -> device::Result<bool> {
        self.0[0].exists()
    }

    fn list(&self) -> device::Result<Vec<String>> {
        self.0[0].list()
    }

    fn open(&self, name: &str, mode: Mode) -> device::Result<Arc<dyn File>> {
        let [first, second] = &self.0;
        Ok(Arc::new(MirroredFile([first.open(name, mode)?, second.open(name, mode)?])))
    }

    fn rename(&self, from: &str, to: &str) -> device::Result<()> {
        self.both(|place| place.rename(from, to))
    }

    fn remove(&self, name: &str) -> device::Result<()> {
        self.both(|place| place.remove(name))
    }

    fn sync_names(&self) -> device::Result<()> {
        self.both(Local::sync_names)
    }

    fn place_of(&self, name: &str) -> String {
        self.0[0].place_of(name)
    }
}

#[derive(Debug)]
struct MirroredFile([Arc<dyn File>; 2]);

impl MirroredFile {
    fn both(&self, step: impl Fn(&dyn File) -> device::Result<()>) -> device::Result<()> {
        self.0.iter().try_for_each(|file| step(&**file))
    }
}

impl File for MirroredFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> device::Result<()> {
        self.0[0].read_at(offset, into)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> device::Result<()> {
        self.both(|file| file.write_at(offset, bytes))
    }

    fn sync(&self, kind: SyncKind) -> device::Result<()> {
        self.both(|file| file.sync(kind))
    }

    fn len(&self) -> device::Result<u64> {
        self.0[0].len()
    }

    fn set_len(&self, len: u64) -> device::Result<()> {
        self.both(|file| file.set_len(len))
    }

    fn allocate(&self, offset: u64, len: u64) -> device::Result<()> {
        self.both(|file| file.allocate(offset, len))
    }

    fn punch(&self, offset: u64, len: u64) -> device::Result<()> {
        self.both(|file| file.punch(offset, len))
    }

    fn alignment(&self) -> usize {
        self.0[0].alignment().max(self.0[1].alignment())
    }

    fn name(&self) -> &str {
        self.0[0].name()
    }
}

fn place(device: &Arc<dyn Device>) -> Local {
    LocalSegments::new(Arc::clone(device), "log")
}

fn open(store: Arc<dyn SegmentStore>, after: u64) -> (Journal, Vec<u64>) {
    let options = Options { segment_bytes: 4096, buffer_bytes: 1024, ..Options::default() };
    let mut records = Vec::new();
    let (journal, _) = Journal::open_in(
        store,
        options,
        &Environment::seeded(1),
        SeqNo::new(after),
        &mut |seqno, payload| {
            assert_eq!(payload, [seqno.get() as u8; 100]);
            records.push(seqno.get());
            Ok(())
        },
    )
    .expect("the places work");
    (journal, records)
}

fn append(journal: &Journal, numbers: std::ops::RangeInclusive<u64>) {
    for number in numbers {
        let write = |_: SeqNo, bytes: &mut Vec<u8>| bytes.extend_from_slice(&[number as u8; 100]);
        let seqno = journal.append(|| SeqNo::new(number), write).expect("the places work");
        journal.wait(seqno, Durability::Synced).expect("the places work");
    }
}

#[test]
fn either_place_has_all_that_was_acknowledged() {
    let devices = [device::memory(), device::memory()];
    let mirrored = || Arc::new(Mirrored([place(&devices[0]), place(&devices[1])]));
    let (journal, records) = open(mirrored(), 0);
    assert!(records.is_empty());
    append(&journal, 1..=200);
    journal.trim(SeqNo::new(60)).expect("the places work");
    // Neither closed: as if the machine that appends was lost.
    drop(journal);
    let (journal, records) = open(mirrored(), 60);
    assert_eq!(records, Vec::from_iter(61..=200));
    append(&journal, 201..=300);
    drop(journal);
    for device in &devices {
        let alone = place(device);
        assert!(check_in(&alone).expect("memory works").damage.is_empty());
        let mut read = Vec::new();
        let mut take = |seqno: SeqNo, _: &[u8]| {
            read.push(seqno.get());
            Ok(())
        };
        read_in(&alone, SeqNo::new(100), &mut take).expect("all is there");
        assert_eq!(read, Vec::from_iter(100..=300));
        let (journal, records) = open(Arc::new(alone), 60);
        assert_eq!(records, Vec::from_iter(61..=300));
        append(&journal, 301..=310);
        journal.close().expect("memory works");
    }
}
