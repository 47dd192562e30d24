//! No descriptor is left for one operation of a workload, and from there on: all stores recover.
//! The same holds if the place of a read cannot be reached.
//!
//! 1. The workload runs once without a fault, to count its operations of each kind.
//! 2. For each operation that needs a descriptor, it runs again and that one finds none, once or
//!    until the fault is taken away, which happens as soon as a call has failed.
//! 3. Each call that fails must do so with an error that may pass
//!    ([`engine::Error::is_retryable`]). The same call must then succeed: no store stays read-only.
//! 4. The store is flushed, closed and opened again, and everything is read. The fault may strike
//!    one of these reads too.
//! 5. Another opening without a fault finds every write.
//! 6. After one more run, no queue of the device can be made once the store is open: every read
//!    must succeed without one.

use std::sync::Arc;

use device::{Device, Failure, Fault, FaultDevice, Lasting, OperationKind};
use engine::{Direction, KeyRange};
use journal::{Durability, OpenError};
use reads::BlockingReads;

use crate::Fixture;
use crate::database::{Database, Failed};
use crate::draw::Draw;
use crate::failure::catch;
use crate::model::Model;
use crate::operation::{Generator, Profile, Step};
use crate::sequential::{collect, compare_everything, compare_pairs, walk};

const WRITES: usize = 14;

/// The writes of the workload after which the engine flushes.
const FLUSH_EVERY: usize = 5;

/// A run, and the device on which the fault strikes.
struct Run<'a> {
    fixture: &'a dyn Fixture,
    device: Arc<FaultDevice>,
    seed: u64,
    model: Model,
}

/// How a write has ended.
enum Written {
    Whole,
    /// The journal has it and the engine does not: opening will apply it.
    InJournal,
}

/// Returns whether the failure leaves everything unchanged.
fn passes(error: &Failed) -> bool {
    match error {
        Failed::Device(error) | Failed::Open(OpenError::Device(error)) => error.is_retryable(),
        Failed::Engine(error) => error.is_retryable(),
        Failed::Journal(error) => matches!(error, journal::Error::NoRoom { .. }),
        Failed::Open(OpenError::Replay { source, .. }) => {
            source.downcast_ref::<engine::Error>().is_some_and(engine::Error::is_retryable)
        }
        Failed::Open(_) | Failed::Ahead { .. } => false,
    }
}

impl Run<'_> {
    /// Does `call`, and once more with descriptors if there was none.
    fn twice<T>(
        &self,
        what: &str,
        mut call: impl FnMut() -> Result<T, Failed>,
    ) -> Result<T, String> {
        let error = match call() {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        if !passes(&error) {
            return Err(format!("{what} failed for good: {error}"));
        }
        self.device.heal();
        call().map_err(|again| format!("{what} failed ({error}), and then again: {again}"))
    }

    fn open(&self) -> Result<Database, String> {
        let device: Arc<dyn Device> = self.device.clone();
        self.twice("opening", || Database::open(self.fixture, &device, self.seed))
    }

    fn write(
        &mut self,
        database: &Database,
        steps: &[Step],
        durability: Durability,
    ) -> Result<Written, String> {
        for _ in 0..2 {
            let seqno = database.opened.sequence.last().get() + 1;
            let error = match database.write(steps, durability) {
                Ok(number) => {
                    self.model.apply(steps, number);
                    return Ok(Written::Whole);
                }
                Err(error) => error,
            };
            if !passes(&error) {
                return Err(format!("a write failed for good: {error}"));
            }
            self.device.heal();
            if database.journaled() < seqno {
                continue;
            }
            self.model.apply(steps, seqno);
            if !matches!(error, Failed::Journal(_)) {
                return Ok(Written::InJournal);
            }
            self.twice("the wait for a write", || database.wait_durable())?;
            return Ok(Written::Whole);
        }
        Err("a write failed twice".to_owned())
    }

    /// Opens, writes, flushes, closes.
    fn work(&mut self) -> Result<(), String> {
        let database = self.open()?;
        let profile = Profile {
            keys_more: 0,
            ingests: false,
            ordered: false,
            deletes_ranges: database.opened.engine.capabilities().deletes_ranges,
            key_bytes_max: self.fixture.key_bytes_max(),
            value_bytes_max: 500,
            reopens: false,
        };
        let mut generator = Generator::new(self.seed, profile);
        let mut draw = Draw::new(self.seed, "out of files");
        for number in 1..=WRITES {
            if number % FLUSH_EVERY == 0 {
                self.twice("a flush", || database.flush())?;
            }
            let durability =
                *draw.pick(&[Durability::Buffered, Durability::Flushed, Durability::Synced]);
            let steps = generator.write();
            if let Written::InJournal = self.write(&database, &steps, durability)? {
                return Ok(());
            }
        }
        self.device.heal();
        self.twice("the last flush", || database.flush())?;
        database.close().map_err(|error| format!("closing: {error}"))
    }

    /// Opens again and reads everything, by gets and by walks.
    fn read(&self) -> Result<(), String> {
        let database = self.open()?;
        let opened = &database.opened;
        let (engine, last) = (opened.engine.as_ref(), self.model.last());
        for key in self.model.keys() {
            let mut value = Vec::new();
            let found = self.twice("a get", || Ok(engine.get(key, &mut value)?))?;
            if found.then_some(value.as_slice()) != self.model.get_at(key, last) {
                return Err(format!("a get of {key:?} gave another value"));
            }
        }
        let everything = self.model.scan_at(&KeyRange::all(), Direction::Forward, last);
        let mut pairs = self.twice("a walk", || Ok(walk(engine, usize::MAX)?))?;
        pairs.sort_unstable();
        compare_pairs(&pairs, &everything).map_err(|what| format!("a walk: {what}"))?;
        if engine.capabilities().ordered {
            let pin = opened.sequence.pin();
            let pairs = self.twice("a scan", || {
                let direction = Direction::Backward;
                let mut cursor = engine.scan(KeyRange::all(), direction, Arc::clone(&pin))?;
                Ok(collect(cursor.as_mut(), usize::MAX)?)
            })?;
            let expected = self.model.scan_at(&KeyRange::all(), Direction::Backward, last);
            compare_pairs(&pairs, &expected).map_err(|what| format!("a scan: {what}"))?;
        }
        database.close().map_err(|error| format!("closing after reads: {error}"))
    }

    /// Everything is there, also if reads get no queue of the device.
    fn compare(&self, queues: Queues) -> Result<(), String> {
        self.device.heal();
        let device: Arc<dyn Device> = self.device.clone();
        let database = self.open()?;
        if queues == Queues::None {
            let kind = OperationKind::Queue;
            let nth = self.device.count(Some(kind)) + 1;
            let (failure, lasting) = (Failure::OutOfFiles, Lasting::ForGood);
            self.device.fail(Fault { kind: Some(kind), nth, failure, lasting });
        }
        let (found, last) = (database.recovered, self.model.last());
        if found != last {
            return Err(format!("found write {found} of {last}"));
        }
        let opened = &database.opened;
        compare_everything(opened.engine.as_ref(), &opened.sequence, &self.model, last)?;
        drop(database);
        self.device.heal();
        crate::database::check(self.fixture, &device)
    }
}

