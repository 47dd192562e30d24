//! Models of a space under shuttle, in very many random schedules of a few threads.
//! The threads write, sync, read, collect, store the tree, and close.
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle" cargo test -p thermocline-flexspace --profile models --lib models \
//!     --target-dir target/shuttle
//! ```
//!
//! A space is a sequence of records. The first and the last are written again and again, each by
//! one thread at a time, under numbers that grow; whole records between them are inserted and
//! removed. The oracle is always the same: a snapshot has whole records, of each no older one than
//! was written before it was taken, and never changes. Synced records are there after a power cut,
//! and acknowledged ones after a close. Shuttle reports a deadlock by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use device::{Device, Faults, SimulatedDisk};
use shuttle::thread::{JoinHandle, spawn, yield_now};
use sync::schedules::{Schedules, finds};

use super::{Error, FlexSpace, Options};
use crate::planted::Planted;

const SCHEDULES: Schedules = Schedules::new(2_000);

/// Bytes of a record, which is an extent.
const RECORD: u64 = 512;
/// The records that are written to, and the records between them.
const FIRST: usize = 0;
const LAST: usize = 1;
const BETWEEN: u64 = 2;
/// Syncs of one record each that fill a segment.
const BLOCKS: usize = 4;

/// A space, and of each record that is written to the newest number whose write has returned.
struct Model {
    space: FlexSpace,
    written: [AtomicU64; 2],
}

fn options() -> Options {
    Options {
        segment_bytes: 16 << 10,
        capacity_bytes: 200 * (16 << 10),
        reserved_segments: 64,
        collected_extents_max: 4,
        ..Options::default()
    }
}

fn record(id: u64, number: u64) -> Vec<u8> {
    (id << 32 | number).to_le_bytes().repeat(RECORD as usize / 8)
}

/// Returns the numbers of the first record and the last. Those of others fall from one to the next.
fn numbers_of(bytes: &[u8]) -> [u64; 2] {
    assert_eq!(bytes.len() as u64 % RECORD, 0, "a part of a record");
    let of = |bytes: &[u8]| {
        let (words, _) = bytes.as_chunks();
        let word = u64::from_le_bytes(words[0]);
        assert!(words.iter().all(|it| *it == words[0]), "a part of a record in another one");
        (word >> 32, word & u64::from(u32::MAX))
    };
    let records: Vec<(u64, u64)> = bytes.chunks(RECORD as usize).map(of).collect();
    let [first, between @ .., last] = &records[..] else { panic!("there are two at least") };
    assert_eq!((first.0, last.0), (FIRST as u64, LAST as u64), "a record in another one's place");
    assert!(between.iter().all(|(id, _)| *id == BETWEEN), "a record in another one's place");
    assert!(between.is_sorted_by(|one, next| one.1 > next.1), "a record that is there twice");
    [first.1, last.1]
}

impl Model {
    fn on(device: Arc<dyn Device>) -> Arc<Self> {
        let space = FlexSpace::create(device, options()).expect("an empty device");
        space.append(&record(FIRST as u64, 0)).expect("room");
        space.append(&record(LAST as u64, 0)).expect("room");
        space.sync().expect("a device");
        Arc::new(Self { space, written: Default::default() })
    }

    fn new() -> Arc<Self> {
        Self::on(device::memory())
    }

    fn does(self: &Arc<Self>, work: impl Fn(&Self) + Send + 'static) -> JoinHandle<()> {
        let model = Arc::clone(self);
        spawn(move || work(&model))
    }

    /// Writes one of the two under its next number.
    fn write(&self, id: usize) -> Result<u64, Error> {
        let number = self.written[id].load(SeqCst) + 1;
        self.space.together(|space| {
            let offset = if id == FIRST { 0 } else { space.len() - RECORD };
            space.splice(offset, RECORD, &record(id as u64, number), 0)
        })?;
        self.written[id].store(number, SeqCst);
        Ok(number)
    }

