//! Reading: a snapshot of the tree, then the device, and no lock in between.

use std::ops::Range;
use std::sync::Arc;

use device::Buffer;
use sync::mutant;
use sync::thread::at_device;

use super::{Error, FlexSpace, OpenBuffer, Shared};
use crate::data::SegmentBuffer;
use crate::planted::Planted;
use crate::{FlexSnapshot, Mapping};

/// A state of a space that never changes. Any thread may keep it for any time: it blocks no thread,
/// but segments that it can reach are not used again while it lives.
///
/// Cheap to clone. The next change of the space copies a path of nodes for it, so readers of much
/// share one.
#[derive(Debug)]
pub struct Snapshot {
    tree: FlexSnapshot,
    open: Option<OpenBuffer>,
    /// The number of the state.
    number: u64,
    shared: Arc<Shared>,
}

/// The extent at an offset, and the beginning of its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtentBytes {
    /// The offset at which the extent begins.
    pub offset: u64,
    /// How long it is.
    pub length: u32,
    /// The tag of its first byte.
    pub tag: u16,
    /// Its first bytes: the requested number, or all if there are fewer.
    pub bytes: Vec<u8>,
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.shared.pins.unpin(self.number);
    }
}

impl Clone for Snapshot {
    fn clone(&self) -> Self {
        self.shared.pins.pin(self.number);
        let (tree, open) = (self.tree.clone(), self.open.clone());
        Self { tree, open, number: self.number, shared: self.shared.clone() }
    }
}

impl Shared {
    pub(super) fn snapshot(self: &Arc<Self>) -> Snapshot {
        let state = self.state.read();
        let number = state.number;
        let (tree, open) = (state.tree.snapshot(), state.open.clone());
        let held = mutant!(Planted::PinnedLate, true, false).then_some(state);
        self.pins.pin(number);
        drop(held);
        Snapshot { tree, open, number, shared: self.clone() }
    }
}

impl FlexSpace {
    /// Returns the present state.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn snapshot(&self) -> Result<Snapshot, Error> {
        self.shared.health.check_open()?;
        Ok(self.shared.snapshot())
    }

    /// Returns how many bytes there are.
    pub fn len(&self) -> u64 {
        self.shared.state.read().tree.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `into` with the bytes at `offset`: [`Snapshot::pread`] of the present state.
    ///
    /// # Errors
    /// As [`Snapshot::pread`].
    pub fn pread(&self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        self.snapshot()?.pread(offset, into)
    }

    /// Returns the `length` bytes at `offset`.
    ///
    /// # Errors
    /// As [`Snapshot::pread`].
    pub fn read(&self, offset: u64, length: u64) -> Result<Vec<u8>, Error> {
        self.snapshot()?.read(offset, length)
    }

    /// Returns the extent with the byte at `offset`: [`Snapshot::read_extent`] of the present
    /// state.
    ///
    /// # Errors
    /// As [`Snapshot::pread`].
    pub fn read_extent(&self, offset: u64, bytes_max: usize) -> Result<ExtentBytes, Error> {
        self.snapshot()?.read_extent(offset, bytes_max)
    }
}

impl Snapshot {
    /// Returns how many bytes there are.
    pub fn len(&self) -> u64 {
        self.tree.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }

    /// Fills `into` with the bytes at `offset`. Costs one read of the device for each extent; bytes
    /// in the segment that is being filled cost none.
    ///
    /// # Errors
    /// [`Error::BehindTheEnd`], [`Error::Corruption`] if a byte is not the one that was written,
    /// [`Error::Device`], [`Error::Closed`].
    pub fn pread(&self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        self.shared.health.check_open()?;
        let end = offset.saturating_add(into.len() as u64);
        if end > self.len() {
            return Err(Error::BehindTheEnd { end, len: self.len() });
        }
        let mut scratch = None;
        let mut rest = into;
        for piece in self.tree.query(offset..end) {
            let (head, tail) = rest.split_at_mut(piece.length as usize);
            self.read_piece(&piece, head, &mut scratch)?;
            rest = tail;
        }
        Ok(())
    }

    /// Returns the `length` bytes at `offset`.
    ///
    /// # Errors
    /// As [`Self::pread`].
    pub fn read(&self, offset: u64, length: u64) -> Result<Vec<u8>, Error> {
        let end = offset.saturating_add(length);
        if end > self.len() {
            return Err(Error::BehindTheEnd { end, len: self.len() });
        }
        let mut bytes = vec![0; length as usize];
        self.pread(offset, &mut bytes)?;
        Ok(bytes)
    }

    /// Returns the extent with the byte at `offset`, and at most `bytes_max` of its bytes, from its
    /// beginning (Flex 5.4, `read_extent`). An extent begins where a write began, if each write had
    /// at most [`Stats::extent_bytes_max`](super::Stats::extent_bytes_max) bytes, or where removals
    /// cut off its head.
    ///
    /// # Errors
    /// As [`Self::pread`].
    pub fn read_extent(&self, offset: u64, bytes_max: usize) -> Result<ExtentBytes, Error> {
        self.shared.health.check_open()?;
        let len = self.len();
        let end = offset.saturating_add(1);
        let found = self.tree.get(offset).ok_or(Error::BehindTheEnd { end, len })?;
        let mut bytes = vec![0; bytes_max.min(found.length as usize)];
        self.read_piece(&found, &mut bytes, &mut None)?;
        let (length, tag) = (found.length, found.extent.tag());
        Ok(ExtentBytes { offset: found.offset, length, tag, bytes })
    }

    /// Returns the extents of a range, in order, with their tags: the first and the last are cut to
    /// it.
    pub fn extents(&self, range: Range<u64>) -> impl Iterator<Item = Mapping> {
        self.tree.query(range)
    }

    /// Returns the bytes of the segment that was being filled, if `segment` is it.
    pub(super) fn open_buffer(&self, segment: u32) -> Option<&SegmentBuffer> {
        self.open.as_ref().filter(|open| open.segment == segment).map(|open| &*open.buffer)
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(super) fn tree(&self) -> &FlexSnapshot {
        &self.tree
    }

    /// Reads the first bytes of one piece.
    pub(super) fn read_piece(
        &self,
        piece: &Mapping,
        into: &mut [u8],
        scratch: &mut Option<Buffer>,
    ) -> Result<(), Error> {
        let Some(address) = piece.extent.address() else {
            into.fill(0);
            return Ok(());
        };
        let (segment, inside) = self.shared.data.geometry.place(address);
        match self.open_buffer(segment) {
            Some(open) => open.read(inside as usize, into),
            None => {
                at_device();
                self.shared.data.read(address, into, scratch).map_err(|error| {
                    // The next opening's life may fill segments that only this snapshot knew.
                    self.shared.health.check_open().err().unwrap_or(error)
                })?;
            }
        }
        Ok(())
    }
}
