//! Runs a part of a test in a child of a fork.
#![expect(unsafe_code, reason = "a fork is a C function")]

use std::io::{PipeReader, PipeWriter, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// Time after which a child counts as one that hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two looks at a child.
const PAUSE: Duration = Duration::from_millis(2);

/// A child of a fork, which runs a part of a test.
#[derive(Debug)]
pub struct Child {
    id: libc::pid_t,
    said: PipeReader,
}

impl Child {
    /// Forks. The child runs `body` and ends without running destructors; it reports the text that
    /// `body` returns. `body` is called with a copy of the pipe's end, so that a child of the child
    /// can report instead.
    ///
    /// # Panics
    /// If the system refuses a process or a pipe.
    pub fn fork(body: impl FnOnce(&mut PipeWriter) -> String) -> Self {
        let (said, mut says) = std::io::pipe().expect("a pipe");
        // SAFETY: the child runs the test's own code and ends by `_exit`; glibc lets it allocate
        // and start threads.
        let id = unsafe { libc::fork() };
        assert!(id >= 0, "no process: {}", std::io::Error::last_os_error());
        if id > 0 {
            drop(says);
            return Self { id, said };
        }
        drop(said);
        let text = catch_unwind(AssertUnwindSafe(|| body(&mut says)));
        let text = text.unwrap_or_else(|_| "a panic".to_owned());
        let _ = says.write_all(text.as_bytes());
        drop(says);
        exit_without_destructors()
    }

    /// Waits until the child and its children have closed the pipe and the child has ended; returns
    /// the reported text.
    ///
    /// # Panics
    /// If the child hangs; it is killed then.
    pub fn join(self) -> String {
        let Self { id, mut said } = self;
        let (sent, received) = std::sync::mpsc::channel();
        #[expect(
            clippy::disallowed_methods,
            reason = "a test's own thread, which a clock need not simulate"
        )]
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = said.read_to_string(&mut text);
            let _ = sent.send(text);
        });
        let text = received.recv_timeout(PATIENCE);
        if text.is_err() {
            // SAFETY: the id is a child's that nothing has waited for yet, so no other process has
            // it.
            unsafe { libc::kill(id, libc::SIGKILL) };
        }
        wait(id);
        // The end of a thread holds a lock for a moment, as its start does. No fork may copy the
        // lock then.
        let _ = reader.join();
        text.expect("the child ends")
    }
}

#[expect(clippy::disallowed_methods, reason = "a test looks at a real process")]
fn wait(id: libc::pid_t) {
    let begun = Instant::now();
    let mut status = 0;
    // SAFETY: the status is this function's own.
    while unsafe { libc::waitpid(id, &raw mut status, libc::WNOHANG) } == 0 {
        assert!(begun.elapsed() < PATIENCE, "the child ends");
        std::thread::sleep(PAUSE);
    }
}

/// Ends this process without running a destructor or a handler, as a daemon's parent does.
pub fn exit_without_destructors() -> ! {
    // SAFETY: it takes a number and does not return.
    unsafe { libc::_exit(0) }
}
