//! The only place that touches the operating system's storage.
//!
//! A [`Device`] is a directory on some kind of storage. It opens [`File`]s by relative names and
//! hands out [`Queue`]s, on which reads, writes and syncs are submitted and completed out of order.
//! Every engine is written against these traits, so every engine can be crash-tested by the same
//! simulated disk, and every byte that it moves is counted in [`Accounting`].
//!
//! ```text
//!            engines, journal
//!                   │  Device: names          File: blocking calls     Queue: submit, wait
//!      ┌────────────┼──────────────┬───────────────────┐
//!  FaultDevice  RoomDevice  Recorder                   │        (over any other device)
//!      └────────────┤              │                   │
//!      ┌────────────┴───────┐      │                   │
//!  open(path, Options)   memory()  │             SimulatedDisk
//!  io_uring or positional,   everything in       loses, tears, reorders,
//!  direct or page cache      the process         corrupts, delays, refuses; crash(seed)
//! ```
//!
//! Begin here: [`open`] is for a real directory, [`memory()`] for a test that needs none.
//! [`SimulatedDisk`] tests recovery from a crash, [`FaultDevice`] every error path, and
//! [`RoomDevice`] a device that is full for a while. [`Recorder`] shows the operations that were
//! done, and [`overlay()`] shows a directory without changing it. To follow a read:
//! `system/file.rs` by a blocking call, `system/uring.rs` on a queue.
//!
//! # Invariants
//! - I1. Names are relative and of a strict pattern ([`check_name`]); nothing outside the device's
//!   root can be reached.
//! - I2. A write is durable only after a sync of its file completed without error, and a name only
//!   after a sync of its directory. A failed sync is never retried: the caller must stop.
//! - I3. A buffer given to a queue belongs to the device until its completion hands it back.

mod accounting;
mod ballast;
mod blocking_queue;
mod buffer;
mod doorbell;
mod error;
mod fault;
mod file;
mod file_names;
mod limit;
mod memory;
mod name;
mod observed;
mod overlapped_writes;
mod overlay;
mod pool;
pub mod process;
mod queue;
mod recorder;
mod room;
mod simulated;
#[cfg(any(test, feature = "testing"))]
pub mod suite;
mod system;

pub use accounting::{Accounting, IoCounts};
pub use ballast::Ballast;
pub use blocking_queue::perform;
pub use buffer::Buffer;
pub use doorbell::Doorbell;
pub use error::{Error, Operation as FailedOperation, Result};
pub use fault::{Failure, Fault, FaultDevice, Lasting, OperationKind};
pub use file::{Entry, File, Mode, Space, SyncKind};
pub use file_names::FileNames;
pub use limit::{close_spare_files, close_when_out_of_files, open_files_limit};
pub use memory::memory;
pub use name::{check_below_root, check_name, join};
pub use observed::ObservedDevice;
pub use overlapped_writes::OverlappedWrites;
pub use overlay::overlay;
pub use pool::OnDemandFile;
pub use process::{Forked, OfProcess, PerProcess, Process};
pub use queue::{Completion, Queue, Request, Work};
pub use recorder::{Recorded, Recorder, Recording};
pub use room::RoomDevice;
pub use simulated::{Faults, History, Latency, Replay, SimulatedDisk, SyncFailure};
pub use system::{Io, Options, open, sync_name};

use std::fmt::Debug;
use std::sync::Arc;

/// A directory on some kind of storage. All names are relative to it, with `/` between parts.
pub trait Device: Send + Sync + Debug {
    /// Opens a file.
    ///
    /// # Errors
    /// [`Error::NotFound`] if `mode` wants an existing file, [`Error::AlreadyExists`] if it wants a
    /// new one, [`Error::BadName`], [`Error::NoSpace`], [`Error::Io`].
    fn open(&self, name: &str, mode: Mode) -> Result<Arc<dyn File>>;

    /// Opens a file that is read and written only in whole blocks of 4 KiB, and that its user
    /// caches itself. It bypasses the page cache if the device is made so, and is opened as by
    /// [`Device::open`] otherwise.
    ///
    /// # Errors
    /// As [`Device::open`].
    fn open_blocks(&self, name: &str, mode: Mode) -> Result<Arc<dyn File>> {
        self.open(name, mode)
    }

    /// Makes a queue on which up to `depth` requests are in flight. A queue belongs to one thread
    /// at a time; a thread that wants overlapped I/O keeps one. If the process has no descriptor
    /// left for one, the queue does its requests by the files' blocking calls.
    fn queue(&self, depth: usize) -> Result<Box<dyn Queue>>;

    /// Makes a directory and the ones above it; no error if they exist. Not durable until each
    /// parent is synced.
    fn create_dir(&self, name: &str) -> Result<()>;

    /// The names in a directory (`""` is the root), sorted.
    fn list(&self, dir: &str) -> Result<Vec<Entry>>;

    /// Whether there is a file or directory of that name.
    fn exists(&self, name: &str) -> Result<bool>;

    /// Renames a file or directory, replacing a file of the new name atomically. Durable once
    /// the directories of both names are synced.
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// Renames a file or directory within its directory, replacing a file of the new name
    /// atomically. Durable on return. If a descriptor is missing ([`Error::is_out_of_files`]),
    /// nothing was renamed, so the call may be repeated; after any other error both names must be
    /// taken for possible.
    ///
    /// # Errors
    /// The storage's.
    fn rename_synced(&self, from: &str, to: &str) -> Result<()> {
        self.rename(from, to)?;
        self.sync_dir(name::split(to).0)
    }

    /// Gives a file a second name (a hard link), or copies it if the storage has no links.
    fn link(&self, from: &str, to: &str) -> Result<()>;

    /// Removes a file. Handles that are open stay readable.
    fn remove(&self, name: &str) -> Result<()>;

    /// Removes a directory and all that is in it; no error if there is none.
    fn remove_dir(&self, name: &str) -> Result<()>;

    /// Removes a directory if nothing is in it. Returns whether there is no such directory now.
    fn remove_empty_dir(&self, name: &str) -> Result<bool> {
        if self.exists(name)? {
            if !self.list(name)?.is_empty() {
                return Ok(false);
            }
            self.remove_dir(name)?;
        }
        Ok(true)
    }

    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &str) -> Result<()>;

    /// Takes an exclusive lock that lasts as long as the returned file is open, also against
    /// other processes. The file is made if it is missing.
    ///
    /// # Errors
    /// [`Error::Locked`] if another holds it.
    fn lock(&self, name: &str) -> Result<Arc<dyn File>>;

    /// Takes a lock that other callers may share by this call, and that excludes callers of
    /// [`Device::lock`]. It is as exclusive as that one if the storage cannot share it. The file is
    /// made if it is missing.
    ///
    /// # Errors
    /// [`Error::Locked`] if another caller holds it exclusively.
    fn lock_shared(&self, name: &str) -> Result<Arc<dyn File>> {
        self.lock(name)
    }

    /// Bytes in all and free on the storage beneath.
    fn space(&self) -> Result<Space>;

    /// Returns counters of the bytes and operations of this device so far.
    fn accounting(&self) -> &Accounting;

    /// Returns the kind of this device, for stats: `io_uring direct`, `buffered`, `memory`, ...
    fn kind(&self) -> &'static str;

    /// A device whose root is a directory of this one (made if missing), sharing its accounting
    /// and faults.
    fn subdevice(&self, dir: &str) -> Result<Arc<dyn Device>>;
}
