//! The fault wrapper: invisible without a fault, and then exact.

use super::*;
use crate::{Buffer, Error, FailedOperation, Request, SyncKind, Work, memory};

fn harmless() -> (Arc<dyn Device>, ()) {
    (FaultDevice::new(memory()), ())
}

crate::device_suite!(without_faults, super::harmless);

const LENGTH: usize = 4096;

/// One operation of each kind, and two writes; stops at the first error.
fn workload(device: &dyn Device) -> Result<()> {
    device.create_dir("d")?;
    let file = device.open("d/a", Mode::CreateNew)?;
    file.write_at(0, &[1; LENGTH])?;
    file.write_at(0, &[2; LENGTH])?;
    file.read_at(0, &mut [0; 1])?;
    file.set_len(2 * LENGTH as u64)?;
    file.sync(SyncKind::Data)?;
    device.list("d")?;
    device.exists("d/a")?;
    device.queue(1)?;
    device.link("d/a", "d/b")?;
    device.rename("d/b", "d/c")?;
    device.remove("d/c")?;
    device.sync_dir("d")
}

fn io(operation: FailedOperation, name: &str) -> Error {
    Error::Io { operation, name: name.to_owned(), code: 5 }
}

#[test]
fn every_operation_can_be_made_to_fail() {
    let device = FaultDevice::new(memory());
    workload(&*device).unwrap();
    let all = device.count(None);
    assert_eq!(all, 14);
    for kind in OperationKind::ALL {
        let expected = if kind == OperationKind::Write { 2 } else { 1 };
        assert_eq!(device.count(Some(kind)), expected, "{kind:?}");
    }
    for nth in 1..=all {
        let device = FaultDevice::new(memory());
        device.fail(Fault { kind: None, nth, failure: Failure::Io, lasting: Lasting::Once });
        assert!(matches!(workload(&*device), Err(Error::Io { code: 5, .. })), "{nth}");
        assert_eq!((device.count(None), device.failed()), (nth, 1));
    }
    for kind in OperationKind::ALL {
        let device = FaultDevice::new(memory());
        let failure = Failure::NoSpace;
        device.fail(Fault { kind: Some(kind), nth: 1, failure, lasting: Lasting::ForGood });
        let refused = workload(&*device);
        // A sync that fails is not to be tried again, for any cause.
        let is_sync = matches!(kind, OperationKind::Sync | OperationKind::SyncDir);
        let is_no_space = matches!(refused, Err(Error::NoSpace { .. }));
        assert!(refused.is_err() && is_no_space != is_sync, "{kind:?}: {refused:?}");
        assert_eq!(device.count(Some(kind)), 1);
        device.heal();
        device.remove_dir("d").unwrap();
        workload(&*device).unwrap();
    }
}

#[test]
fn a_fault_strikes_once_or_for_good() {
    for (lasting, outcomes) in [
        (Lasting::Once, [true, false, true, true]),
        (Lasting::ForGood, [true, false, false, false]),
    ] {
        let device = FaultDevice::new(memory());
        let file = device.open("a", Mode::CreateNew).unwrap();
        let (kind, failure) = (Some(OperationKind::Write), Failure::Io);
        device.fail(Fault { kind, nth: 2, failure, lasting });
        let found = [1, 2, 3, 4].map(|fill| file.write_at(0, &[fill]).is_ok());
        assert_eq!(found, outcomes);
        file.sync(SyncKind::All).unwrap();
    }
}

#[test]
fn a_short_transfer_is_half_done() {
    let device = FaultDevice::new(memory());
    let file = device.open("a", Mode::CreateNew).unwrap();
    file.write_at(0, &[1; 8]).unwrap();
    for (kind, nth) in [(OperationKind::Write, 2), (OperationKind::Read, 1)] {
        let (kind, failure) = (Some(kind), Failure::Short);
        device.fail(Fault { kind, nth, failure, lasting: Lasting::Once });
    }
    assert_eq!(file.write_at(0, &[2; 8]).unwrap_err(), io(FailedOperation::Write, "a"));
    let mut bytes = [9; 8];
    assert_eq!(file.read_at(0, &mut bytes).unwrap_err(), io(FailedOperation::Read, "a"));
    assert_eq!(bytes, [2, 2, 2, 2, 9, 9, 9, 9]);
    file.read_at(0, &mut bytes).unwrap();
    assert_eq!(bytes, [2, 2, 2, 2, 1, 1, 1, 1]);
}

