//! Every operation of a workload fails once, and from then on: nothing acknowledged is lost.
//!
//! 1. The workload runs once without a fault, to count its operations of each kind.
//! 2. For each kind, each operation of that kind, each way to fail, and both for once and for good,
//!    it runs again with that fault.
//! 3. After a call that writes has failed, every later one must fail too; if the engine's own write
//!    or sync failed, with `ReadOnly`. A failed write or sync must be reported by some call. If
//!    there was no room, the engine may continue, provided that it works correctly, and need not
//!    report room that it could do without.
//! 4. It runs many times more on a disk that fails by chance, syncs in each of the ways that real
//!    ones do: marked clean and lost, reverted, reported once.
//! 5. After each run the store is opened again twice, both without the fault: as after the death of
//!    the process, and as after a power cut. Its content must be a prefix that has everything
//!    acknowledged.

use std::sync::Arc;

use device::{
    Device, FailedOperation, Failure, Fault, FaultDevice, Faults, Lasting, OperationKind,
    SimulatedDisk,
};
use journal::Durability;

use crate::Fixture;
use crate::database::{Database, Failed};
use crate::draw::Draw;
use crate::failure::catch;
use crate::model::Model;
use crate::operation::{Generator, Profile};
use crate::sequential::compare_everything;

const WRITES: usize = 14;

/// The moments of the workload at which the engine flushes.
const FLUSH_EVERY: usize = 5;

/// Runs on a disk that fails by chance.
const BY_CHANCE: u64 = 200;

/// The result of a run under a fault.
struct Run {
    disk: Arc<SimulatedDisk>,
    device: Arc<FaultDevice>,
    model: Model,
    durable: u64,
    /// The first error that a call gave.
    reported: Option<String>,
}

/// The error with which one write or flush must be refused, once an operation has failed.
enum Stop {
    /// With anything.
    Any,
    /// By the engine, with `ReadOnly`.
    ReadOnly,
}

impl Run {
    fn new(seed: u64, faults: Faults) -> Self {
        let disk = SimulatedDisk::new(seed, faults);
        let device = FaultDevice::new(disk.clone());
        Self { disk, device, model: Model::default(), durable: 0, reported: None }
    }

    fn report(&mut self, error: &Failed) {
        self.reported.get_or_insert_with(|| error.to_string());
    }

    /// Opens, writes, flushes, closes; stops at the first write that fails.
    fn work(&mut self, fixture: &dyn Fixture, seed: u64) -> Result<(), String> {
        let device: Arc<dyn Device> = self.device.clone();
        let database = match Database::open(fixture, &device, seed) {
            Ok(database) => database,
            Err(error) => {
                self.report(&error);
                return Ok(());
            }
        };
        let profile = Profile {
            keys_more: 0,
            ingests: false,
            ordered: false,
            deletes_ranges: database.opened.engine.capabilities().deletes_ranges,
            key_bytes_max: fixture.key_bytes_max(),
            value_bytes_max: 500,
            reopens: false,
        };
        let mut generator = Generator::new(seed, profile);
        let mut draw = Draw::new(seed, "errors");
        for number in 1..=WRITES {
            if number % FLUSH_EVERY == 0 && !self.flush(&database)? {
                return Ok(());
            }
            let durability = *draw.pick(&[
                Durability::Buffered,
                Durability::Flushed,
                Durability::Synced,
                Durability::Synced,
            ]);
            let steps = generator.write();
            let seqno = database.opened.sequence.last().get() + 1;
            self.model.apply(&steps, seqno);
            match database.write(&steps, durability) {
                Ok(_) if durability == Durability::Synced => self.durable = seqno,
                Ok(_) => {}
                Err(error) => {
                    self.report(&error);
                    // A refusal has changed nothing; later writes may be accepted.
                    return match &error {
                        Failed::Engine(refusal) if refusal.is_refused() => Ok(()),
                        // So is one for lack of room.
                        Failed::Engine(refusal) if refusal.is_retryable() => Ok(()),
                        // It is in the journal, or not, and so may later ones be.
                        Failed::Journal(journal::Error::NoRoom { .. }) => Ok(()),
                        _ => stays_stopped(&database, &Stop::Any),
                    };
                }
            }
        }
        if self.device.failed() > 0 && self.reported.is_none() {
            // A failure in the background is reported by the next call at the latest.
            if let Err(error) = database.flush() {
                self.report(&error);
            }
        }
        if let Err(error) = database.close() {
            self.report(&error);
        }
        Ok(())
    }

    /// Flushes. Returns whether writing may continue.
    fn flush(&mut self, database: &Database) -> Result<bool, String> {
        let Err(error) = database.flush() else { return Ok(true) };
        self.report(&error);
        match error {
            Failed::Engine(error) if error.is_retryable() => Ok(true),
            Failed::Journal(journal::Error::NoRoom { .. }) => Ok(true),
            Failed::Engine(engine::Error::Device(error)) if wrote(&error) => {
                stays_stopped(database, &Stop::ReadOnly).map(|()| false)
            }
            // A lookup or a clean-up failed: the engine may continue, provided that it works
            // correctly.
            Failed::Engine(engine::Error::Device(_)) => Ok(true),
            _ => stays_stopped(database, &Stop::Any).map(|()| false),
        }
    }
}

