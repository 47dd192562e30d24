//! How many files stay open, and which.

use super::*;
use crate::{Failure, Fault, FaultDevice, Lasting, OperationKind, memory};

/// Files of a device, each with its number as its content.
fn files(pool: &Arc<Pool>, device: &Arc<dyn Device>, count: u8) -> Vec<OnDemandFile> {
    let file = |number: u8| {
        let name = number.to_string();
        device.open(&name, Mode::CreateNew).unwrap().write_at(0, &[number]).unwrap();
        OnDemandFile::of(pool, device, name, Mode::Read)
    };
    (0..count).map(file).collect()
}

fn read(file: &OnDemandFile) -> u8 {
    let mut byte = [0];
    file.get().unwrap().read_at(0, &mut byte).unwrap();
    byte[0]
}

fn is_open(file: &OnDemandFile) -> bool {
    file.place.file.lock().is_some()
}

fn is_held(file: &OnDemandFile) -> bool {
    file.place.held_file().is_some()
}

#[test]
fn no_more_files_stay_open_than_the_pool_has_room_for() {
    let pool = Arc::new(Pool::new(3));
    let files = files(&pool, &memory(), 9);
    assert_eq!(pool.open_files(), 0);
    for _ in 0..3 {
        for (number, file) in files.iter().enumerate() {
            assert_eq!(usize::from(read(file)), number);
            assert!(pool.open_files() <= 3);
        }
    }
    assert_eq!(pool.open_files(), 3);
    drop(files);
    assert_eq!(pool.open_files(), 0);
    assert!(pool.clock.lock().len() <= 3);
}

#[test]
fn a_file_that_is_used_again_and_again_stays_open() {
    let pool = Arc::new(Pool::new(3));
    let files = files(&pool, &memory(), 30);
    let (often, others) = files.split_first().unwrap();
    read(often);
    for file in others {
        read(file);
        assert!(is_open(often));
        read(often);
    }
}

#[test]
fn a_held_file_is_read_after_the_pool_has_closed_it() {
    let pool = Arc::new(Pool::new(1));
    let files = files(&pool, &memory(), 3);
    let held = files[0].get().unwrap();
    let read: Vec<u8> = files.iter().rev().map(read).collect();
    assert_eq!(read, [2, 1, 0]);
    pool.close_all();
    assert_eq!(pool.open_files(), 0);
    let mut byte = [9];
    held.read_at(0, &mut byte).unwrap();
    assert_eq!(byte, [0]);
}

/// Other descriptors may be those of the pool.
#[test]
fn a_file_without_a_descriptor_closes_the_others() {
    let device = FaultDevice::new(memory());
    let pool = Arc::new(Pool::new(3));
    let inner: Arc<dyn Device> = device.clone();
    let files = files(&pool, &inner, 3);
    read(&files[0]);
    let kind = Some(OperationKind::Open);
    let nth = device.count(kind) + 1;
    device.fail(Fault { kind, nth, failure: Failure::OutOfFiles, lasting: Lasting::Once });
    assert_eq!(read(&files[1]), 1);
    assert!(!is_open(&files[0]));
    device.fail(Fault { kind, nth, failure: Failure::OutOfFiles, lasting: Lasting::ForGood });
    assert!(files[2].get().unwrap_err().is_out_of_files());
}

#[test]
fn nothing_is_kept_without_room() {
    let pool = Arc::new(Pool::new(0));
    let files = files(&pool, &memory(), 2);
    assert_eq!((read(&files[0]), read(&files[1])), (0, 1));
    assert_eq!(pool.open_files(), 0);
}

/// A sync must report that the system could not write.
#[test]
fn a_file_that_was_written_to_stays_open_until_it_is_synced() {
    let (pool, device) = (Arc::new(Pool::new(1)), memory());
    device.open("written", Mode::CreateNew).unwrap();
    let written = OnDemandFile::of(&pool, &device, "written".to_owned(), Mode::Write);
    let others = files(&pool, &device, 3);
    written.write_at(0, &[7]).unwrap();
    others.iter().for_each(|file| assert!(read(file) < 3));
    assert!(is_held(&written));
    device.remove("written").unwrap();
    assert_eq!(read(&written), 7, "the name is not asked for");
    written.sync(SyncKind::All).unwrap();
    assert!(!is_held(&written));
}

