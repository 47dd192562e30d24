//! A device over another one with a limited room, which stays full until something is released.
//!
//! Room is given in blocks of 4 KiB, to a file by its name: a write or an allocation of new blocks
//! takes some, and an overwrite takes none. A write for which there is too little room takes the
//! room that there is, as on a file system, and nothing of it is done.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sync::locks::Mutex;

use crate::Device;
use crate::accounting::Accounting;
use crate::blocking_queue::BlockingQueue;
use crate::error::{Error, Result};
use crate::file::{Entry, File, Mode, Space, SyncKind};
use crate::name::join;
use crate::queue::Queue;

/// Bytes of a unit of room.
const BLOCK_BYTES: u64 = 4096;

/// Which blocks of which file take room.
#[derive(Debug)]
struct Room {
    blocks: usize,
    taken: BTreeMap<String, BTreeSet<u64>>,
}

impl Room {
    fn used(&self) -> usize {
        self.taken.values().map(BTreeSet::len).sum()
    }

    /// Takes room for a range of a file: for all of it, or as a file system may, for its beginning.
    fn take(&mut self, name: &str, offset: u64, bytes: u64) -> Result<()> {
        let mut free = self.blocks.saturating_sub(self.used());
        let of_file = self.taken.entry(name.to_owned()).or_default();
        for block in offset / BLOCK_BYTES..(offset + bytes).div_ceil(BLOCK_BYTES) {
            if of_file.contains(&block) {
                continue;
            }
            if free == 0 {
                return Err(Error::NoSpace { name: name.to_owned() });
            }
            free -= 1;
            of_file.insert(block);
        }
        Ok(())
    }

    /// Moves the blocks of a name and of all names below it.
    fn rename(&mut self, from: &str, to: &str) {
        let below = format!("{from}/");
        let moves = |name: &&String| *name == from || name.starts_with(&below);
        let moved: Vec<String> = self.taken.keys().filter(moves).cloned().collect();
        for name in moved {
            let blocks = self.taken.remove(&name).unwrap_or_default();
            let rest = name.strip_prefix(from).unwrap_or_default();
            self.taken.insert(format!("{to}{rest}"), blocks);
        }
    }
}

/// A device with little room, or a directory of one.
#[derive(Debug)]
pub struct RoomDevice {
    inner: Arc<dyn Device>,
    room: Arc<Mutex<Room>>,
    /// Its name in the device on which the room is counted.
    dir: String,
}

impl RoomDevice {
    /// Returns a wrapper of `inner` with `bytes` of room in all, part of which its present files
    /// take.
    ///
    /// # Errors
    /// The errors of `inner`, when its files are opened and listed.
    pub fn new(inner: Arc<dyn Device>, bytes: u64) -> Result<Arc<Self>> {
        let mut taken = BTreeMap::new();
        let mut dirs = vec![String::new()];
        while let Some(dir) = dirs.pop() {
            for Entry { name, is_dir } in inner.list(&dir)? {
                let name = join(&dir, &name);
                if is_dir {
                    dirs.push(name);
                } else {
                    let len = inner.open(&name, Mode::Read)?.len()?;
                    taken.insert(name, (0..len.div_ceil(BLOCK_BYTES)).collect());
                }
            }
        }
        let room = Room { blocks: (bytes / BLOCK_BYTES) as usize, taken };
        Ok(Arc::new(Self { inner, room: Arc::new(Mutex::new(room)), dir: String::new() }))
    }

    /// Takes the rest of the room, as if other users of the device took it.
    pub fn fill(&self) {
        let mut room = self.room.lock();
        room.blocks = room.used();
    }

    /// How many bytes take room.
    pub fn used_bytes(&self) -> u64 {
        self.room.lock().used() as u64 * BLOCK_BYTES
    }

    /// Adds `bytes` bytes of room, as if other users of the device released them.
    pub fn grow(&self, bytes: u64) {
        self.room.lock().blocks += (bytes / BLOCK_BYTES) as usize;
    }

    fn name(&self, name: &str) -> String {
        join(&self.dir, name)
    }

    fn wrap(&self, inner: Arc<dyn File>, name: &str) -> Arc<dyn File> {
        Arc::new(RoomFile { inner, room: Arc::clone(&self.room), name: self.name(name) })
    }
}

impl Device for RoomDevice {
    fn open(&self, name: &str, mode: Mode) -> Result<Arc<dyn File>> {
        Ok(self.wrap(self.inner.open(name, mode)?, name))
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue>> {
        // By the files' own calls, which count the blocks of writes.
        Ok(Box::new(BlockingQueue::new(depth)))
    }

    fn create_dir(&self, name: &str) -> Result<()> {
        self.inner.create_dir(name)
    }

    fn list(&self, dir: &str) -> Result<Vec<Entry>> {
        self.inner.list(dir)
    }

    fn exists(&self, name: &str) -> Result<bool> {
        self.inner.exists(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename(from, to)?;
        self.room.lock().rename(&self.name(from), &self.name(to));
        Ok(())
    }

    fn link(&self, from: &str, to: &str) -> Result<()> {
        self.inner.link(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.inner.remove(name)?;
        self.room.lock().taken.remove(&self.name(name));
        Ok(())
    }

    fn remove_dir(&self, name: &str) -> Result<()> {
        self.inner.remove_dir(name)?;
        let below = format!("{}/", self.name(name));
        self.room.lock().taken.retain(|name, _| !name.starts_with(&below));
        Ok(())
    }

    fn sync_dir(&self, dir: &str) -> Result<()> {
        self.inner.sync_dir(dir)
    }

    fn lock(&self, name: &str) -> Result<Arc<dyn File>> {
        self.inner.lock(name)
    }

    fn space(&self) -> Result<Space> {
        self.inner.space()
    }

    fn accounting(&self) -> &Accounting {
        self.inner.accounting()
    }

    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    fn subdevice(&self, dir: &str) -> Result<Arc<dyn Device>> {
        let (inner, room) = (self.inner.subdevice(dir)?, Arc::clone(&self.room));
        Ok(Arc::new(Self { inner, room, dir: self.name(dir) }))
    }
}

#[derive(Debug)]
struct RoomFile {
    inner: Arc<dyn File>,
    room: Arc<Mutex<Room>>,
    /// Of the device on which the room is counted.
    name: String,
}

impl File for RoomFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.inner.read_at(offset, into)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.room.lock().take(&self.name, offset, bytes.len() as u64)?;
        self.inner.write_at(offset, bytes)
    }

    fn sync(&self, kind: SyncKind) -> Result<()> {
        self.inner.sync(kind)
    }

    fn len(&self) -> Result<u64> {
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.inner.set_len(len)?;
        let mut room = self.room.lock();
        if let Some(blocks) = room.taken.get_mut(&self.name) {
            blocks.retain(|block| *block < len.div_ceil(BLOCK_BYTES));
        }
        Ok(())
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.room.lock().take(&self.name, offset, len)?;
        self.inner.allocate(offset, len)
    }

    fn punch(&self, offset: u64, len: u64) -> Result<()> {
        self.inner.punch(offset, len)?;
        let whole = offset.div_ceil(BLOCK_BYTES)..(offset + len) / BLOCK_BYTES;
        if let Some(blocks) = self.room.lock().taken.get_mut(&self.name) {
            blocks.retain(|block| !whole.contains(block));
        }
        Ok(())
    }

    fn alignment(&self) -> usize {
        self.inner.alignment()
    }

    fn name(&self) -> &str {
        self.inner.name()
    }
}