    fn write_and_sync(&self, id: usize) -> u64 {
        let number = self.write(id).expect("room");
        self.space.sync().expect("a device");
        number
    }

    /// Inserts a record behind the first one.
    fn insert(&self, number: u64) {
        self.space.insert(RECORD, &record(BETWEEN, number)).expect("room");
    }

    /// Inserts a record there, and removes it.
    fn shift(&self) {
        self.insert(1_000);
        self.space.collapse(RECORD, RECORD).expect("a range");
    }

    /// Takes snapshots, and looks at each twice.
    fn look(&self) {
        let mut seen = [0; 2];
        for _ in 0..3 {
            let before = self.written.each_ref().map(|written| written.load(SeqCst));
            let snapshot = match self.space.snapshot() {
                Ok(snapshot) => snapshot,
                Err(closed) => return assert_eq!(closed, Error::Closed),
            };
            let read = || match snapshot.read(0, snapshot.len()) {
                Err(Error::Closed) => None,
                read => Some(read.expect("a snapshot is whole")),
            };
            let Some(bytes) = read() else { return };
            let found = numbers_of(&bytes);
            for ((found, before), seen) in found.iter().zip(before).zip(seen) {
                let least = before.max(seen);
                assert!(*found >= least, "a snapshot has number {found}, not {least}");
            }
            seen = found;
            yield_now();
            let Some(again) = read() else { return };
            assert!(again == bytes, "a snapshot has changed");
        }
    }

    /// Returns a space that is opened on a device, and its content.
    fn found_on(device: Arc<dyn Device>) -> (FlexSpace, Vec<u8>) {
        let space = FlexSpace::open(device, options()).expect("a space that was made");
        let bytes = space.read(0, space.len()).expect("it is whole");
        (space, bytes)
    }

    fn written(&self) -> [u64; 2] {
        self.written.each_ref().map(|written| written.load(SeqCst))
    }

    /// Checks that the last writes are there in the end, and that the space is sound.
    fn end(&self, threads: Vec<JoinHandle<()>>) {
        threads.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
        let bytes = self.space.read(0, self.space.len()).expect("it is whole");
        assert_eq!(numbers_of(&bytes), self.written(), "what is there in the end");
        self.space.check().expect("it is sound");
    }
}

/// A segment becomes empty and is written again, next to snapshots that it is in.
fn snapshots_beside_reuse() {
    let model = Model::new();
    // The last record alone stays in the first segment, and the second one has room for one sync.
    (0..2 * BLOCKS - 2).for_each(|_| _ = model.write_and_sync(FIRST));
    let writer = |model: &Model| {
        model.write_and_sync(LAST);
        (0..2).for_each(|_| _ = model.write_and_sync(FIRST));
    };
    let threads = vec![model.does(writer), model.does(Model::look)];
    model.end(threads);
}

/// A thread that has synced finds its writes in every image after a power cut. The model checks
/// that in the end, so that schedules consist of writes and syncs alone.
fn syncs_beside_each_other() {
    let disk = SimulatedDisk::new(1, Faults::none());
    let model = Model::on(disk.clone());
    let writer = |id: usize| {
        let (model, disk) = (Arc::clone(&model), disk.clone());
        spawn(move || {
            [(); 2].map(|()| {
                let number = model.write_and_sync(id);
                (number, disk.crash(number))
            })
        })
    };
    for (id, writer) in [writer(FIRST), writer(LAST)].into_iter().enumerate() {
        for (number, image) in writer.join().expect("it does not panic") {
            let (_, bytes) = Model::found_on(image);
            let found = numbers_of(&bytes)[id];
            assert!(found >= number, "number {found} after a power cut, {number} was synced");
        }
    }
    model.end(Vec::new());
}

