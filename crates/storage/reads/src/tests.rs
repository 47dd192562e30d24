//! Lookups of several rounds over a device that a test holds up, and lets fail.

mod batch;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use device::{Completion, Device, Doorbell, FailedOperation, File, Mode, Queue, Request, Work};
use engine::{
    DeviceReads, Error, Lookup, PendingLookup, Progress, ReadRequest, ReadSource, Result,
};
use memory_budget::MemoryBudget;

use crate::{InFlightReads, ReadPool};

const BLOCK: usize = 512;
const BLOCKS: usize = 256;

/// A device with one file, of which each block has bytes of its number.
struct Disk {
    device: Arc<dyn Device>,
    file: Arc<dyn File>,
    /// Queues that were made.
    queues: AtomicUsize,
    /// Reads that a queue has handed to the device.
    started: AtomicUsize,
    makes_no_queue: AtomicBool,
    fails: AtomicBool,
    /// Whether reads stay with the device.
    holds: AtomicBool,
}

struct DiskQueue {
    disk: Arc<Disk>,
    depth: usize,
    requests: Vec<Request>,
    started: usize,
}

fn broken() -> device::Error {
    device::Error::Io { operation: FailedOperation::Queue, name: "ring".to_owned(), code: 5 }
}

impl Disk {
    fn new() -> Arc<Self> {
        let device: Arc<dyn Device> = device::memory();
        let file = device.open("data", Mode::Create).expect("a file");
        for block in 0..BLOCKS {
            let bytes = [block as u8; BLOCK];
            file.write_at((block * BLOCK) as u64, &bytes).expect("it is in memory");
        }
        let (queues, started) = Default::default();
        let (makes_no_queue, fails, holds) = Default::default();
        Arc::new(Self { device, file, queues, started, makes_no_queue, fails, holds })
    }
}

/// The source: a queue keeps the disk alive.
struct Source(Arc<Disk>);

impl ReadSource for Source {
    fn queue(&self, depth: usize) -> device::Result<Box<dyn Queue>> {
        if self.0.makes_no_queue.load(Relaxed) {
            return Err(broken());
        }
        self.0.queues.fetch_add(1, Relaxed);
        let (disk, requests) = (Arc::clone(&self.0), Vec::new());
        Ok(Box::new(DiskQueue { disk, depth, requests, started: 0 }))
    }
}

impl Queue for DiskQueue {
    fn submit(&mut self, request: Request) -> std::result::Result<(), Request> {
        if self.requests.len() == self.depth {
            return Err(request);
        }
        self.requests.push(request);
        Ok(())
    }

    fn poll(&mut self, into: &mut Vec<Completion>) -> device::Result<usize> {
        if self.disk.fails.load(Relaxed) {
            return Err(broken());
        }
        self.disk.started.fetch_add(self.requests.len() - self.started, Relaxed);
        self.started = self.requests.len();
        if self.disk.holds.load(Relaxed) {
            return Ok(0);
        }
        let count = self.requests.len();
        // The last one first: reads come back in any order.
        while let Some(Request { tag, file, work }) = self.requests.pop() {
            let Work::Read { offset, mut buffer } = work else { panic!("a read") };
            let result = file.read_at(offset, &mut buffer);
            into.push(Completion { tag, buffer: Some(buffer), result });
        }
        self.started = 0;
        Ok(count)
    }

    fn wait(&mut self, _count: usize, into: &mut Vec<Completion>) -> device::Result<usize> {
        self.disk.holds.store(false, Relaxed);
        self.poll(into)
    }

    fn in_flight(&self) -> usize {
        self.requests.len()
    }

    fn ring(&mut self, bell: &Arc<Doorbell>) -> device::Result<()> {
        bell.ring();
        Ok(())
    }
}

/// A lookup of the blocks of its rounds. Its value is the number of each block.
struct Rounds {
    rounds: Vec<Vec<usize>>,
    reads: Vec<ReadRequest>,
    missing: usize,
    value: Vec<u8>,
    panics: bool,
}

impl Rounds {
    fn boxed(source: &Arc<dyn ReadSource>, disk: &Disk, rounds: &[&[usize]]) -> Box<Self> {
        Self::of(source, disk, rounds, BLOCK, false)
    }

