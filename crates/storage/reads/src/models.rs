//! Models of in-flight reads under shuttle: a device that completes reads in any order, a queue
//! that fails, and callbacks that panic.
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle" cargo test -p thermocline-reads --profile models \
//!   --lib models --target-dir target/shuttle
//! ```

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use device::{Completion, Doorbell, FailedOperation, File, Mode, Queue, Request, Work};
use engine::{Error, PendingLookup, Progress, ReadRequest, ReadSource, Result};
use memory_budget::MemoryBudget;
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::{Condvar, Mutex};
use shuttle::thread::spawn;
use sync::planted::must_fail;
use sync::schedules::Schedules;

use crate::InFlightReads;

const SCHEDULES: Schedules = Schedules::new(20_000);
const LOOKUPS: u32 = 4;
const READ_BYTES: usize = 64;

/// The part of a queue that the device's thread shares.
#[derive(Default)]
struct Requests {
    /// Reads that the device has.
    begun: Vec<Request>,
    completed: Vec<Completion>,
    fails: bool,
    /// The queue is dropped.
    is_over: bool,
}

#[derive(Default)]
struct Device {
    requests: Mutex<Requests>,
    moved: Condvar,
}

/// A queue whose reads a thread completes.
struct ModelQueue {
    device: Arc<Device>,
    /// Reads that are held back.
    held_back: Vec<Request>,
    in_flight: usize,
    /// A broken queue does not wait for its reads when it is dropped.
    waits_on_drop: bool,
}

fn broken() -> device::Error {
    device::Error::Io { operation: FailedOperation::Queue, name: "ring".to_owned(), code: 5 }
}

impl ModelQueue {
    /// Hands the reads that were held back to the device, and takes completions. `None` if the
    /// queue has failed.
    fn take(&mut self, requests: &mut Requests, into: &mut Vec<Completion>) -> Option<usize> {
        requests.begun.append(&mut self.held_back);
        self.device.moved.notify_all();
        if requests.fails {
            return None;
        }
        let count = requests.completed.len();
        into.append(&mut requests.completed);
        self.in_flight -= count;
        Some(count)
    }
}

impl Queue for ModelQueue {
    fn submit(&mut self, request: Request) -> std::result::Result<(), Request> {
        self.held_back.push(request);
        self.in_flight += 1;
        Ok(())
    }

    fn poll(&mut self, into: &mut Vec<Completion>) -> device::Result<usize> {
        let device = Arc::clone(&self.device);
        let mut requests = device.requests.lock().expect("no thread panics with it");
        self.take(&mut requests, into).ok_or_else(broken)
    }

    fn wait(&mut self, count: usize, into: &mut Vec<Completion>) -> device::Result<usize> {
        let device = Arc::clone(&self.device);
        let mut requests = device.requests.lock().expect("no thread panics with it");
        let mut taken = 0;
        while taken < count && self.in_flight > 0 {
            taken += self.take(&mut requests, into).ok_or_else(broken)?;
            if taken < count && self.in_flight > 0 {
                requests = device.moved.wait(requests).expect("no thread panics with it");
            }
        }
        Ok(taken)
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn ring(&mut self, _bell: &Arc<Doorbell>) -> device::Result<()> {
        Ok(())
    }
}

impl Drop for ModelQueue {
    fn drop(&mut self) {
        let mut requests = self.device.requests.lock().expect("no thread panics with it");
        while self.waits_on_drop && !requests.begun.is_empty() {
            requests = self.device.moved.wait(requests).expect("no thread panics with it");
        }
        let left = requests.begun.len();
        requests.is_over = true;
        self.device.moved.notify_all();
        drop(requests);
        if !std::thread::panicking() {
            assert_eq!(left, 0, "the device has reads into freed buffers");
        }
    }
}

/// Completes the reads of a queue, in any order, until the queue is dropped. It may fail the queue.
fn serve(device: &Device, may_fail: bool) {
    let mut requests = device.requests.lock().expect("no thread panics with it");
    while !requests.is_over {
        if requests.begun.is_empty() {
            requests = device.moved.wait(requests).expect("no thread panics with it");
            continue;
        }
        requests.fails |= may_fail && thread_rng().gen_ratio(1, 8);
        let index = thread_rng().gen_range(0..requests.begun.len());
        let Request { tag, work, .. } = requests.begun.swap_remove(index);
        let Work::Read { offset, mut buffer } = work else { panic!("a lookup reads") };
        buffer.fill(offset as u8);
        requests.completed.push(Completion { tag, buffer: Some(buffer), result: Ok(()) });
        device.moved.notify_all();
        drop(requests);
        requests = device.requests.lock().expect("no thread panics with it");
    }
}

/// Makes queues, each with a thread of the device.
struct Source {
    may_fail: bool,
    waits_on_drop: bool,
    threads: Mutex<Vec<shuttle::thread::JoinHandle<()>>>,
}

impl ReadSource for Source {
    fn queue(&self, _depth: usize) -> device::Result<Box<dyn Queue>> {
        let device = Arc::<Device>::default();
        let (of_thread, may_fail) = (Arc::clone(&device), self.may_fail);
        let thread = spawn(move || serve(&of_thread, may_fail));
        self.threads.lock().expect("no thread panics with it").push(thread);
        let waits_on_drop = self.waits_on_drop;
        Ok(Box::new(ModelQueue { device, held_back: Vec::new(), in_flight: 0, waits_on_drop }))
    }
}

/// A lookup of several rounds of two reads. Its value has a byte of each read.
struct Rounds {
    reads: Vec<ReadRequest>,
    rounds_left: u32,
    missing: usize,
    value: Vec<u8>,
}

impl Rounds {
    fn boxed(source: &Arc<dyn ReadSource>, file: &Arc<dyn File>, number: u32) -> Box<Self> {
        let read = |index: u32| ReadRequest {
            source: Arc::clone(source),
            file: Arc::clone(file),
            offset: u64::from(number * 16 + index),
            len: READ_BYTES,
        };
        let (reads, rounds_left) = ((0..2).map(read).collect(), number % 2);
        Box::new(Self { reads, rounds_left, missing: 2, value: Vec::new() })
    }

