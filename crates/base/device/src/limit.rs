//! The limit of open files of a process, and what happens at that limit.
//!
//! A component that keeps files open only for speed registers a function that closes them. If no
//! descriptor is left, all these files are closed, and the open is tried once more: the file may be
//! the next one of a journal, which would end for lack of it.

use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use sync::locks::Mutex;

use crate::error::is_out_of_files;
use crate::process::PerProcess;

/// Functions that close files which can be spared.
static SPARE: PerProcess<Mutex<Closers>> = PerProcess::new(Mutex::default);
type Closers = Vec<fn()>;

/// Files and sockets that this process may have open at the same time, under the present limit;
/// `None` if there is no limit.
pub fn open_files_limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Has `close` called whenever a file cannot be opened since there are too many. It is called on
/// the thread that opens one, and must open none itself. A child of a fork calls this again for its
/// own files.
pub fn close_when_out_of_files(close: fn()) {
    SPARE.lock().push(close);
}

/// Opens something, and once more if there is no descriptor left and files could be closed that are
/// kept only to have them at hand.
pub(crate) fn sparing<T>(open: impl Fn() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    match open() {
        Err(Errno::MFILE | Errno::NFILE) => {
            close_spare_files();
            open()
        }
        outcome => outcome,
    }
}

/// Does the same for a call whose errors are the standard library's.
pub(crate) fn sparing_io<T>(open: impl Fn() -> io::Result<T>) -> io::Result<T> {
    match open() {
        Err(error) if error.raw_os_error().is_some_and(is_out_of_files) => {
            close_spare_files();
            open()
        }
        outcome => outcome,
    }
}

/// Closes the files that are kept open only for speed, as happens when no descriptor is left. The
/// next use of such a file opens it.
pub fn close_spare_files() {
    let spare = SPARE.lock().clone();
    spare.iter().for_each(|close| close());
}
