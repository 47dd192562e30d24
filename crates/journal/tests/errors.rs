//! Every operation of a run fails once, in each way: nothing acknowledged is lost, nothing is
//! acknowledged after, and the journal can be opened again.

use std::sync::Arc;

use codec::SeqNo;
use device::{Device, Failure, Fault, FaultDevice, Faults, Lasting, SimulatedDisk};
use environment::Environment;
use thermocline_journal::{Durability, Error, Journal, OpenError, Options, check};

const DIR: &str = "journal";

/// What the run was told is safe, and all that it appended.
#[derive(Debug, Default)]
struct Told {
    appended: Vec<u64>,
    synced: u64,
    persisted: u64,
}

fn options() -> Options {
    Options { segment_bytes: 1024, buffer_bytes: 256, ..Options::default() }
}

fn payload(seqno: u64) -> Vec<u8> {
    vec![seqno as u8; 40 + (seqno % 60) as usize]
}

fn open(device: Arc<dyn Device>, told: &Told) -> Result<(Journal, Vec<u64>), OpenError> {
    let mut found = Vec::new();
    let (journal, _) = Journal::open(
        device,
        DIR,
        options(),
        &Environment::seeded(3),
        SeqNo::new(told.persisted),
        &mut |seqno, bytes| {
            assert_eq!(bytes, payload(seqno.get()), "record {seqno}");
            found.push(seqno.get());
            Ok(())
        },
    )?;
    Ok((journal, found))
}

/// Appends, waits, goes through several segments, trims, closes, opens again and goes on.
fn run(device: &Arc<FaultDevice>, told: &mut Told) -> Result<(), OpenError> {
    for life in 0..2 {
        let (journal, _) = open(device.clone(), told)?;
        if let Err(error) = live(&journal, told, life) {
            stays_stopped(&journal, &error);
            let Error::Stopped { cause } = error else { panic!("{error}") };
            return Err(cause.into());
        }
    }
    Ok(())
}

fn live(journal: &Journal, told: &mut Told, life: u64) -> Result<(), Error> {
    for step in 0..30 {
        let seqno = journal.append(
            || SeqNo::new(1 + life * 30 + step),
            |seqno, bytes| bytes.extend(payload(seqno.get())),
        )?;
        told.appended.push(seqno.get());
        match step % 7 {
            2 => journal.wait(seqno, Durability::Flushed)?,
            6 => {
                journal.wait(seqno, Durability::Synced)?;
                told.synced = seqno.get();
            }
            _ => {}
        }
        if step == 22 {
            told.persisted = told.synced - 1;
            journal.trim(SeqNo::new(told.persisted))?;
        }
    }
    journal.close()?;
    told.synced = told.appended.last().copied().unwrap_or(0);
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

/// What is found must be a prefix of what was appended, and hold what was told to be safe.
fn holds(device: Arc<dyn Device>, told: &Told, when: &str) {
    let report = check(&*device, DIR);
    assert!(
        matches!(&report, Ok(report) if report.is_whole())
            || matches!(report, Err(OpenError::Device(_))),
        "{when}: {report:?}"
    );
    let (journal, found) = open(device, told).unwrap_or_else(|error| panic!("{when}: {error}"));
    let needed: Vec<u64> =
        told.appended.iter().copied().filter(|seqno| *seqno > told.persisted).collect();
    assert!(needed.starts_with(&found), "{when}: found {found:?} of {needed:?}");
    let last = found.last().copied().unwrap_or(told.persisted);
    assert!(last >= told.synced, "{when}: {} was synced, {last} is the last", told.synced);
    let next = journal.last().next();
    journal.append(|| next, |_, bytes| bytes.push(0)).expect("a journal opened anew accepts");
    journal.wait(next, Durability::Synced).expect("a journal opened anew syncs");
}

#[test]
fn every_operation_that_fails_is_survived() {
    let device = FaultDevice::new(SimulatedDisk::new(1, Faults::none()));
    run(&device, &mut Told::default()).unwrap();
    let operations = device.count(None);
    assert!(operations > 100, "{operations} operations are too few to show much");
    for failure in [Failure::Io, Failure::NoSpace, Failure::Short] {
        for lasting in [Lasting::Once, Lasting::ForGood] {
            for nth in 1..=operations {
                let when = format!("operation {nth} fails: {failure:?}, {lasting:?}");
                let disk = SimulatedDisk::new(1, Faults::none());
                let device = FaultDevice::new(disk.clone());
                device.fail(Fault { kind: None, nth, failure, lasting });
                let mut told = Told::default();
                let outcome = run(&device, &mut told);
                assert!(matches!(outcome, Err(OpenError::Device(_))), "{when}: {outcome:?}");
                for image in 0..3 {
                    holds(disk.crash(image), &told, &format!("{when}, then power cut {image}"));
                }
                holds(disk, &told, &format!("{when}, then the process dies"));
            }
        }
    }
}

#[test]
fn a_full_disk_is_said_to_be_full() {
    let device = FaultDevice::new(device::memory());
    let (journal, _) = open(device.clone(), &Told::default()).unwrap();
    let nth = device.count(None) + 1;
    device.fail(Fault { kind: None, nth, failure: Failure::NoSpace, lasting: Lasting::ForGood });
    let seqno = journal.append(|| SeqNo::new(1), |_, bytes| bytes.push(1)).unwrap();
    let error = journal.wait(seqno, Durability::Flushed).unwrap_err();
    assert!(matches!(error, Error::Stopped { cause: device::Error::NoSpace { .. } }), "{error}");
    assert!(error.to_string().contains("no space left"), "{error}");
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
