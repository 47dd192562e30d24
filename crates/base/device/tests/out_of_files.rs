//! Too many open files: a process of its own, whose limit is lowered.

use std::sync::{Arc, Mutex, MutexGuard};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use thermocline_device::{
    Buffer, Device, Error, File, Mode, Options, Request, Work, close_when_out_of_files, open,
    open_files_limit,
};

static SPARE: Mutex<Vec<Arc<dyn File>>> = Mutex::new(Vec::new());

fn spare() -> MutexGuard<'static, Vec<Arc<dyn File>>> {
    SPARE.lock().expect("nobody panics with it")
}

#[test]
fn files_that_can_be_spared_give_way_to_one_that_is_needed() {
    let dir = tempfile::tempdir().expect("a directory");
    let device = open(dir.path(), Options::default()).expect("opens");
    let limit = Rlimit { current: Some(64), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).expect("the limit is lowered");
    assert_eq!(open_files_limit(), Some(64));
    let mut number = 0;
    let mut next = || {
        number += 1;
        device.open(&number.to_string(), Mode::CreateNew)
    };
    let error = loop {
        match next() {
            Ok(file) => spare().push(file),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Io { code: 24, .. }), "{error}");
    assert!(spare().len() > 10);
    close_when_out_of_files(|| spare().clear());
    next().expect("there is room for it");
    assert!(spare().is_empty());
    every_operation_waits_for_a_descriptor(&*device);
    reads_go_on_without_a_ring(&*device);
}

/// Takes all descriptors that are left.
#[expect(clippy::disallowed_methods, reason = "files of the process, and not of a device")]
fn take_all() -> Vec<std::fs::File> {
    std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect()
}

/// Each operation that wants a descriptor is refused in the same way, changes nothing, and succeeds
/// later.
fn every_operation_waits_for_a_descriptor(device: &dyn Device) {
    let below = device.subdevice("below").expect("there is one for the moment");
    below.open("old", Mode::CreateNew).expect("there is one for the file");
    type Call = fn(&dyn Device) -> Result<(), Error>;
    let calls: [Call; 11] = [
        |device| device.exists("old").map(drop),
        |device| device.list("").map(drop),
        |device| device.open("old", Mode::Write).map(drop),
        |device| device.open("new", Mode::CreateNew).map(drop),
        |device| device.create_dir("dir"),
        |device| device.link("old", "linked"),
        |device| device.rename_synced("linked", "renamed"),
        |device| device.rename("renamed", "linked"),
        |device| device.remove("linked"),
        |device| device.sync_dir(""),
        |device| device.lock("LOCK").map(drop),
    ];
    for (index, call) in calls.iter().enumerate() {
        let taken = take_all();
        let refused = call(&*below);
        assert!(refused.as_ref().is_err_and(Error::is_out_of_files), "{index}: {refused:?}");
        assert!(refused.is_err_and(|error| error.is_retryable()));
        drop(taken);
        call(&*below).unwrap_or_else(|error| panic!("{index}: {error}"));
    }
}

/// A queue that is made without a descriptor reads by blocking calls, and by a ring later.
fn reads_go_on_without_a_ring(device: &dyn Device) {
    let file = device.open("read", Mode::CreateNew).expect("there is one");
    file.write_at(0, &[7; 64]).expect("there is room");
    let taken = take_all();
    let mut queue = device.queue(4).expect("it needs none");
    let mut done = Vec::new();
    for round in 0..1000 {
        let work = Work::Read { offset: 0, buffer: Buffer::zeroed(64) };
        let request = Request { tag: round, file: file.clone(), work };
        assert!(queue.submit(request).is_ok(), "nothing is in flight");
        assert_eq!(queue.wait(1, &mut done).expect("it does not fail"), 1);
        let completion = done.pop().expect("one is done");
        completion.result.expect("the bytes are there");
        assert_eq!(completion.buffer.as_deref(), Some(&[7; 64][..]));
    }
    drop(taken);
}
