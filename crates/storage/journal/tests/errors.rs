//! Every operation of a run fails once, in each way, and no promise is broken.
//! No acknowledged record is lost, nothing is acknowledged after the failure, and the journal can
//! be opened again. A journal without room continues once there is some.

use std::sync::Arc;

use codec::SeqNo;
use device::{Device, Failure, Fault, FaultDevice, Faults, Lasting, OperationKind, SimulatedDisk};
use environment::Environment;
use thermocline_journal::{Durability, Error, Journal, OpenError, Options, check};

const DIR: &str = "journal";

/// The records that the run was promised to be safe, and all that it appended.
#[derive(Debug, Default)]
struct Acknowledged {
    appended: Vec<u64>,
    synced: u64,
    persisted: u64,
    /// How often there was no room.
    refused: u64,
}

fn options() -> Options {
    Options { segment_bytes: 1024, buffer_bytes: 256, ..Options::default() }
}

fn payload(seqno: u64) -> Vec<u8> {
    vec![seqno as u8; 40 + (seqno % 60) as usize]
}

fn open(
    device: Arc<dyn Device>,
    acknowledged: &Acknowledged,
) -> Result<(Journal, Vec<u64>), OpenError> {
    let mut found = Vec::new();
    let (journal, _) = Journal::open(
        device,
        DIR,
        options(),
        &Environment::seeded(3),
        SeqNo::new(acknowledged.persisted),
        &mut |seqno, bytes| {
            assert_eq!(bytes, payload(seqno.get()), "record {seqno}");
            found.push(seqno.get());
            Ok(())
        },
    )?;
    Ok((journal, found))
}

/// Appends, waits, fills several segments, trims, closes, opens again and continues.
fn run(device: &Arc<FaultDevice>, acknowledged: &mut Acknowledged) -> Result<(), OpenError> {
    for life in 0..2 {
        let (journal, _) = open(device.clone(), acknowledged)?;
        match live(device, &journal, acknowledged, life) {
            Ok(()) => {}
            // Only a close is not tried again.
            Err(Error::NoRoom { cause }) => return Err(cause.into()),
            Err(error) => {
                stays_stopped(&journal, &error);
                let Error::Stopped { cause } = error else { panic!("{error}") };
                return Err(cause.into());
            }
        }
    }
    Ok(())
}

/// Does `work` until there is room for it, which there is after some tries.
fn insist<T>(
    device: &FaultDevice,
    acknowledged: &mut Acknowledged,
    work: impl Fn() -> Result<T, Error>,
) -> Result<T, Error> {
    for tries in 1.. {
        match work() {
            Err(Error::NoRoom { .. }) => acknowledged.refused += 1,
            done => return done,
        }
        if tries == 3 {
            device.heal();
        }
        assert!(tries < 5, "there is room");
    }
    unreachable!("it is done, or fails")
}

fn live(
    device: &FaultDevice,
    journal: &Journal,
    acknowledged: &mut Acknowledged,
    life: u64,
) -> Result<(), Error> {
    for step in 0..30 {
        let append = || {
            journal.append(
                || SeqNo::new(1 + life * 30 + step),
                |seqno, bytes| bytes.extend(payload(seqno.get())),
            )
        };
        let seqno = insist(device, acknowledged, append)?;
        acknowledged.appended.push(seqno.get());
        let wait = |durability| move || journal.wait(seqno, durability);
        match step % 7 {
            2 => insist(device, acknowledged, wait(Durability::Flushed))?,
            6 => {
                insist(device, acknowledged, wait(Durability::Synced))?;
                acknowledged.synced = seqno.get();
            }
            _ => {}
        }
        if step == 22 {
            acknowledged.persisted = acknowledged.synced - 1;
            journal.trim(SeqNo::new(acknowledged.persisted))?;
        }
    }
    journal.close()?;
    acknowledged.synced = acknowledged.appended.last().copied().unwrap_or(0);
    Ok(())
}

fn stays_stopped(journal: &Journal, error: &Error) {
    for _ in 0..2 {
        let appended = journal.append(|| journal.last().next(), |_, bytes| bytes.push(1));
        assert_eq!(appended.as_ref(), Err(error));
        assert_eq!(journal.trim(SeqNo::ZERO).as_ref(), Err(error));
        assert_eq!(journal.close().as_ref(), Err(error));
        if journal.synced() < journal.last() {
            assert_eq!(journal.wait(SeqNo::MAX, Durability::Synced).as_ref(), Err(error));
        }
    }
}

/// Checks that the found records are a prefix of the appended ones, and include all records that
/// were promised to be safe.
fn holds(device: Arc<dyn Device>, acknowledged: &Acknowledged, when: &str) {
    let report = check(&*device, DIR);
    assert!(
        matches!(&report, Ok(report) if report.is_whole())
            || matches!(report, Err(OpenError::Device(_))),
        "{when}: {report:?}"
    );
    let (journal, found) =
        open(device, acknowledged).unwrap_or_else(|error| panic!("{when}: {error}"));
    let needed: Vec<u64> = acknowledged
        .appended
        .iter()
        .copied()
        .filter(|seqno| *seqno > acknowledged.persisted)
        .collect();
    assert!(needed.starts_with(&found), "{when}: found {found:?} of {needed:?}");
    let last = found.last().copied().unwrap_or(acknowledged.persisted);
    assert!(
        last >= acknowledged.synced,
        "{when}: {} was synced, {last} is the last",
        acknowledged.synced
    );
    let next = journal.last().next();
    journal.append(|| next, |_, bytes| bytes.push(0)).expect("a journal opened again accepts");
    journal.wait(next, Durability::Synced).expect("a journal opened again syncs");
}

