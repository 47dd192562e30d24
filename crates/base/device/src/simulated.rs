//! A disk in memory that loses, tears, reorders, corrupts, delays and refuses, from a seed.
//!
//! ```text
//!   store ──> SimulatedDisk ──events──> State: current | pending | durable
//!                  │ Faults decide              │
//!                  │                            ├─ crash(seed) ──> another SimulatedDisk
//!                  └─ history ──> Replay ───────┘                  as a machine may find it
//! ```
//!
//! The bytes that readers see, the durable bytes and the changes between the two are kept apart, in
//! pages that are shared until one side writes. So an image of the disk after a crash costs about
//! the changes that were pending, and any number of images can be taken at any moment, without
//! disturbing the run. `simulated/crash.rs` describes how an image is drawn.
//!
//! Begin here: [`SimulatedDisk::new`], run the store on it, [`SimulatedDisk::crash`], open the
//! store again on the disk that it returns. To crash at every operation of one run,
//! [`SimulatedDisk::keep_history`] and [`History::replay`]. To stop the run itself at an operation,
//! [`SimulatedDisk::power_cut_at`].
//!
//! Limits: the latency of a queue is counted in polls. Operations take time only after
//! [`SimulatedDisk::set_latency`]. The disk never refuses memory. A short transfer shows only as a
//! failed write that was done in part, because a [`crate::File`] is whole or an error
//! ([`crate::Failure::Short`] fails such a transfer at a chosen operation).
//!
//! # Invariants
//! - I1. The same seed, faults and calls give the same results and the same
//!   [`SimulatedDisk::trace`].
//! - I2. With [`Faults::none`], an image holds all that was synced: bytes whose file was synced
//!   after them, under names whose directory was synced after them.

mod content;
mod crash;
mod dice;
mod disk;
mod event;
mod faults;
mod file;
mod history;
mod latency;
mod queue;
mod resolve;
mod state;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use environment::Environment;
use rustix::io::Errno;
use sync::locks::Mutex;

use crate::Device;
use crate::accounting::Accounting;
use crate::error::{Error, Operation, Result};
use crate::file::{Entry, File, Mode, Space};
use crate::name::{check_below_root, check_name};
use crate::queue::Queue;

use disk::Disk;
use event::{Event, Inode, ROOT};
use file::SimulatedFile;
use latency::{Delays, take_time};
use queue::SimulatedQueue;
use resolve::{Found, failed, not_found, taken};
use state::State;

pub use faults::{Faults, SyncFailure};
pub use history::{History, Replay};
pub use latency::Latency;

/// How much room a simulated disk says it has.
const SPACE_BYTES: u64 = 1 << 40;

/// A simulated disk, or a directory of one.
///
/// ```
/// use thermocline_device::{Device, Faults, File, Mode, SimulatedDisk, SyncKind};
///
/// let disk = SimulatedDisk::new(1, Faults::none());
/// let file = disk.open("log", Mode::CreateNew)?;
/// file.write_at(0, b"acknowledged")?;
/// file.sync(SyncKind::Data)?;
/// disk.sync_dir("")?;
/// file.write_at(12, b" or not")?;
///
/// for seed in 0..100 {
///     let image = disk.crash(seed);
///     let mut found = [0; 12];
///     image.open("log", Mode::Read)?.read_at(0, &mut found)?;
///     assert_eq!(&found, b"acknowledged");
/// }
/// # Ok::<(), thermocline_device::Error>(())
/// ```
#[derive(Debug)]
pub struct SimulatedDisk {
    disk: Arc<Mutex<Disk>>,
    root: Inode,
    alignment: usize,
    accounting: Arc<Accounting>,
}

impl SimulatedDisk {
    /// An empty disk on which writes may begin and end anywhere, as through a page cache.
    pub fn new(seed: u64, faults: Faults) -> Arc<Self> {
        Self::with_alignment(seed, faults, 1)
    }

