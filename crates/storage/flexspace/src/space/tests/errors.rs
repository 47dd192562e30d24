//! Every operation of the device fails once, or from then on.
//! The failure is reported, nothing more is written, bytes that were read can still be read, and
//! synced bytes are found again.

use std::sync::Arc;

use device::{Device, Failure, Fault, FaultDevice, Lasting, OperationKind};
use environment::Seed;

use super::model::Model;
use super::operation::Operation;
use super::{content, small};
use crate::seed::seed;
use crate::space::{Error, FlexSpace, Options};

/// Steps of the run.
const STEPS: u64 = 320;

/// Counts of a run with a fault.
#[derive(Default)]
struct Seen {
    told: u64,
    refused: u64,
    /// Operations of the device in the last run, without the check of its result.
    operations: u64,
}

/// Returns whether nothing but a read may have failed.
fn is_read(error: &Error) -> bool {
    use device::{Error as Failed, FailedOperation::Read};
    match error {
        Error::Device(Failed::Io { operation, .. }) => *operation == Read,
        Error::Device(Failed::NoSpace { .. }) => true,
        _ => false,
    }
}

/// The same operations each time, up to the fault.
fn run(device: Arc<FaultDevice>, inner: Arc<dyn Device>, seed: Seed, seen: &mut Seen) {
    let mut random = seed.stream("flexspace errors");
    let options = Options { log_buffer_bytes: 2000, log_bytes_max: 4000, ..small() };
    let mut models = vec![Model::default()];
    let mut synced = 0;
    let mut must_stop = false;
    match FlexSpace::create(device.clone(), options.clone()) {
        Err(_) => {
            seen.told += 1;
            device.heal();
            // Whole or not there: a creation that failed may have been all but acknowledged.
            match FlexSpace::open(inner.clone(), options.clone()) {
                Err(Error::Device(device::Error::NotFound { .. })) => {
                    FlexSpace::create(inner, options).expect("a healed device");
                }
                opened => assert_eq!(content(&opened.expect("whole")), Ok(Model::default())),
            }
            return;
        }
        Ok(space) => {
            for _ in 0..STEPS {
                let mut model = models.last().expect("one").clone();
                let operation = Operation::drawn(&model, 9_000, &mut random);
                let result = operation.apply(&space);
                let is_done = result.is_ok();
                operation.model(&mut model);
                match result {
                    Ok(()) => models.push(model),
                    Err(error) if error.is_refused() => {
                        seen.refused += 1;
                        device.heal();
                        let found = content(&space).expect("whole");
                        let last = models.last().expect("one").clone();
                        // A commit that had no room may be done after the change that requested it.
                        assert!(found == last || found == model, "{operation:?}: half is done");
                        models.push(found);
                    }
                    Err(error @ (Error::Device(_) | Error::ReadOnly { .. })) => {
                        seen.told += 1;
                        must_stop = !is_read(&error);
                        models.push(model);
                        break;
                    }
                    Err(error) => panic!("{operation:?}: {error}"),
                }
                if operation.is_durable() && is_done {
                    synced = models.len() - 1;
                }
            }
            seen.operations = device.count(None);
            device.heal();
            let is_stopped = matches!(space.append(&[]), Err(Error::ReadOnly { .. }));
            assert!(is_stopped || !must_stop, "a failed write or sync does not stop the space");
            let found = content(&space).expect("what was applied can be read");
            let count = models.len();
            assert!(models[count.saturating_sub(2)..].contains(&found), "other bytes in memory");
            if let Err(error) = space.append(b"one more") {
                assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
                assert!(matches!(space.sync(), Err(Error::ReadOnly { .. })));
                assert_eq!(content(&space), Ok(found), "a refused write changed something");
            } else {
                let mut model = found;
                model.splice(model.len(), 0, b"one more", 0);
                models.push(model);
            }
        }
    }
    let space = FlexSpace::open(inner, options).expect("a healed device");
    let found = content(&space).expect("whole");
    assert!(models[synced..].contains(&found), "a synced state is lost, or half of one is found");
    space.check().expect("sound");
    space.append(b"goes on").expect("room");
    space.sync().expect("a healed device");
}

/// On a device that cannot punch, zeros are written, so a failure to release room is one of a
/// write.
#[test]
fn room_that_cannot_be_given_back_stops_the_space() {
    let mut stopped = 0;
    for nth in 1.. {
        let device = FaultDevice::new(device::memory());
        let space = FlexSpace::create(device.clone(), small()).expect("a device");
        space.append(&[1; 200_000]).expect("room");
        space.sync().expect("a device");
        space.collapse(0, 190_000).expect("a range");
        let kind = Some(OperationKind::Resize);
        let nth = device.count(kind) + nth;
        device.fail(Fault { kind, nth, failure: Failure::Io, lasting: Lasting::Once });
        let synced = space.sync();
        if device.failed() == 0 {
            break;
        }
        assert!(matches!(synced, Err(Error::Device(_))), "{synced:?}");
        let refused = space.append(&[2]);
        assert!(matches!(refused, Err(Error::ReadOnly { .. })), "{refused:?}");
        stopped += 1;
    }
    assert!(stopped > 5, "{stopped} segments of which room is given back");
}

#[test]
fn every_operation_that_fails_is_reported_and_loses_nothing() {
    let name = "every_operation_that_fails_is_reported_and_loses_nothing";
    let seed = seed(name, "");
    let inner = device::memory();
    let mut seen = Seen::default();
    run(FaultDevice::new(inner.clone()), inner, seed, &mut seen);
    let count = seen.operations;
    assert!(count > 100, "{count} operations");
    let mut failed = 0;
    for nth in 1..=count {
        let failure = [Failure::Io, Failure::NoSpace][(nth % 2) as usize];
        let lasting = [Lasting::Once, Lasting::ForGood][(nth / 2 % 2) as usize];
        let inner = device::memory();
        let device = FaultDevice::new(inner.clone());
        device.fail(Fault { kind: None, nth, failure, lasting });
        run(device.clone(), inner, seed, &mut seen);
        failed += device.failed().min(1);
    }
    assert_eq!(failed, count, "each of them failed once");
    assert!(
        seen.told > count / 3 && seen.refused > 0,
        "{} told, {} refused",
        seen.told,
        seen.refused
    );
}