    fn of(
        source: &Arc<dyn ReadSource>,
        disk: &Disk,
        rounds: &[&[usize]],
        len: usize,
        panics: bool,
    ) -> Box<Self> {
        let request = |block: &usize| ReadRequest {
            source: Arc::clone(source),
            file: Arc::clone(&disk.file),
            offset: (block * BLOCK) as u64,
            len,
        };
        let mut rounds: Vec<Vec<usize>> = rounds.iter().rev().map(|it| it.to_vec()).collect();
        let first = rounds.pop().expect("a round");
        let reads: Vec<ReadRequest> = first.iter().map(request).collect();
        let (missing, value) = (reads.len(), vec![0; reads.len()]);
        Box::new(Self { rounds, reads, missing, value, panics })
    }
}

impl PendingLookup for Rounds {
    fn key(&self) -> &[u8] {
        b"key"
    }

    fn reads(&self) -> &[ReadRequest] {
        &self.reads
    }

    fn resume(
        &mut self,
        read: usize,
        bytes: Result<&[u8]>,
        into: &mut Vec<u8>,
    ) -> Result<Progress> {
        let bytes = bytes?;
        assert!(!self.panics, "as the test wants it");
        let at = self.value.len() - self.reads.len() + read;
        self.value[at] = bytes[0];
        assert!(bytes.iter().take(BLOCK).all(|byte| *byte == bytes[0]), "one block");
        self.missing -= 1;
        if self.missing > 0 {
            return Ok(Progress::Waiting);
        }
        let Some(next) = self.rounds.pop() else {
            into.clone_from(&self.value);
            return Ok(Progress::Found);
        };
        let like = self.reads[0].clone();
        self.reads = next
            .iter()
            .map(|block| ReadRequest { offset: (block * BLOCK) as u64, ..like.clone() })
            .collect();
        self.missing = next.len();
        self.value.resize(self.value.len() + next.len(), 0);
        Ok(Progress::NextRound)
    }

    fn is_newest(&self) -> bool {
        true
    }
}

type Values = BTreeMap<u32, Result<Option<Vec<u8>>>>;

fn complete(reads: &mut InFlightReads<u32>, waits: bool, values: &mut Values) -> usize {
    reads.complete(waits, &mut |tag, done| {
        let value = done.value.map(|value| value.map(|value| value.clone()));
        assert!(values.insert(tag, value).is_none(), "{tag} was reported twice");
    })
}

fn setup(depth: usize) -> (Arc<Disk>, Arc<dyn ReadSource>, Arc<MemoryBudget>, InFlightReads<u32>) {
    let (disk, budget) = (Disk::new(), Arc::new(MemoryBudget::new(1 << 30)));
    let source: Arc<dyn ReadSource> = Arc::new(Source(Arc::clone(&disk)));
    let reads = InFlightReads::new(depth, &budget);
    (disk, source, budget, reads)
}

