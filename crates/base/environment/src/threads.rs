//! Named threads.
#![expect(clippy::disallowed_methods, reason = "this file is where threads are started")]

use std::io;
use std::sync::mpsc::sync_channel;

use sync::scheduler::{Started, Starting};

/// Starts threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Threads;

/// The handle of a thread, to wait for its end and take its result.
#[derive(Debug)]
pub struct JoinHandle<T> {
    thread: std::thread::JoinHandle<T>,
    /// Its place, if it belongs to a simulation.
    started: Started,
}

impl Threads {
    /// Starts a thread by the name `name` (the operating system's tools show 15 bytes of it), and
    /// waits until it runs. The thread belongs to the simulation of the calling one, if there is
    /// one.
    ///
    /// A thread that starts holds a lock of the standard library for a moment. A child that is
    /// forked in this moment can never start a thread. After this call a fork is safe.
    ///
    /// # Errors
    /// The operating system refuses another thread.
    ///
    /// # Panics
    /// If `name` contains a zero byte: names are ours, never a user's.
    pub fn spawn<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let starting = Starting::new(name);
        let started = starting.started();
        let (runs, running) = sync_channel(1);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let _ = runs.send(());
            starting.begin();
            work()
        })?;
        running.recv().expect("a thread sends before it works");
        Ok(JoinHandle { thread, started })
    }
}

impl<T> JoinHandle<T> {
    /// Waits for the end of the thread, and returns its result.
    ///
    /// # Errors
    /// The value with which the thread panicked.
    pub fn join(self) -> std::thread::Result<T> {
        self.started.join();
        self.thread.join()
    }

    /// Returns whether the thread has ended, so that a join does not wait.
    pub fn is_finished(&self) -> bool {
        self.started.has_ended().unwrap_or_else(|| self.thread.is_finished())
    }

    /// Returns the thread, for its name and its id.
    pub fn thread(&self) -> &std::thread::Thread {
        self.thread.thread()
    }
}