/// The collector moves records that are written to, and their neighbours.
fn collection_beside_writes() {
    let model = Model::new();
    // Three segments, in each of whose blocks one record lives; and half of a fourth.
    for number in 0..3 * BLOCKS as u64 + 2 {
        model.insert(number);
        model.space.sync().expect("a device");
    }
    let collector = |model: &Model| {
        let done = model.space.collect().expect("a device");
        assert!(done.damage.is_none(), "{done:?}");
    };
    let first = |model: &Model| (0..4).for_each(|_| _ = model.write(FIRST).expect("room"));
    let last = |model: &Model| {
        _ = model.write_and_sync(LAST);
        (0..2).for_each(|_| model.shift());
    };
    let threads =
        vec![model.does(collector), model.does(first), model.does(last), model.does(Model::look)];
    model.end(threads);
}

/// The tree is stored next to changes that would show if they were made twice, or not at all.
fn checkpoints_beside_changes() {
    let disk = SimulatedDisk::new(1, Faults::none());
    let model = Model::on(disk.clone());
    let checkpoints =
        |model: &Model| (0..2).for_each(|_| model.space.checkpoint().expect("a device"));
    let changes = |model: &Model| {
        for number in (1..4).map(|number| 10 + number) {
            model.shift();
            model.insert(number);
        }
    };
    let writes = |model: &Model| (0..2).for_each(|_| _ = model.write_and_sync(FIRST));
    let threads = vec![
        model.does(checkpoints),
        model.does(changes),
        model.does(writes),
        model.does(Model::look),
    ];
    model.end(threads);
    model.space.sync().expect("a device");
    let (space, bytes) = Model::found_on(disk.crash(1));
    assert!(
        model.space.read(0, model.space.len()) == Ok(bytes),
        "a power cut changes what is there"
    );
    space.check().expect("it is sound");
}

/// Acknowledged changes are there after a close, refused ones are not, and no thread waits for
/// ever.
fn close_beside_all() {
    let device = device::memory();
    let model = Model::on(device.clone());
    let or_closed = |done: Result<(), Error>| assert!(matches!(done, Ok(()) | Err(Error::Closed)));
    let writer = |id: usize| {
        model.does(move |model: &Model| {
            for number in 0..3 {
                or_closed(model.write(id).map(drop));
                if number % 2 == id {
                    or_closed(model.space.sync());
                }
            }
        })
    };
    let collector = move |model: &Model| or_closed(model.space.collect().map(drop));
    let checkpoint = move |model: &Model| or_closed(model.space.checkpoint());
    let threads = vec![
        writer(FIRST),
        writer(LAST),
        model.does(collector),
        model.does(checkpoint),
        model.does(Model::look),
        model.does(|model| model.space.close().expect("a device")),
    ];
    threads.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
    let (space, bytes) = Model::found_on(device);
    assert_eq!(numbers_of(&bytes), model.written(), "what is there after a close");
    space.check().expect("it is sound");
}

#[test]
fn snapshots_are_whole_beside_segments_that_are_reused() {
    let name = "snapshots_are_whole_beside_segments_that_are_reused";
    SCHEDULES.check(name, snapshots_beside_reuse);
}

#[test]
fn syncs_beside_each_other_keep_what_they_promise() {
    SCHEDULES.check("syncs_beside_each_other_keep_what_they_promise", syncs_beside_each_other);
}

#[test]
fn a_collection_beside_writes_loses_nothing() {
    SCHEDULES.check("a_collection_beside_writes_loses_nothing", collection_beside_writes);
}

#[test]
fn checkpoints_beside_changes_have_each_once() {
    SCHEDULES.check("checkpoints_beside_changes_have_each_once", checkpoints_beside_changes);
}

#[test]
fn a_close_beside_all_keeps_what_was_taken() {
    SCHEDULES.check("a_close_beside_all_keeps_what_was_taken", close_beside_all);
}

#[test]
fn snapshots_that_are_counted_late_are_found() {
    finds(Planted::PinnedLate, "", snapshots_beside_reuse);
}

#[test]
fn a_sync_that_does_not_wait_is_found() {
    finds(Planted::SyncUnwaited, "after a power cut", syncs_beside_each_other);
}

#[test]
fn a_tree_that_is_cut_late_is_found() {
    finds(Planted::CutLate, "", checkpoints_beside_changes);
}
