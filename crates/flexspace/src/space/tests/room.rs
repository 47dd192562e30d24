//! A device with so much room and no more, which stays full until something is given back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use device::{Accounting, Device, Entry, Error, File, Mode, Queue, Result, Space, SyncKind};
use sync::Mutex;

/// What room is given in.
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
}

/// A device in memory with little room.
#[derive(Debug)]
pub(super) struct RoomDevice {
    inner: Arc<dyn Device>,
    room: Arc<Mutex<Room>>,
}

impl RoomDevice {
    pub(super) fn new(bytes: u64) -> Arc<Self> {
        let blocks = (bytes / BLOCK_BYTES) as usize;
        let room = Arc::new(Mutex::new(Room { blocks, taken: BTreeMap::new() }));
        Arc::new(Self { inner: device::memory(), room })
    }

    /// Others take what is left.
    pub(super) fn fill(&self) {
        let mut room = self.room.lock();
        room.blocks = room.used();
    }

    /// How many bytes take room.
    pub(super) fn used_bytes(&self) -> u64 {
        self.room.lock().used() as u64 * BLOCK_BYTES
    }

    /// Others give so many bytes back.
    pub(super) fn grow(&self, bytes: u64) {
        self.room.lock().blocks += (bytes / BLOCK_BYTES) as usize;
    }

    fn wrap(&self, inner: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(RoomFile { inner, room: self.room.clone() })
    }
}

impl Device for RoomDevice {
    fn open(&self, name: &str, mode: Mode) -> Result<Arc<dyn File>> {
        Ok(self.wrap(self.inner.open(name, mode)?))
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue>> {
        self.inner.queue(depth)
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
        let mut room = self.room.lock();
        let moved = room.taken.remove(from).unwrap_or_default();
        room.taken.insert(to.to_owned(), moved);
        Ok(())
    }

    fn link(&self, from: &str, to: &str) -> Result<()> {
        self.inner.link(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.inner.remove(name)?;
        self.room.lock().taken.remove(name);
        Ok(())
    }

    fn remove_dir(&self, name: &str) -> Result<()> {
        self.inner.remove_dir(name)
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
        "little room"
    }

    fn subdevice(&self, dir: &str) -> Result<Arc<dyn Device>> {
        self.inner.subdevice(dir)
    }
}

#[derive(Debug)]
struct RoomFile {
    inner: Arc<dyn File>,
    room: Arc<Mutex<Room>>,
}

impl File for RoomFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.inner.read_at(offset, into)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.room.lock().take(self.name(), offset, bytes.len() as u64)?;
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
        if let Some(blocks) = room.taken.get_mut(self.name()) {
            blocks.retain(|block| *block < len.div_ceil(BLOCK_BYTES));
        }
        Ok(())
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.room.lock().take(self.name(), offset, len)?;
        self.inner.allocate(offset, len)
    }

    fn punch(&self, offset: u64, len: u64) -> Result<()> {
        self.inner.punch(offset, len)?;
        let whole = offset.div_ceil(BLOCK_BYTES)..(offset + len) / BLOCK_BYTES;
        if let Some(blocks) = self.room.lock().taken.get_mut(self.name()) {
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
