//! A space that is read in place without being opened, to verify it.

use std::ops::Range;
use std::sync::Arc;

use codec::Corruption;
use device::{Buffer, Device, File};
use engine::Superblock;

use super::Error;
use super::open::LOCK;
use super::recover::{self, Committed, SUPERBLOCK, SUPERBLOCK_KIND};
use crate::data::DataFile;
use crate::{FlexSnapshot, Mapping};

/// The space in a device as the next opening would find it. Nothing is changed. While this lives,
/// no other caller can open the space.
#[derive(Debug)]
pub struct Offline {
    life: u64,
    tree: FlexSnapshot,
    data: DataFile,
    _lock: Arc<dyn File>,
}

impl Offline {
    /// Reads the superblock, the tree and the logs of the space in `device`, and verifies them.
    ///
    /// # Errors
    /// [`device::Error::NotFound`] if there is none, [`device::Error::Locked`] if it is open,
    /// [`Error::Corruption`], [`Error::Device`].
    pub fn open(device: &dyn Device) -> Result<Self, Error> {
        if !device.exists(SUPERBLOCK)? {
            return Err(device::Error::NotFound { name: SUPERBLOCK.to_owned() }.into());
        }
        // Next to an open space files are made and removed.
        let lock = device.lock(LOCK)?;
        let superblock = Superblock::open(device, SUPERBLOCK, SUPERBLOCK_KIND)?;
        let committed = Committed::decode(superblock.payload());
        let committed = committed.map_err(|damage| damage.at(SUPERBLOCK, 0))?;
        let found = recover::recover(device, &committed)?;
        let wrong = |what: String| Error::from(Corruption::new(what, 0).at(SUPERBLOCK, 0));
        found.tree.check().map_err(wrong)?;
        let data = DataFile::new(found.data, found.geometry, found.generations);
        Ok(Self { life: committed.life, tree: found.tree.snapshot(), data, _lock: lock })
    }

    /// Returns the life that it had last: see [`super::FlexSpace::life`].
    pub fn life(&self) -> u64 {
        self.life
    }

    /// Returns how many bytes there are.
    pub fn len(&self) -> u64 {
        self.tree.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }

    /// Returns the `length` bytes at `offset`. Costs a read for each extent.
    ///
    /// # Errors
    /// [`Error::BehindTheEnd`], [`Error::Corruption`] if a byte is not the one that was written,
    /// [`Error::Device`].
    pub fn read(&self, offset: u64, length: u64) -> Result<Vec<u8>, Error> {
        let end = offset.saturating_add(length);
        if end > self.len() {
            return Err(Error::BehindTheEnd { end, len: self.len() });
        }
        let mut bytes = vec![0; length as usize];
        let mut scratch: Option<Buffer> = None;
        let mut rest = &mut bytes[..];
        for piece in self.tree.query(offset..end) {
            let (head, tail) = rest.split_at_mut(piece.length as usize);
            self.read_piece(&piece, head, &mut scratch)?;
            rest = tail;
        }
        Ok(bytes)
    }

    /// Reads the first bytes of one piece.
    pub(super) fn read_piece(
        &self,
        piece: &Mapping,
        into: &mut [u8],
        scratch: &mut Option<Buffer>,
    ) -> Result<(), Error> {
        match piece.extent.address() {
            Some(address) => self.data.read(address, into, scratch),
            None => {
                into.fill(0);
                Ok(())
            }
        }
    }

    /// Returns the extents of a range, in order, with their tags: the first and the last are cut to
    /// it.
    pub fn extents(&self, range: Range<u64>) -> impl Iterator<Item = Mapping> {
        self.tree.query(range)
    }
}
