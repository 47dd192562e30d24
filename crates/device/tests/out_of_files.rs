//! Too many open files: a process of its own, whose limit is lowered.

use std::sync::{Arc, Mutex, MutexGuard};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use thermocline_device::{
    Error, File, Mode, Options, close_when_out_of_files, open, open_files_limit,
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
}