#[test]
fn every_operation_that_fails_is_survived() {
    let device = FaultDevice::new(SimulatedDisk::new(1, Faults::none()));
    run(&device, &mut Acknowledged::default()).unwrap();
    let operations = device.count(None);
    assert!(operations > 100, "{operations} operations are too few to show much");
    let mut refused = 0;
    for failure in [Failure::Io, Failure::NoSpace, Failure::Short] {
        for lasting in [Lasting::Once, Lasting::ForGood] {
            for nth in 1..=operations {
                let when = format!("operation {nth} fails: {failure:?}, {lasting:?}");
                let disk = SimulatedDisk::new(1, Faults::none());
                let device = FaultDevice::new(disk.clone());
                device.fail(Fault { kind: None, nth, failure, lasting });
                let mut acknowledged = Acknowledged::default();
                let outcome = run(&device, &mut acknowledged);
                refused += acknowledged.refused;
                let goes_on = failure == Failure::NoSpace && outcome.is_ok();
                let is_reported = matches!(outcome, Err(OpenError::Device(_)));
                assert!(goes_on || is_reported, "{when}: {outcome:?}");
                for image in 0..3 {
                    holds(
                        disk.crash(image),
                        &acknowledged,
                        &format!("{when}, then power cut {image}"),
                    );
                }
                holds(disk, &acknowledged, &format!("{when}, then the process dies"));
            }
        }
    }
    assert!(refused > 20, "there was no room {refused} times");
}

#[test]
fn a_full_disk_is_waited_for() {
    let disk = SimulatedDisk::new(1, Faults::none());
    let device = FaultDevice::new(disk.clone());
    let (journal, _) = open(device.clone(), &Acknowledged::default()).unwrap();
    let append =
        |seqno: u64| journal.append(|| SeqNo::new(seqno), |_, bytes| bytes.extend(payload(seqno)));
    let sync = || journal.wait(SeqNo::MAX, Durability::Synced);
    let found = |seed| open(disk.crash(seed), &Acknowledged::default()).unwrap().1;
    append(1).unwrap();
    sync().unwrap();
    let kind = Some(OperationKind::Write);
    let nth = device.count(kind) + 1;
    device.fail(Fault { kind, nth, failure: Failure::NoSpace, lasting: Lasting::ForGood });
    append(2).unwrap();
    for _ in 0..3 {
        let refused = sync().unwrap_err();
        assert!(matches!(&refused, Error::NoRoom { cause: device::Error::NoSpace { .. } }));
        assert!(refused.to_string().contains("no space left"), "{refused}");
        // Nothing is appended behind unwritten records.
        assert_eq!(append(3), Err(refused));
        assert_eq!((journal.last(), journal.synced()), (SeqNo::new(2), SeqNo::new(1)));
        journal.trim(SeqNo::ZERO).unwrap();
        (0..5).for_each(|seed| assert_eq!(found(seed), [1]));
    }
    device.heal();
    append(3).unwrap();
    sync().unwrap();
    (0..5).for_each(|seed| assert_eq!(found(seed), [1, 2, 3]));
    journal.close().unwrap();
    assert_eq!(open(disk, &Acknowledged::default()).unwrap().1, [1, 2, 3]);
}

#[test]
fn a_record_that_is_too_large_or_out_of_order_changes_nothing() {
    let device = device::memory();
    let options = Options { record_bytes_max: 100, ..options() };
    let opened = Journal::open(
        device.clone(),
        DIR,
        options,
        &Environment::seeded(1),
        SeqNo::ZERO,
        &mut |_, _| Ok(()),
    );
    let journal = opened.unwrap().0;
    let append = |seqno: u64, bytes: usize| {
        journal.append(|| SeqNo::new(seqno), |_, into| into.resize(into.len() + bytes, 7))
    };
    append(5, 100).unwrap();
    assert_eq!(append(6, 101), Err(Error::TooLarge { bytes: 101, limit: 100 }));
    let last = SeqNo::new(5);
    assert_eq!(append(5, 1), Err(Error::OutOfOrder { given: last, last }));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        journal.append(
            || SeqNo::new(7),
            |_, into| {
                into.push(1);
                panic!("a writer that panics in the middle");
            },
        )
    }));
    assert!(panicked.is_err());
    append(8, 0).unwrap();
    journal.close().unwrap();
    let mut found = Vec::new();
    thermocline_journal::read(&*device, DIR, SeqNo::ZERO, &mut |seqno, bytes| {
        found.push((seqno.get(), bytes.len()));
        Ok(())
    })
    .unwrap();
    assert_eq!(found, [(5, 100), (8, 0)]);
}