    /// An empty disk that refuses writes that are not in multiples of `alignment`, as direct I/O.
    pub fn with_alignment(seed: u64, faults: Faults, alignment: usize) -> Arc<Self> {
        Self::from_state(State::default(), seed, faults, alignment.max(1))
    }

    fn from_state(state: State, seed: u64, faults: Faults, alignment: usize) -> Arc<Self> {
        let disk = Arc::new(Mutex::new(Disk::new(state, seed, faults)));
        Arc::new(Self { disk, root: ROOT, alignment, accounting: Arc::default() })
    }

    /// Returns a disk as the machine may find it if the power went now; `image_seed` chooses among
    /// all such disks. It has the same faults, no locks, no history and its own count of
    /// operations. This disk continues undisturbed. The image can crash in turn.
    pub fn crash(&self, image_seed: u64) -> Arc<Self> {
        let disk = self.disk.lock();
        let state = crash::crash(&disk.state, image_seed);
        Self::from_state(state, image_seed, disk.faults.clone(), self.alignment)
    }

    /// Returns a disk as the next process finds it if this one were killed now. It has everything
    /// that was written, and no locks. This disk continues undisturbed.
    pub fn kill(&self) -> Arc<Self> {
        let disk = self.disk.lock();
        let state = crash::crash_losing_nothing(&disk.state);
        Self::from_state(state, disk.trace, disk.faults.clone(), self.alignment)
    }

    /// Cuts the power during operation number `operation` (the first is 1): that one may leave
    /// traces but is not acknowledged, and everything after it fails with `ENODEV`. If that number
    /// has passed, the power is off immediately.
    pub fn power_cut_at(&self, operation: u64) {
        self.disk.lock().cut_at = Some(operation);
    }

    /// How many operations changed something, or tried to: made, moved or removed names, wrote,
    /// cut, synced. Reads and lookups are not counted, since a crash between them is no other
    /// crash.
    pub fn operations(&self) -> u64 {
        self.disk.lock().operations
    }

    /// Returns a hash over all requests to this disk and all its results: the same for the same
    /// run.
    pub fn trace(&self) -> u64 {
        self.disk.lock().trace
    }

    /// From now on goes wrong as `faults` says.
    pub fn set_faults(&self, faults: Faults) {
        self.disk.lock().faults = faults;
    }

    /// From now on the operations take time, of the clock of this environment. An image takes none.
    pub fn set_latency(&self, environment: &Environment, latency: Latency) {
        let mut disk = self.disk.lock();
        let delays = Delays::new(environment.clone(), latency, disk.trace);
        disk.delays = Some(delays);
    }

    /// From now on keeps what happens, for [`SimulatedDisk::history`]. Takes memory for every byte
    /// that is written.
    pub fn keep_history(&self) {
        let mut disk = self.disk.lock();
        disk.history_from = disk.state.clone();
        disk.history = Some(Vec::new());
    }

    /// Returns the events since [`SimulatedDisk::keep_history`]; none if that was not called.
    pub fn history(&self) -> History {
        let disk = self.disk.lock();
        History {
            start: disk.history_from.clone(),
            events: disk.history.clone().unwrap_or_default(),
            last: disk.operations,
            faults: disk.faults.clone(),
            alignment: self.alignment,
        }
    }

    /// Flips a bit of the byte at `offset` of a file, on the medium and in the view of readers.
    pub fn flip_bit(&self, name: &str, offset: u64, bit: u8) -> Result<()> {
        let mut disk = self.disk.lock();
        let node = disk.state.find_file(self.root, name)?;
        disk.happen_between(Event::Rot { node, offset, bit });
        Ok(())
    }

    /// Turns the sector that holds `offset` of a file to zeros, on the medium and in the view of
    /// readers.
    pub fn zero_sector(&self, name: &str, offset: u64) -> Result<()> {
        let mut disk = self.disk.lock();
        let node = disk.state.find_file(self.root, name)?;
        let offset = offset / state::SECTOR * state::SECTOR;
        disk.happen_between(Event::ZeroSector { node, offset });
        Ok(())
    }