    /// Returns the bytes of a value, in any order of the reads of a round.
    fn expected(number: u32) -> Vec<u8> {
        let round = [number * 16, number * 16 + 1].map(|offset| offset as u8);
        round.repeat(1 + number as usize % 2)
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
        let (bytes, offset) = (bytes?, self.reads[read].offset as u8);
        assert!(bytes.iter().all(|byte| *byte == offset), "the bytes are of another read");
        self.value.push(offset);
        self.missing -= 1;
        if self.missing > 0 {
            return Ok(Progress::Waiting);
        }
        if self.rounds_left > 0 {
            (self.rounds_left, self.missing) = (self.rounds_left - 1, 2);
            return Ok(Progress::NextRound);
        }
        self.value.sort_unstable();
        into.clone_from(&self.value);
        Ok(Progress::Found)
    }

    fn is_newest(&self) -> bool {
        false
    }
}

/// The device of a model.
#[derive(Clone, Copy)]
struct Faults {
    queue_fails: bool,
    callback_panics: bool,
    waits_on_drop: bool,
    /// The table is dropped with lookups in flight.
    is_dropped: bool,
}

const SOUND: Faults =
    Faults { queue_fails: false, callback_panics: false, waits_on_drop: true, is_dropped: false };

/// A thread has several lookups in flight. Each one is reported once, with its value or with the
/// failure of its queue, unless the callback panicked for it.
fn lookups(faults: Faults) {
    let file = device::memory().open("data", Mode::Create).expect("a file");
    let owned = Arc::new(Source {
        may_fail: faults.queue_fails,
        waits_on_drop: faults.waits_on_drop,
        threads: Mutex::default(),
    });
    let source: Arc<dyn ReadSource> = Arc::clone(&owned) as Arc<dyn ReadSource>;
    let budget = Arc::new(MemoryBudget::new(1 << 20));
    let mut table = InFlightReads::new(2, &budget);
    let mut ended = BTreeMap::new();
    let mut number = 0;
    while number < LOOKUPS || !table.is_empty() {
        if faults.is_dropped && number == 2 {
            break;
        }
        if number < LOOKUPS && table.start(Rounds::boxed(&source, &file, number), number).is_ok() {
            number += 1;
            continue;
        }
        // The callback panics for the lookup with this number.
        let panics = faults.callback_panics.then_some(1);
        let _caught = catch_unwind(AssertUnwindSafe(|| {
            table.complete(true, &mut |number: u32, done| {
                let value = done.value.map(|value| value.cloned());
                assert!(ended.insert(number, value).is_none(), "{number} is reported twice");
                if panics == Some(number) {
                    std::panic::resume_unwind(Box::new("the callback panics"));
                }
            })
        }));
    }
    drop(table);
    assert_eq!(budget.used(), 0, "the buffers are returned");
    let threads = std::mem::take(&mut *owned.threads.lock().expect("no thread panics with it"));
    threads.into_iter().for_each(|thread| thread.join().expect("the device does not panic"));
    if faults.is_dropped {
        return;
    }
    assert_eq!(ended.len(), LOOKUPS as usize, "a lookup is lost: {ended:?}");
    for (number, value) in ended {
        match value {
            Ok(value) => {
                let mut expected = Rounds::expected(number);
                expected.sort_unstable();
                assert_eq!(value, Some(expected), "{number}");
            }
            Err(error) => assert!(faults.queue_fails && error == Error::from(broken()), "{error}"),
        }
    }
}

#[test]
fn lookups_end_with_their_values() {
    SCHEDULES.check("lookups", || lookups(SOUND));
}

#[test]
fn a_queue_that_fails_loses_no_lookup() {
    SCHEDULES.check("failing queue", || lookups(Faults { queue_fails: true, ..SOUND }));
}

#[test]
fn a_callback_that_panics_loses_no_other_lookup() {
    let faults = Faults { callback_panics: true, queue_fails: true, ..SOUND };
    SCHEDULES.check("panicking callback", move || lookups(faults));
}

#[test]
fn a_table_that_is_dropped_waits_for_its_reads() {
    let faults = Faults { is_dropped: true, queue_fails: true, ..SOUND };
    SCHEDULES.check("dropped table", move || lookups(faults));
}

#[test]
fn a_queue_that_does_not_wait_is_found() {
    must_fail("a queue that does not wait", "reads into freed buffers", || {
        let faults = Faults { is_dropped: true, waits_on_drop: false, ..SOUND };
        SCHEDULES.check("hasty queue", move || lookups(faults));
    });
}