/// A file on a device that can run another step before an operation.
fn interposed() -> (Arc<FaultDevice>, Arc<OnDemandFile>) {
    let (pool, device) = (Arc::new(Pool::new(0)), FaultDevice::new(memory()));
    device.open("file", Mode::CreateNew).unwrap();
    let inner: Arc<dyn Device> = device.clone();
    let file = OnDemandFile::of(&pool, &inner, "file".to_owned(), Mode::Write);
    (device, Arc::new(file))
}

/// The sync ends between the moment when the write has the file and the moment when it writes.
#[test]
fn a_file_stays_held_after_a_sync_during_a_write() {
    let (device, file) = interposed();
    let syncing = Arc::clone(&file);
    device.interpose(OperationKind::Write, move || syncing.sync(SyncKind::All).unwrap());
    file.write_at(0, &[7]).unwrap();
    assert!(is_held(&file), "the sync does not cover the write");
    let opened = device.count(Some(OperationKind::Open));
    file.sync(SyncKind::All).unwrap();
    assert_eq!(device.count(Some(OperationKind::Open)), opened, "the same descriptor is synced");
    assert!(!is_held(&file));
}

#[test]
fn a_file_stays_held_after_a_write_during_a_sync() {
    let (device, file) = interposed();
    file.write_at(0, &[7]).unwrap();
    let (held, writing) = (file.place.held_file().unwrap(), Arc::clone(&file));
    device.interpose(OperationKind::Sync, move || writing.write_at(1, &[8]).unwrap());
    file.sync(SyncKind::All).unwrap();
    let still = file.place.held_file().expect("the sync may not cover the write");
    assert!(Arc::ptr_eq(&held, &still), "the write uses the same descriptor");
    file.sync(SyncKind::All).unwrap();
    assert!(!is_held(&file));
}

#[test]
fn a_file_stays_held_after_a_sync_that_fails() {
    let (device, file) = interposed();
    file.write_at(0, &[7]).unwrap();
    let (kind, failure) = (Some(OperationKind::Sync), Failure::Io);
    device.fail(Fault { kind, nth: 1, failure, lasting: Lasting::Once });
    assert!(file.sync(SyncKind::All).is_err());
    assert!(is_held(&file));
}

#[test]
fn a_read_finds_a_file_that_is_held_and_removed_while_the_read_opens_it() {
    let (device, file) = interposed();
    file.write_at(0, &[7]).unwrap();
    file.sync(SyncKind::All).unwrap();
    let (removing, held) = (Arc::clone(&device), Arc::clone(&file));
    device.interpose(OperationKind::Open, move || {
        held.hold().unwrap();
        removing.remove("file").unwrap();
    });
    assert_eq!(read(&file), 7);
}

/// By a queue, too, also of a device over another one.
#[test]
fn a_queue_reads_the_file_that_is_open() {
    let faulty = FaultDevice::new(memory());
    let device: Arc<dyn Device> = faulty.clone();
    let pool = Arc::new(Pool::new(1));
    let file = Arc::new(files(&pool, &device, 2).pop().unwrap());
    let mut queue = device.queue(2).unwrap();
    let mut done = Vec::new();
    for _ in 0..2 {
        let work = Work::Read { offset: 0, buffer: Buffer::zeroed(1) };
        assert!(queue.submit(Request { tag: 3, file: file.clone(), work }).is_ok());
        assert_eq!(queue.wait(1, &mut done).unwrap(), 1);
    }
    assert!(done.iter().all(|one| one.buffer.as_deref() == Some(&[1][..])));
    let (kind, failure) = (Some(OperationKind::Read), Failure::Io);
    let nth = faulty.count(kind) + 1;
    faulty.fail(Fault { kind, nth, failure, lasting: Lasting::Once });
    let work = Work::Read { offset: 0, buffer: Buffer::zeroed(1) };
    assert!(queue.submit(Request { tag: 3, file, work }).is_ok());
    queue.wait(1, &mut done).unwrap();
    assert!(done.pop().unwrap().result.is_err());
}