    fn handle(&self, disk: &mut Disk, node: Inode, name: &str, mode: Mode) -> SimulatedFile {
        let accounting = self.accounting.clone();
        let place = (self.disk.clone(), disk);
        SimulatedFile::new(place, (node, name), mode, self.alignment, accounting)
    }

    fn open_in(&self, disk: &mut Disk, name: &str, mode: Mode) -> Result<Inode> {
        disk.alive(Operation::Open, name)?;
        let at = disk.state.place(self.root, name)?;
        match (disk.state.find(self.root, name)?, mode) {
            (Some(Found::Dir(_)), _) => Err(failed(Operation::Open, name, Errno::ISDIR)),
            (Some(Found::File(_)), Mode::CreateNew) => Err(taken(name)),
            (Some(Found::File(node)), _) => Ok(node),
            (None, Mode::Read | Mode::Write) => Err(not_found(name)),
            (None, Mode::Create | Mode::CreateNew) => {
                let step = disk.metadata(name, [0, u64::from(at.0), 0])?;
                let node = disk.state.next_inode;
                disk.happen(Event::Create { at, is_dir: false });
                step.end(Operation::Open, name).map(|()| node)
            }
        }
    }

    /// Removes all that is in the directory `node`.
    fn empty(disk: &mut Disk, node: Inode) {
        let names = disk.state.dir(node).map(|dir| dir.current.clone()).unwrap_or_default();
        for (name, inner) in names {
            Self::empty(disk, inner);
            disk.happen(Event::Unlink { at: (node, name) });
        }
    }
}

