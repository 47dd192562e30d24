//! The state of a session that CLIENT LIST shows.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicUsize};

use crate::commands::COMMANDS;

/// The state of a client's session between two commands. Its loop stores, other threads load.
#[derive(Debug)]
pub(crate) struct ShownSession {
    /// Index of its last command in [`COMMANDS`].
    pub(crate) last_command: AtomicU16,
    pub(crate) db: AtomicU8,
    pub(crate) resp3: AtomicBool,
    pub(crate) queued: AtomicUsize,
    pub(crate) in_multi: AtomicBool,
}

impl ShownSession {
    /// Returns the state of a session that has just begun.
    pub(super) fn new() -> Self {
        Self {
            last_command: AtomicU16::new(u16::MAX),
            db: AtomicU8::new(0),
            resp3: AtomicBool::new(false),
            queued: AtomicUsize::new(0),
            in_multi: AtomicBool::new(false),
        }
    }

    /// Returns the name of the last command.
    pub(super) fn command_name(&self) -> &'static str {
        let command = COMMANDS.get(usize::from(self.last_command.load(Relaxed)));
        command.map_or("NULL", |command| command.name)
    }

    /// Returns the number of commands since MULTI, or -1 outside of a transaction.
    pub(super) fn multi(&self) -> i64 {
        if self.in_multi.load(Relaxed) { self.queued.load(Relaxed) as i64 } else { -1 }
    }
}
