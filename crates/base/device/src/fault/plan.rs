//! Which operations fail, before which something else is done, and how many there were.

use std::fmt;
use std::thread::ThreadId;

use rustix::io::Errno;
use sync::locks::{Condvar, Mutex};

use crate::error::{Error, Operation, Result};

/// The kinds of operations that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum OperationKind {
    Open,
    Read,
    Write,
    /// Setting a length, allocating, punching.
    Resize,
    /// Of a file.
    Sync,
    SyncDir,
    List,
    CreateDir,
    Rename,
    Link,
    /// Of a file or a directory.
    Remove,
    /// Asking whether there is a name.
    Exists,
    /// Making a queue.
    Queue,
}

impl OperationKind {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Open,
        Self::Read,
        Self::Write,
        Self::Resize,
        Self::Sync,
        Self::SyncDir,
        Self::List,
        Self::CreateDir,
        Self::Rename,
        Self::Link,
        Self::Remove,
        Self::Exists,
        Self::Queue,
    ];

    fn operation(self) -> Operation {
        match self {
            Self::Open => Operation::Open,
            Self::Read => Operation::Read,
            Self::Write | Self::Resize => Operation::Write,
            Self::Sync | Self::SyncDir => Operation::Sync,
            Self::Queue => Operation::Queue,
            _ => Operation::Metadata,
        }
    }

    /// Returns whether the operation needs a descriptor of its own, as all do but operations on an
    /// open file.
    pub fn needs_descriptor(self) -> bool {
        !matches!(self, Self::Read | Self::Write | Self::Resize | Self::Sync)
    }
}

/// How an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Without effect, with `EIO`.
    Io,
    /// Without effect, with [`Error::NoSpace`]; of a sync with `ENOSPC`.
    NoSpace,
    /// Without effect, with `EMFILE`: the process has no descriptor left. Operations that need none
    /// are not failed so ([`OperationKind::needs_descriptor`]), and a queue that is made so has no
    /// ring.
    OutOfFiles,
    /// Without effect, with [`Error::Unavailable`]. Only reads are failed so.
    Unavailable,
    /// A read or a write stops in the middle, with `EIO`: a short transfer whose rest fails.
    /// Other operations fail without effect.
    Short,
}

/// For how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasting {
    /// That one operation.
    Once,
    /// That one and all of its kind after it.
    ForGood,
}

/// An operation that is to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kind of the operation; `None` counts operations of all kinds.
    pub kind: Option<OperationKind>,
    /// The how manieth of that kind since the device was made; the first is 1.
    pub nth: u64,
    /// How it fails.
    pub failure: Failure,
    /// For how long.
    pub lasting: Lasting,
}

/// Faults that were set and operations that were counted.
#[derive(Debug, Default)]
pub(super) struct Plan {
    state: Mutex<State>,
    /// Notified when operations are not parked any more.
    go_on: Condvar,
}

/// An action that is done before an operation, of one thread or of any.
pub(super) struct Interposed {
    pub(super) thread: Option<ThreadId>,
    pub(super) kind: OperationKind,
    pub(super) action: Box<dyn FnOnce() + Send>,
}

impl fmt::Debug for Interposed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interposed").field("kind", &self.kind).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct State {
    faults: Vec<Fault>,
    interposed: Vec<Interposed>,
    counts: [u64; OperationKind::ALL.len()],
    failed: u64,
    /// Operations wait before they begin.
    is_parked: bool,
    /// Operations that wait.
    parked: u64,
}

impl State {
    fn count(&self, kind: Option<OperationKind>) -> u64 {
        match kind {
            Some(kind) => self.counts[kind as usize],
            None => self.counts.iter().sum(),
        }
    }
}

impl Plan {
    pub(super) fn add(&self, fault: Fault) {
        self.state.lock().faults.push(fault);
    }

    pub(super) fn interpose(&self, interposed: Interposed) {
        self.state.lock().interposed.push(interposed);
    }

    /// From now on each operation waits before it begins, until [`Plan::go_on`].
    pub(super) fn park(&self) {
        self.state.lock().is_parked = true;
    }

    pub(super) fn go_on(&self) {
        self.state.lock().is_parked = false;
        self.go_on.notify_all();
    }

    pub(super) fn parked(&self) -> u64 {
        self.state.lock().parked
    }

    /// Does the interposed actions for an operation of this thread, with no lock held.
    fn run_interposed(&self, kind: OperationKind) {
        let thread = std::thread::current().id();
        let mut state = self.state.lock();
        let is_due =
            |one: &Interposed| one.thread.is_none_or(|of| of == thread) && one.kind == kind;
        let Some(at) = state.interposed.iter().position(is_due) else { return };
        let Interposed { action, .. } = state.interposed.remove(at);
        drop(state);
        action();
    }

    pub(super) fn clear(&self) {
        self.state.lock().faults.clear();
    }

    pub(super) fn count(&self, kind: Option<OperationKind>) -> u64 {
        self.state.lock().count(kind)
    }

    pub(super) fn failed(&self) -> u64 {
        self.state.lock().failed
    }

    /// Counts an operation, and says whether and how it is to fail.
    pub(super) fn strike(&self, kind: OperationKind, name: &str) -> Option<(Failure, Error)> {
        self.run_interposed(kind);
        let mut state = self.state.lock();
        if state.is_parked {
            state.parked += 1;
            self.go_on.wait_while(&mut state, |state| state.is_parked);
            state.parked -= 1;
        }
        state.counts[kind as usize] += 1;
        let hit = |fault: &&Fault| {
            let count = state.count(fault.kind);
            let due = match fault.lasting {
                Lasting::Once => count == fault.nth,
                Lasting::ForGood => count >= fault.nth,
            };
            due && fault.kind.is_none_or(|of| of == kind)
        };
        let failure = state.faults.iter().find(hit)?.failure;
        let can_fail_so = match failure {
            Failure::OutOfFiles => kind.needs_descriptor(),
            Failure::Unavailable => kind == OperationKind::Read,
            Failure::Io | Failure::NoSpace | Failure::Short => true,
        };
        if !can_fail_so {
            return None;
        }
        state.failed += 1;
        let (operation, name) = (kind.operation(), name.to_owned());
        let error = match failure {
            Failure::NoSpace if operation == Operation::Sync => {
                Error::Io { operation, name, code: Errno::NOSPC.raw_os_error() }
            }
            Failure::NoSpace => Error::NoSpace { name },
            Failure::Unavailable => Error::Unavailable { name },
            Failure::OutOfFiles => {
                // Of a directory's sync it is the opening that fails.
                let is_sync = operation == Operation::Sync;
                let operation = if is_sync { Operation::Open } else { operation };
                Error::Io { operation, name, code: Errno::MFILE.raw_os_error() }
            }
            Failure::Io | Failure::Short => {
                Error::Io { operation, name, code: Errno::IO.raw_os_error() }
            }
        };
        Some((failure, error))
    }

    /// The same, for an operation that is whole or not at all.
    pub(super) fn check(&self, kind: OperationKind, name: &str) -> Result<()> {
        match self.strike(kind, name) {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }
}
