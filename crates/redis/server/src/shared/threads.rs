//! The work of the server's threads, and the request that they stop.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use thermocline::sync::locks::{Condvar, Mutex};

use crate::event_loop::{CommandThreads, Letter, Mailbox, Walker};
use crate::retired::Retired;

/// Letters to the loops, requests to the threads that work for them, and the request to stop.
pub(crate) struct Threads {
    pub(crate) mailboxes: Vec<Mailbox>,
    /// Reads slices of walks.
    pub(crate) walker: Walker,
    /// Run commands that wait for the device or have much to do.
    pub(crate) command_threads: CommandThreads,
    /// Things that are used no more, for [`crate::retired`].
    pub(crate) retired: Mutex<Vec<Retired>>,
    pub(crate) stop: Stop,
}

/// The request to stop, and the threads that wait for it.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    asked: AtomicBool,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Stop {
    /// Whether the server is to end.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Relaxed)
    }

    /// Blocks until [`Threads::ask_to_stop`], or for `timeout`; whether it was asked.
    pub(crate) fn wait_for(&self, timeout: std::time::Duration) -> bool {
        let mut guard = self.lock.lock();
        if !self.is_asked() {
            self.changed.wait_for(&mut guard, timeout);
        }
        self.is_asked()
    }
}

impl Threads {
    /// No work yet, for loops with these mailboxes.
    pub(crate) fn new(mailboxes: Vec<Mailbox>) -> Self {
        Self {
            mailboxes,
            walker: Walker::default(),
            command_threads: CommandThreads::default(),
            retired: Mutex::default(),
            stop: Stop::default(),
        }
    }

    /// Sends a letter to the loop at `index`.
    pub(crate) fn send(&self, index: usize, letter: Letter) {
        if let Some(mailbox) = self.mailboxes.get(index) {
            mailbox.send(letter);
        }
    }

    /// Asks every thread to end.
    pub(crate) fn ask_to_stop(&self) {
        let guard = self.stop.lock.lock();
        self.stop.asked.store(true, Relaxed);
        drop(guard);
        self.stop.changed.notify_all();
        self.mailboxes.iter().for_each(Mailbox::wake);
    }
}