/// Whether queues of the device can be made for the reads at the end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Queues {
    Some,
    None,
}

/// The operations of a run before its last opening, of each kind, and the failed ones.
struct Ran {
    counts: [u64; OperationKind::ALL.len()],
    failed: u64,
}

fn run(
    fixture: &dyn Fixture,
    seed: u64,
    fault: Option<Fault>,
    queues: Queues,
) -> Result<Ran, String> {
    let device = FaultDevice::new(device::memory());
    let mut run = Run { fixture, device: Arc::clone(&device), seed, model: Model::default() };
    fault.into_iter().for_each(|fault| device.fail(fault));
    catch(|| run.work())?;
    catch(|| run.read())?;
    let counts = OperationKind::ALL.map(|kind| device.count(Some(kind)));
    let failed = device.failed();
    catch(|| run.compare(queues))?;
    Ok(Ran { counts, failed })
}

/// Runs the workload of `seed` with each of its operations in turn. Returns how many runs there
/// were.
pub(crate) fn out_of_files(fixture: &dyn Fixture, seed: u64) -> Result<u64, String> {
    run(fixture, seed, None, Queues::None).map_err(|what| format!("without queues: {what}"))?;
    let kinds: Vec<OperationKind> =
        OperationKind::ALL.into_iter().filter(|kind| kind.needs_descriptor()).collect();
    fail_each(fixture, seed, &kinds, Failure::OutOfFiles)
}

/// The same with each read, whose place cannot be reached.
pub(crate) fn unavailable(fixture: &dyn Fixture, seed: u64) -> Result<u64, String> {
    fail_each(fixture, seed, &[OperationKind::Read], Failure::Unavailable)
}

fn fail_each(
    fixture: &dyn Fixture,
    seed: u64,
    kinds: &[OperationKind],
    failure: Failure,
) -> Result<u64, String> {
    let whole = run(fixture, seed, None, Queues::Some)?;
    let (mut runs, mut failed) = (1, 0);
    for (kind, count) in OperationKind::ALL.into_iter().zip(whole.counts) {
        if !kinds.contains(&kind) {
            continue;
        }
        for nth in 1..=count {
            for lasting in [Lasting::Once, Lasting::ForGood] {
                let fault = Fault { kind: Some(kind), nth, failure, lasting };
                let ran = run(fixture, seed, Some(fault), Queues::Some);
                let ran =
                    ran.map_err(|what| format!("{kind:?} {nth} fails ({failure:?}): {what}"))?;
                failed += ran.failed;
                runs += 1;
            }
        }
    }
    match failed {
        0 => Err(format!("no operation of {kinds:?} failed in {runs} runs")),
        _ => Ok(runs),
    }
}