/// Returns whether it was a write or a sync that failed, and not for lack of room.
fn wrote(error: &device::Error) -> bool {
    use FailedOperation::{Sync, Write};
    matches!(error, device::Error::Io { operation: Write | Sync, .. })
}

/// Two more writes and a flush: all refused.
fn stays_stopped(database: &Database, stop: &Stop) -> Result<(), String> {
    let late = [crate::operation::Step::Put { key: b"late".to_vec(), value: b"late".to_vec() }];
    for _ in 0..2 {
        match (database.write(&late, Durability::Synced), stop) {
            (Ok(_), _) => return Err("a write after a failed one was acknowledged".to_owned()),
            (Err(Failed::Engine(engine::Error::ReadOnly { .. })), _) | (Err(_), Stop::Any) => {}
            (Err(error), Stop::ReadOnly) => {
                return Err(format!(
                    "after its own write or sync failed, the engine refuses with {error:?}, \
                     expected ReadOnly"
                ));
            }
        }
    }
    match (database.opened.engine.flush(), stop) {
        (Ok(()), Stop::ReadOnly) => Err("a flush was tried again and succeeded".to_owned()),
        _ => Ok(()),
    }
}

fn compare(fixture: &dyn Fixture, device: &Arc<dyn Device>, run: &Run) -> Result<(), String> {
    let database = Database::open(fixture, device, 0)
        .map_err(|error| format!("the store does not open again: {error}"))?;
    let (upto, durable, last) = (database.recovered, run.durable, run.model.last());
    if upto < durable || upto > last {
        return Err(format!("found write {upto}; {durable} was acknowledged, {last} were issued"));
    }
    let opened = &database.opened;
    compare_everything(opened.engine.as_ref(), &opened.sequence, &run.model, upto)?;
    drop(database);
    crate::database::check(fixture, device)
}

fn one(fixture: &dyn Fixture, seed: u64, kind: OperationKind, fault: Fault) -> Result<(), String> {
    let mut run = Run::new(seed, Faults::none());
    run.device.fail(fault);
    catch(|| run.work(fixture, seed))?;
    let failed = run.device.failed();
    let is_write = matches!(kind, OperationKind::Write | OperationKind::Sync);
    let must_report = is_write && fault.failure != Failure::NoSpace;
    if failed > 0 && must_report && run.reported.is_none() {
        return Err("no call reported it".to_owned());
    }
    open_again(fixture, &run, fault.nth)
}

/// Opens the content that the run left as after a power cut, and as after the death of the process.
fn open_again(fixture: &dyn Fixture, run: &Run, image: u64) -> Result<(), String> {
    // The power cut first: opening the disk directly would change it.
    let after_cut: Arc<dyn Device> = run.disk.crash(image);
    catch(|| compare(fixture, &after_cut, run)).map_err(|what| format!("power cut: {what}"))?;
    let after_death: Arc<dyn Device> = run.disk.clone();
    catch(|| compare(fixture, &after_death, run)).map_err(|what| format!("restart: {what}"))
}

/// Returns a disk with one of its loud faults, often.
fn faulty(draw: &mut Draw) -> Faults {
    let ppm = *draw.pick(&[10_000, 50_000, 200_000]);
    match draw.below(5) {
        0 => Faults { write_error_ppm: ppm, ..Faults::none() },
        1 => Faults { no_space_ppm: ppm, ..Faults::none() },
        2 => Faults { read_error_ppm: ppm, ..Faults::none() },
        _ => Faults { sync_error_ppm: ppm, ..Faults::none() },
    }
}

/// Runs on a disk that fails by chance, then opens on one that does not.
fn by_chance(fixture: &dyn Fixture, seed: u64) -> Result<(), String> {
    let faults = faulty(&mut Draw::new(seed, "faulty disk"));
    let told = |what: String| format!("on a disk with {faults:?} (seed {seed}): {what}");
    let mut run = Run::new(seed, faults.clone());
    catch(|| run.work(fixture, seed)).map_err(told)?;
    run.disk.set_faults(Faults::none());
    open_again(fixture, &run, seed).map_err(told)
}

/// Tries every fault of the workload of `seed`. Returns their number.
pub(crate) fn errors(fixture: &dyn Fixture, seed: u64) -> Result<u64, String> {
    let mut whole = Run::new(seed, Faults::none());
    whole.work(fixture, seed)?;
    if let Some(error) = whole.reported {
        return Err(format!("without any fault: {error}"));
    }
    let mut faults = 0;
    for kind in OperationKind::ALL {
        for nth in 1..=whole.device.count(Some(kind)) {
            for failure in [Failure::Io, Failure::NoSpace, Failure::Short] {
                let transfers = matches!(kind, OperationKind::Read | OperationKind::Write);
                if failure == Failure::Short && !transfers {
                    continue;
                }
                for lasting in [Lasting::Once, Lasting::ForGood] {
                    let fault = Fault { kind: Some(kind), nth, failure, lasting };
                    one(fixture, seed, kind, fault).map_err(|what| {
                        format!("{kind:?} {nth} fails ({failure:?}, {lasting:?}): {what}")
                    })?;
                    faults += 1;
                }
            }
        }
    }
    for number in 0..BY_CHANCE {
        by_chance(fixture, seed.wrapping_mul(BY_CHANCE).wrapping_add(number))?;
    }
    Ok(faults + BY_CHANCE)
}
