//! How many files a process may have open, and what it does where it has as many.
//!
//! Whoever keeps files open only to have them at hand says how these are closed. Where there is no
//! descriptor left all of them are, and what was to be opened is opened once more: it may be the
//! next file of a journal, which would end for want of it.

use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use sync::locks::Mutex;

use crate::error::is_out_of_files;
use crate::process::PerProcess;

/// What closes files that can be spared.
static SPARE: PerProcess<Mutex<Closers>> = PerProcess::new(Mutex::default);
type Closers = Vec<fn()>;

/// Files and sockets that this process may have open at once, by now; `None` if there is no limit.
pub fn open_files_limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Has `close` called wherever a file cannot be opened since there are too many. It is called on
/// the thread that opens one, and must open none itself. A child of a fork calls this again for its own files.
pub fn close_when_out_of_files(close: fn()) {
    SPARE.lock().push(close);
}

/// Opens something, and once more if there is no descriptor left and files could be closed that are
/// kept only to have them at hand.
pub(crate) fn sparing<T>(open: impl Fn() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    match open() {
        Err(Errno::MFILE | Errno::NFILE) => {
            close_spare();
            open()
        }
        outcome => outcome,
    }
}

/// Does the same for a call whose errors are the standard library's.
pub(crate) fn sparing_io<T>(open: impl Fn() -> io::Result<T>) -> io::Result<T> {
    match open() {
        Err(error) if error.raw_os_error().is_some_and(is_out_of_files) => {
            close_spare();
            open()
        }
        outcome => outcome,
    }
}

fn close_spare() {
    let spare = SPARE.lock().clone();
    spare.iter().for_each(|close| close());
}
