//! Named threads.
#![expect(clippy::disallowed_methods, reason = "this file is where threads are started")]

use std::io;
use std::sync::mpsc::sync_channel;

pub use std::thread::JoinHandle;

/// Starts threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Threads;

impl Threads {
    /// Starts a thread by the name `name` (the operating system's tools show 15 bytes of it), and
    /// waits until it runs.
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
        let (runs, running) = sync_channel(1);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let _ = runs.send(());
            work()
        })?;
        running.recv().expect("a thread sends before it works");
        Ok(thread)
    }
}
