//! How many files a process may have open, and what it does where it has as many.
//!
//! Whoever keeps files open only to have them at hand says how these are closed. Where there is no
//! descriptor left all of them are, and what was to be opened is opened once more: it may be the
//! next file of a journal, which would end for want of it.

use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// What closes files that can be spared.
static SPARE: Mutex<Vec<fn()>> = Mutex::new(Vec::new());

/// Files and sockets that this process may have open at once, by now; `None` if there is no limit.
pub fn open_files_limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Has `close` called wherever a file cannot be opened since there are too many. It is called on
/// the thread that opens one, and must open none itself.
pub fn close_when_out_of_files(close: fn()) {
    SPARE.lock().push(close);
}

/// What `open` gives, or gives once files were closed that can be spared.
pub(crate) fn sparing<T>(open: impl Fn() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    match open() {
        Err(Errno::MFILE | Errno::NFILE) => {
            let spare = SPARE.lock().clone();
            spare.iter().for_each(|close| close());
            open()
        }
        outcome => outcome,
    }
}