#[test]
fn requests_of_a_queue_fail_too() {
    let device = FaultDevice::new(memory());
    let file = device.subdevice("d").unwrap().open("a", Mode::CreateNew).unwrap();
    file.write_at(0, &[1; 8]).unwrap();
    for (kind, nth) in [(OperationKind::Write, 2), (OperationKind::Sync, 1)] {
        let (kind, failure) = (Some(kind), Failure::Short);
        device.fail(Fault { kind, nth, failure, lasting: Lasting::Once });
    }
    let mut queue = device.queue(3).unwrap();
    let write = |tag| {
        let work = Work::Write { offset: 0, buffer: Buffer::copy_of(&[2; 8]) };
        Request { tag, file: file.clone(), work }
    };
    queue.submit(write(1)).unwrap();
    assert_eq!(queue.in_flight(), 1);
    let mut found = [0; 8];
    file.read_at(0, &mut found).unwrap();
    assert_eq!(found, [2, 2, 2, 2, 1, 1, 1, 1]);
    queue.submit(write(2)).unwrap();
    let work = Work::Sync(SyncKind::Data);
    queue.submit(Request { tag: 3, file: file.clone(), work }).unwrap();
    assert!(Arc::ptr_eq(&queue.submit(write(4)).unwrap_err().file, &file));
    let mut done = Vec::new();
    assert_eq!(queue.wait(3, &mut done).unwrap(), 3);
    done.sort_by_key(|completion| completion.tag);
    let results: Vec<_> = done.into_iter().map(|completion| completion.result).collect();
    let write_error = io(FailedOperation::Write, "a");
    assert_eq!(results, [Err(write_error), Ok(()), Err(io(FailedOperation::Sync, "a"))]);
}

#[test]
fn something_is_done_once_before_an_operation_of_the_thread_that_asked() {
    let device = FaultDevice::new(memory());
    let file = device.open("a", Mode::CreateNew).unwrap();
    file.write_at(0, &[1; 8]).unwrap();
    let other = Arc::clone(&file);
    device.interpose(OperationKind::Read, move || other.write_at(0, &[2; 4]).unwrap());
    let read = || {
        let mut bytes = [0; 8];
        file.read_at(0, &mut bytes).unwrap();
        bytes
    };
    std::thread::scope(|scope| {
        assert_eq!(scope.spawn(read).join().unwrap(), [1; 8], "another thread");
    });
    file.write_at(4, &[3; 4]).unwrap();
    assert_eq!(read(), [2, 2, 2, 2, 3, 3, 3, 3]);
    file.write_at(0, &[4; 4]).unwrap();
    assert_eq!(read(), [4, 4, 4, 4, 3, 3, 3, 3]);
}

/// An operation on an open file needs no descriptor, and a queue does without one.
#[test]
fn only_operations_that_need_a_descriptor_find_none() {
    for kind in OperationKind::ALL {
        let device = FaultDevice::new(memory());
        let failure = Failure::OutOfFiles;
        device.fail(Fault { kind: Some(kind), nth: 1, failure, lasting: Lasting::ForGood });
        let refused = workload(&*device);
        let is_refused = kind.needs_descriptor() && kind != OperationKind::Queue;
        assert_eq!(refused.is_err(), is_refused, "{kind:?}: {refused:?}");
        assert!(refused.err().is_none_or(|error| error.is_out_of_files()), "{kind:?}");
    }
}

/// A renaming whose directory cannot be opened has not begun.
#[test]
fn a_synced_renaming_without_a_descriptor_renames_nothing() {
    for (kind, failure, is_renamed) in [
        (OperationKind::Rename, Failure::OutOfFiles, false),
        (OperationKind::SyncDir, Failure::OutOfFiles, false),
        (OperationKind::SyncDir, Failure::Io, true),
    ] {
        let device = FaultDevice::new(memory());
        device.open("old", Mode::CreateNew).unwrap();
        device.fail(Fault { kind: Some(kind), nth: 1, failure, lasting: Lasting::Once });
        device.rename_synced("old", "new").unwrap_err();
        assert_eq!(device.exists("new").unwrap(), is_renamed, "{kind:?} {failure:?}");
    }
}

#[test]
fn a_directory_has_faults_of_its_own() {
    let device = FaultDevice::new(memory());
    let (kind, lasting) = (Some(OperationKind::Sync), Lasting::ForGood);
    device.fail_in("sick", Fault { kind, nth: 1, failure: Failure::Io, lasting });
    let sync = |dir: &str| {
        let file = device.subdevice(dir).unwrap().open("a", Mode::Create).unwrap();
        file.sync(SyncKind::Data)
    };
    assert_eq!(sync("sick"), Err(io(FailedOperation::Sync, "a")));
    assert_eq!(sync("well"), Ok(()));
    assert_eq!((device.failed(), device.count(kind)), (1, 1));
    device.heal();
    assert_eq!(sync("sick"), Ok(()));
}
