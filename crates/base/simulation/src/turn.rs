//! The turn of a thread: what it waits for when another thread runs.

use std::backtrace::Backtrace;
use std::sync::{Condvar, Mutex};

use crate::locked;

/// The work of a thread whose wait ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signal {
    /// It has the turn.
    Run,
    /// It describes its stack, and waits further.
    Describe,
}

#[derive(Debug, Default)]
struct Slot {
    signal: Option<Signal>,
    stack: Option<Vec<String>>,
}

/// The turn of one thread.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    slot: Mutex<Slot>,
    changed: Condvar,
}

impl Turn {
    /// Gives the thread the turn.
    pub(crate) fn give(&self) {
        locked(&self.slot).signal = Some(Signal::Run);
        self.changed.notify_all();
    }

    /// Waits for the turn.
    pub(crate) fn take(&self) {
        let mut slot = locked(&self.slot);
        loop {
            match slot.signal.take() {
                Some(Signal::Run) => return,
                Some(Signal::Describe) => {
                    slot.stack = Some(stack());
                    self.changed.notify_all();
                }
                None => {
                    let waited = self.changed.wait(slot);
                    slot = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
                }
            }
        }
    }

    /// Waits forever.
    pub(crate) fn never(&self) -> ! {
        loop {
            self.take();
        }
    }

    /// Returns the names on the stack of the thread, which waits for its turn.
    pub(crate) fn stack(&self) -> Vec<String> {
        let mut slot = locked(&self.slot);
        slot.signal = Some(Signal::Describe);
        self.changed.notify_all();
        loop {
            if let Some(stack) = slot.stack.take() {
                return stack;
            }
            let waited = self.changed.wait(slot);
            slot = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }
}

/// Parts of names that say nothing about where a thread waits.
const SKIPPED: [&str; 5] = [
    "thermocline_simulation::",
    "thermocline_sync::scheduler::",
    "thermocline_environment::",
    "lock_api::",
    "::FnOnce<",
];
/// Beginnings of the names of the standard library's functions.
const OF_LIBRARY: [&str; 6] = ["std::", "core::", "alloc::", "<std::", "<core::", "<alloc::"];

/// Frames of a stack that are shown.
const DEPTH: usize = 16;
/// Names of the standard library's functions without a path.
const PLUMBING: [&str; 24] = [
    "{closure#0}",
    "call_once",
    "call_mut",
    "call",
    "map",
    "map_or",
    "map_or_else",
    "and_then",
    "with",
    "try_with",
    "with_place",
    "fold",
    "try_fold",
    "for_each",
    "try_for_each",
    "collect",
    "collect_in_place",
    "from_iter",
    "from_iter_in_place",
    "try_process",
    "catch_unwind",
    "do_call",
    "unlocked",
    "contain",
];

/// Names without a path, of this crate and of the places that call it.
const OWN: [&str; 14] = [
    "stack",
    "lock",
    "take",
    "never",
    "switch",
    "fail",
    "wait",
    "pass",
    "yield_now",
    "sleep",
    "sleep_until",
    "join",
    "start_thread",
    "clone3",
];

/// Returns the names on the stack of the calling thread, the innermost first.
pub(crate) fn stack() -> Vec<String> {
    let text = Backtrace::force_capture().to_string();
    // A frame is a line with its number and its name, and a line with its place.
    let name = |line: &str| {
        let (number, name) = line.trim_start().split_once(": ")?;
        number.parse::<u32>().ok().map(|_| name.to_owned())
    };
    let is_ours = |name: &String| {
        !OWN.contains(&name.as_str())
            && !OF_LIBRARY.iter().any(|library| name.starts_with(library))
            && !SKIPPED.iter().any(|skipped| name.contains(skipped))
    };
    let ours = text.lines().filter_map(name).filter(is_ours);
    // The types in a name say less than they take room.
    let short = ours.map(|name| match name.find('<') {
        Some(types) if types > 0 => name[..types].to_owned(),
        _ => name,
    });
    let is_plumbing = |name: &String| PLUMBING.contains(&name.as_str());
    short.filter(|name| !is_plumbing(name)).take(DEPTH).collect()
}