#[test]
fn lookups_of_several_rounds_end_with_their_values() {
    let (disk, source, budget, mut reads) = setup(128);
    let mut values = Values::new();
    for tag in 0..100_u32 {
        let block = tag as usize;
        let rounds: [&[usize]; 3] = [&[block, block + 1, block + 2], &[block + 50], &[7, block]];
        let lookup = Rounds::boxed(&source, &disk, &rounds[..tag as usize % 3 + 1]);
        assert!(reads.start(lookup, tag).is_ok());
    }
    assert_eq!((reads.len(), reads.is_full()), (100, false));
    while !reads.is_empty() {
        assert!(complete(&mut reads, true, &mut values) > 0, "it waits for one");
    }
    for (tag, value) in &values {
        let block = *tag as u8;
        let all = [block, block + 1, block + 2, block + 50, 7, block];
        let count = [3, 4, 6][*tag as usize % 3];
        assert_eq!(value, &Ok(Some(all[..count].to_vec())), "{tag}");
    }
    assert_eq!((values.len(), disk.queues.load(Relaxed)), (100, 1));
    assert!(budget.used() > 0, "buffers are kept");
    drop(reads);
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_table_is_full_by_its_lookups_or_by_their_bytes() {
    let (disk, source, _, mut reads) = setup(3);
    for tag in 0..3 {
        assert!(reads.start(Rounds::boxed(&source, &disk, &[&[1]]), tag).is_ok());
    }
    let refused = reads.start(Rounds::boxed(&source, &disk, &[&[9]]), 3);
    let (lookup, tag) = refused.expect_err("it is full");
    assert_eq!((lookup.reads()[0].offset, tag), (9 * BLOCK as u64, 3));
    let mut values = Values::new();
    while !reads.is_empty() {
        complete(&mut reads, true, &mut values);
    }
    assert_eq!(values.len(), 3);
    // Two of 3 MiB, and not three. One that is longer than all is taken alone.
    let long = |len| Rounds::of(&source, &disk, &[&[0]], len, false);
    assert!(reads.start(long(3 << 20), 0).is_ok() && reads.start(long(3 << 20), 1).is_ok());
    assert!(reads.start(long(3 << 20), 2).is_err() && !reads.is_full());
    drop(reads);
    let mut reads = InFlightReads::new(3, &Arc::new(MemoryBudget::new(1 << 30)));
    assert!(reads.start(long(20 << 20), 0).is_ok() && reads.start(long(1), 1).is_err());
}

#[test]
fn the_reads_of_a_table_take_a_small_part_of_the_budget() {
    let (disk, source, ..) = setup(1);
    const LEN: usize = 64 << 10;
    let budget = Arc::new(MemoryBudget::new(64 * 8 * LEN as u64));
    let mut reads = InFlightReads::new(128, &budget);
    let lookup = || Rounds::of(&source, &disk, &[&[0]], LEN, false);
    let taken = (0..128).take_while(|tag| reads.start(lookup(), *tag).is_ok()).count();
    assert_eq!(taken, 8, "its share has room for no more");
    let mut values = Values::new();
    while !reads.is_empty() {
        complete(&mut reads, true, &mut values);
    }
    assert_eq!(values.len(), 8);
    assert!(reads.start(lookup(), 8).is_ok(), "there is room again");
    // The share follows the budget, and has a least.
    budget.set_limit(64 * 20 * LEN as u64);
    let taken = (9..128).take_while(|tag| reads.start(lookup(), *tag).is_ok()).count();
    assert_eq!(taken, 19);
    budget.set_limit(1);
    while !reads.is_empty() {
        complete(&mut reads, true, &mut values);
    }
    let taken = (0..128).take_while(|tag| reads.start(lookup(), *tag).is_ok()).count();
    assert_eq!(taken, 4);
}

#[test]
fn one_read_is_handed_over_immediately_and_many_are_together() {
    let (disk, source, _, mut reads) = setup(128);
    disk.holds.store(true, Relaxed);
    let mut calls = 0;
    for tag in 0..64 {
        let before = disk.started.load(Relaxed);
        assert!(reads.start(Rounds::boxed(&source, &disk, &[&[1]]), tag).is_ok());
        calls += usize::from(disk.started.load(Relaxed) > before);
        if tag == 0 {
            assert_eq!(disk.started.load(Relaxed), 1);
        }
    }
    assert!((8..=32).contains(&calls), "{calls} calls for 64 reads");
    assert_eq!(complete(&mut reads, false, &mut Values::new()), 0);
    assert_eq!(disk.started.load(Relaxed), 64, "nothing is held back from here on");
}

#[test]
fn a_queue_that_fails_ends_its_lookups_and_no_others() {
    let (disk, source, budget, mut reads) = setup(128);
    let (sound_disk, sound, ..) = setup(1);
    disk.holds.store(true, Relaxed);
    for tag in 0..40 {
        assert!(reads.start(Rounds::boxed(&source, &disk, &[&[1, 2], &[3]]), tag).is_ok());
        let other = Rounds::boxed(&sound, &sound_disk, &[&[4]]);
        assert!(reads.start(other, 100 + tag).is_ok());
    }
    disk.fails.store(true, Relaxed);
    let mut values = Values::new();
    while !reads.is_empty() {
        assert!(complete(&mut reads, true, &mut values) > 0, "it waits for one");
    }
    let failed = Err(Error::Device(broken()));
    for tag in 0..40 {
        assert_eq!(values[&tag], failed);
        assert_eq!(values[&(100 + tag)], Ok(Some(vec![4])));
    }
    // The next lookup makes another queue.
    disk.fails.store(false, Relaxed);
    assert!(reads.start(Rounds::boxed(&source, &disk, &[&[5]]), 1000).is_ok());
    complete(&mut reads, true, &mut values);
    assert_eq!((&values[&1000], disk.queues.load(Relaxed)), (&Ok(Some(vec![5])), 2));
    drop(reads);
    assert_eq!(budget.used(), 0, "buffers that went with the queue are not counted any more");
}

#[test]
fn a_lookup_without_a_queue_is_reported_and_the_bell_is_rung() {
    let (disk, source, _, mut reads) = setup(8);
    let bell = Arc::new(Doorbell::new().expect("a bell"));
    reads.ring(&bell).expect("there is no queue yet");
    disk.makes_no_queue.store(true, Relaxed);
    assert!(reads.start(Rounds::boxed(&source, &disk, &[&[1]]), 7).is_ok());
    assert!(is_rung(&bell), "there is something to report");
    assert_eq!(reads.len(), 1);
    let mut values = Values::new();
    assert_eq!(complete(&mut reads, false, &mut values), 1);
    assert_eq!(values[&7], Err(Error::Device(broken())));
    assert!(reads.is_empty());
}

fn is_rung(bell: &Doorbell) -> bool {
    use std::os::fd::AsFd;
    rustix::io::read(bell.as_fd(), &mut [0; 8]).is_ok()
}

/// A panic loses the lookup that it concerns, and no other one.
#[test]
fn a_panic_of_a_callback_or_a_lookup_loses_that_lookup_alone() {
    for (callback_panics, lookup_panics) in [(true, false), (false, true)] {
        let (disk, source, budget, mut reads) = setup(16);
        for tag in 0..16 {
            let panics = lookup_panics && tag == 5;
            let lookup = Rounds::of(&source, &disk, &[&[1, 2], &[3]], BLOCK, panics);
            assert!(reads.start(lookup, tag).is_ok());
        }
        let mut values = Values::new();
        let mut panics = 0;
        while !reads.is_empty() {
            let completed = catch_unwind(AssertUnwindSafe(|| {
                reads.complete(true, &mut |tag, done| {
                    assert!(!callback_panics || tag != 5, "as the test wants it");
                    let value = done.value.map(|value| value.map(|value| value.clone()));
                    values.insert(tag, value);
                });
            }));
            panics += usize::from(completed.is_err());
        }
        assert_eq!((panics, values.len()), (1, 15));
        assert!(values.values().all(|value| value == &Ok(Some(vec![1, 2, 3]))));
        // The table works on.
        assert!(reads.start(Rounds::boxed(&source, &disk, &[&[9]]), 99).is_ok());
        complete(&mut reads, true, &mut values);
        assert_eq!(values[&99], Ok(Some(vec![9])));
        drop(reads);
        assert_eq!(budget.used(), 0);
    }
}

/// A lookup that a panic has lost leaves its slot to others, once its reads have ended: by
/// themselves, or with their queue.
#[test]
fn a_lost_lookup_leaves_its_slot() {
    for queue_fails in [false, true] {
        let (disk, source, _, mut reads) = setup(16);
        for _ in 0..20 {
            for tag in 0..8 {
                let lookup = Rounds::of(&source, &disk, &[&[1, 2, 3, 4]], BLOCK, tag % 2 == 0);
                assert!(reads.start(lookup, tag).is_ok());
            }
            let mut completed = 0;
            while !reads.is_empty() {
                completed += 1;
                disk.fails.store(queue_fails && completed == 3, Relaxed);
                let _panicked = catch_unwind(AssertUnwindSafe(|| {
                    reads.complete(true, &mut |_, _| ());
                }));
                disk.fails.store(false, Relaxed);
            }
        }
        assert!(reads.slot_count() <= 16, "{} {queue_fails}", reads.slot_count());
    }
}

#[test]
fn dropping_a_table_cancels_its_lookups() {
    let (disk, source, budget, mut reads) = setup(16);
    disk.holds.store(true, Relaxed);
    for tag in 0..16 {
        assert!(reads.start(Rounds::boxed(&source, &disk, &[&[1], &[2]]), tag).is_ok());
    }
    assert!(budget.used() > 0);
    drop(reads);
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_blocking_lookup_does_all_its_rounds() {
    let (disk, source, budget, _) = setup(1);
    let pool = ReadPool::new(&budget);
    let mut value = Vec::new();
    let pending = |rounds: &[&[usize]]| Lookup::Pending(Rounds::boxed(&source, &disk, rounds));
    assert_eq!(pool.complete(Lookup::Found, &mut value), Ok(true));
    assert_eq!(pool.complete(Lookup::Absent, &mut value), Ok(false));
    assert_eq!(pool.complete(pending(&[&[1], &[2], &[3]]), &mut value), Ok(true));
    assert_eq!((value.as_slice(), disk.queues.load(Relaxed)), (&[1, 2, 3][..], 0), "no queue");
    assert_eq!(pool.complete(pending(&[&[4], &[5, 6], &[7]]), &mut value), Ok(true));
    assert_eq!((value.as_slice(), disk.queues.load(Relaxed)), (&[4, 5, 6, 7][..], 1));
    // The queue is used again.
    assert_eq!(pool.complete(pending(&[&[5, 6]]), &mut value), Ok(true));
    assert_eq!(disk.queues.load(Relaxed), 1);
    // Without a queue, the reads are done in sequence.
    pool.close();
    disk.makes_no_queue.store(true, Relaxed);
    assert_eq!(pool.complete(pending(&[&[4], &[5, 6], &[7]]), &mut value), Ok(true));
    assert_eq!((value.as_slice(), disk.queues.load(Relaxed)), (&[4, 5, 6, 7][..], 1));
}

#[test]
fn many_pending_lookups_are_completed_and_each_has_its_own_result() {
    for has_queue in [true, false] {
        let (disk, source, budget, _) = setup(1);
        disk.makes_no_queue.store(!has_queue, Relaxed);
        let pool = ReadPool::new(&budget);
        let lookups = |count: usize| -> Vec<Box<dyn PendingLookup>> {
            let lookup = |at: usize| Rounds::boxed(&source, &disk, &[&[at % 200], &[7]]);
            (0..count).map(|at| lookup(at) as Box<dyn PendingLookup>).collect()
        };
        for count in [0, 1, 2, 1000] {
            let mut values = vec![None; count];
            pool.complete_many(lookups(count), &mut |index, value| {
                let value = value.expect("it is read").map(std::mem::take);
                assert!(values[index].replace(value).is_none(), "{index} ends twice");
            });
            for (at, value) in values.into_iter().enumerate() {
                assert_eq!(value, Some(Some(vec![(at % 200) as u8, 7])), "{at} of {count}");
            }
        }
        assert_eq!(disk.queues.load(Relaxed), usize::from(has_queue));
        if has_queue {
            disk.fails.store(true, Relaxed);
            let mut failed = 0;
            pool.complete_many(lookups(10), &mut |_, value| failed += usize::from(value.is_err()));
            assert_eq!(failed, 10);
        }
    }
}

#[test]
fn long_reads_are_counted_and_short_ones_use_the_memory_of_the_thread() {
    let (disk, source, budget, _) = setup(1);
    let pool = ReadPool::new(&budget);
    let mut value = Vec::new();
    for (len, counted) in [(BLOCK, 0), (64 << 10, 64 << 10)] {
        let lookup = Counting {
            inner: Rounds::of(&source, &disk, &[&[0]], len, false),
            budget: Arc::clone(&budget),
            used: Arc::default(),
        };
        let used = Arc::clone(&lookup.used);
        pool.complete(Lookup::Pending(Box::new(lookup)), &mut value).expect("it is there");
        let used = used.load(Relaxed);
        assert!((counted..counted + 8192).contains(&used), "{used} bytes for {len}");
    }
    assert_eq!(budget.used(), 0);
}

/// Notes the bytes of the budget while its read is there.
struct Counting {
    inner: Box<Rounds>,
    budget: Arc<MemoryBudget>,
    used: Arc<AtomicUsize>,
}

impl PendingLookup for Counting {
    fn key(&self) -> &[u8] {
        b"key"
    }

    fn reads(&self) -> &[ReadRequest] {
        self.inner.reads()
    }

    fn resume(
        &mut self,
        _read: usize,
        bytes: Result<&[u8]>,
        _into: &mut Vec<u8>,
    ) -> Result<Progress> {
        bytes?;
        self.used.store(self.budget.used() as usize, Relaxed);
        Ok(Progress::Absent)
    }

    fn is_newest(&self) -> bool {
        false
    }
}

#[test]
fn reads_of_a_device_go_through_its_queue() {
    let device = device::memory();
    let file = device.open("data", Mode::Create).expect("a file");
    file.write_at(0, &[8; BLOCK]).expect("it is in memory");
    let source: Arc<dyn ReadSource> = Arc::new(DeviceReads(device));
    let mut disk = Disk::new();
    Arc::get_mut(&mut disk).expect("not shared").file = file;
    let budget = Arc::new(MemoryBudget::new(1 << 30));
    let mut reads = InFlightReads::new(4, &budget);
    assert!(reads.start(Rounds::boxed(&source, &disk, &[&[0]]), 1).is_ok());
    let mut values = Values::new();
    complete(&mut reads, true, &mut values);
    assert_eq!(values[&1], Ok(Some(vec![8])));
}