impl Device for SimulatedDisk {
    fn open(&self, name: &str, mode: Mode) -> Result<Arc<dyn File>> {
        take_time(&self.disk, Operation::Open);
        let mut disk = self.disk.lock();
        let node = self.open_in(&mut disk, name, mode)?;
        Ok(Arc::new(self.handle(&mut disk, node, name, mode)))
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue>> {
        Ok(Box::new(SimulatedQueue::new(self.disk.clone(), depth)))
    }

    fn create_dir(&self, name: &str) -> Result<()> {
        check_name(name)?;
        take_time(&self.disk, Operation::Metadata);
        let mut disk = self.disk.lock();
        let ends = name.match_indices('/').map(|(end, _)| end).chain([name.len()]);
        let dirs: Vec<&str> = ends.map(|end| &name[..end]).filter(|dir| !dir.is_empty()).collect();
        disk.alive(Operation::Metadata, name)?;
        let mut missing = Vec::new();
        for dir in dirs {
            match disk.state.find(self.root, dir)? {
                Some(Found::Dir(_)) => {}
                Some(Found::File(_)) => return Err(taken(name)),
                None => missing.push(dir),
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let step = disk.metadata(name, [1, u64::from(self.root), 0])?;
        for dir in missing {
            let at = disk.state.place(self.root, dir)?;
            disk.happen(Event::Create { at, is_dir: true });
        }
        step.end(Operation::Metadata, name)
    }

    fn list(&self, dir: &str) -> Result<Vec<Entry>> {
        let disk = self.disk.lock();
        disk.alive(Operation::Metadata, dir)?;
        let node = disk.state.find_dir(self.root, dir)?;
        let names = disk.state.dir(node).map(|dir| &dir.current).into_iter().flatten();
        let is_dir = |node| disk.state.dir(node).is_some();
        Ok(names.map(|(name, &node)| Entry { name: name.clone(), is_dir: is_dir(node) }).collect())
    }

    fn exists(&self, name: &str) -> Result<bool> {
        let disk = self.disk.lock();
        disk.alive(Operation::Metadata, name)?;
        Ok(disk.state.find(self.root, name)?.is_some())
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_below_root(from)?;
        check_below_root(to)?;
        take_time(&self.disk, Operation::Metadata);
        let mut disk = self.disk.lock();
        disk.alive(Operation::Metadata, from)?;
        let moved = disk.state.find(self.root, from)?.ok_or_else(|| not_found(from))?;
        let target = disk.state.find(self.root, to)?;
        let (from_place, to_place) =
            (disk.state.place(self.root, from)?, disk.state.place(self.root, to)?);
        match (moved, target) {
            _ if from == to => return Ok(()),
            (_, Some(Found::Dir(_))) => return Err(failed(Operation::Metadata, to, Errno::ISDIR)),
            (Found::Dir(_), Some(Found::File(_))) => return Err(taken(to)),
            (Found::Dir(node), None) if disk.state.is_within(node, to_place.0) => {
                return Err(failed(Operation::Metadata, to, Errno::INVAL));
            }
            _ => {}
        }
        let step = disk.metadata(from, [2, u64::from(from_place.0), u64::from(to_place.0)])?;
        disk.happen(Event::Rename { from: from_place, to: to_place });
        step.end(Operation::Metadata, from)
    }

    fn link(&self, from: &str, to: &str) -> Result<()> {
        check_below_root(from)?;
        take_time(&self.disk, Operation::Metadata);
        let mut disk = self.disk.lock();
        disk.alive(Operation::Metadata, from)?;
        let at = disk.state.place(self.root, to)?;
        let node = disk.state.find_file(self.root, from)?;
        if disk.state.find(self.root, to)?.is_some() {
            return Err(taken(to));
        }
        let step = disk.metadata(to, [3, u64::from(node), u64::from(at.0)])?;
        disk.happen(Event::Link { node, at });
        step.end(Operation::Metadata, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        take_time(&self.disk, Operation::Metadata);
        let mut disk = self.disk.lock();
        disk.alive(Operation::Metadata, name)?;
        let at = disk.state.place(self.root, name)?;
        disk.state.find_file(self.root, name)?;
        let step = disk.metadata(name, [4, u64::from(at.0), 0])?;
        disk.happen(Event::Unlink { at });
        step.end(Operation::Metadata, name)
    }

    fn remove_dir(&self, name: &str) -> Result<()> {
        check_below_root(name)?;
        take_time(&self.disk, Operation::Metadata);
        let mut disk = self.disk.lock();
        disk.alive(Operation::Metadata, name)?;
        let node = match disk.state.find_dir(self.root, name) {
            Err(Error::NotFound { .. }) => return Ok(()),
            found => found?,
        };
        let at = disk.state.place(self.root, name)?;
        let step = disk.metadata(name, [5, u64::from(node), 0])?;
        Self::empty(&mut disk, node);
        disk.happen(Event::Unlink { at });
        step.end(Operation::Metadata, name)
    }

    fn sync_dir(&self, dir: &str) -> Result<()> {
        take_time(&self.disk, Operation::Sync);
        let mut disk = self.disk.lock();
        disk.alive(Operation::Sync, dir)?;
        let node = disk.state.find_dir(self.root, dir)?;
        self.accounting.synced();
        disk.sync_dir(node, dir)
    }

    fn lock(&self, name: &str) -> Result<Arc<dyn File>> {
        let mut disk = self.disk.lock();
        let node = self.open_in(&mut disk, name, Mode::Create)?;
        if !disk.locks.insert(node) {
            return Err(Error::Locked { name: name.to_owned() });
        }
        Ok(Arc::new(self.handle(&mut disk, node, name, Mode::Create).holding_lock()))
    }

    fn space(&self) -> Result<Space> {
        let used = self.disk.lock().stored_bytes();
        Ok(Space { total: SPACE_BYTES, free: SPACE_BYTES.saturating_sub(used) })
    }

    fn accounting(&self) -> &Accounting {
        &self.accounting
    }

    fn kind(&self) -> &'static str {
        "simulated"
    }

    fn subdevice(&self, dir: &str) -> Result<Arc<dyn Device>> {
        self.create_dir(dir)?;
        let root = self.disk.lock().state.find_dir(self.root, dir)?;
        let (disk, accounting) = (self.disk.clone(), self.accounting.clone());
        Ok(Arc::new(Self { disk, root, alignment: self.alignment, accounting }))
    }
}
