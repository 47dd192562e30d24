//! Named threads.
#![expect(clippy::disallowed_methods, reason = "this file is where threads are started")]

use std::io;

pub use std::thread::JoinHandle;

/// Starts threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Threads;

impl Threads {
    /// Starts a thread by the name `name` (the operating system's tools show 15 bytes of it).
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
        std::thread::Builder::new().name(name.to_owned()).spawn(work)
    }
}
