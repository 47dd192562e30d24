//! The data file: segments of blocks that verify themselves, and their addresses.
//!
//! A segment is written from its beginning to its end, a block at most once in a life of the
//! segment, and then as a whole never again until nothing refers to it
//! (`docs/design/flexspace.md`).

mod buffer;
pub(crate) mod format;
mod geometry;
mod segments;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
mod writer;

use std::sync::Arc;

use codec::Corruption;
use device::{Buffer, File};
use sync::RwLock;

use crate::space::Error;
pub(crate) use buffer::SegmentBuffer;
use format::{BLOCK_BYTES, BLOCK_PAYLOAD_BYTES};
pub(crate) use geometry::Geometry;
pub(crate) use segments::{SegmentView, Segments};
pub(crate) use writer::{SegmentWriter, SegmentWrites};

/// The file's name.
pub(crate) const DATA: &str = "data";

/// Whole blocks of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) offset: u64,
    pub(crate) bytes: usize,
}

/// The file, with all that is needed to verify its blocks.
#[derive(Debug)]
pub(crate) struct DataFile {
    pub(crate) file: Arc<dyn File>,
    pub(crate) geometry: Geometry,
    /// The generation that each segment's blocks carry. Locked for moments, never over I/O.
    generations: RwLock<Vec<u64>>,
}

impl DataFile {
    pub(crate) fn new(file: Arc<dyn File>, geometry: Geometry, generations: Vec<u64>) -> Self {
        Self { file, geometry, generations: RwLock::new(generations) }
    }

    /// Returns the generation of a segment; 0 is none.
    pub(crate) fn generation(&self, segment: u32) -> u64 {
        self.generations.read().get(segment as usize).copied().unwrap_or(0)
    }

    pub(crate) fn set_generation(&self, segment: u32, generation: u64) {
        let mut generations = self.generations.write();
        if generations.len() <= segment as usize {
            generations.resize(segment as usize + 1, 0);
        }
        generations[segment as usize] = generation;
    }

    /// Makes sure that the segment has room on the device.
    pub(crate) fn allocate(&self, segment: u32) -> Result<(), device::Error> {
        let bytes = u64::from(self.geometry.segment_bytes());
        self.file.allocate(u64::from(segment) * bytes, bytes)
    }

    /// Gives the segment's room back to the device.
    pub(crate) fn punch(&self, segment: u32) -> Result<(), device::Error> {
        let bytes = u64::from(self.geometry.segment_bytes());
        self.file.punch(u64::from(segment) * bytes, bytes)
    }

    /// Reads the bytes at `address` into `into`; `scratch` is memory for the blocks. All of them
    /// are in one segment, and were written. One read of the device.
    ///
    /// # Errors
    /// [`Error::Corruption`] if a block is not the one that was written to that place.
    pub(crate) fn read(
        &self,
        address: u64,
        into: &mut [u8],
        scratch: &mut Option<Buffer>,
    ) -> Result<(), Error> {
        let Some(span) = self.span(address, into.len()) else { return Ok(()) };
        if scratch.as_ref().is_none_or(|buffer| buffer.len() < span.bytes) {
            *scratch = Some(Buffer::zeroed(span.bytes));
        }
        let blocks = &mut scratch.as_mut().expect("it was made just now")[..span.bytes];
        let from = span.offset;
        self.file.read_at(from, blocks).map_err(|error| unexpected_end(error, from))?;
        self.take(address, blocks, into)
    }

    /// Returns the blocks that have `length` bytes at `address`; none for no bytes.
    pub(crate) fn span(&self, address: u64, length: usize) -> Option<Span> {
        let last = length.checked_sub(1)?;
        let (segment, inside) = self.geometry.place(address);
        let first_block = inside as usize / BLOCK_PAYLOAD_BYTES;
        let end_block = (inside as usize + last) / BLOCK_PAYLOAD_BYTES + 1;
        let offset = self.geometry.file_offset(segment, first_block as u32);
        Some(Span { offset, bytes: (end_block - first_block) * BLOCK_BYTES })
    }

    /// Fills `into` with the bytes at `address` out of the blocks of its span, and verifies these.
    ///
    /// # Errors
    /// [`Error::Corruption`] if a block is not the one that was written to that place.
    pub(crate) fn take(&self, address: u64, blocks: &[u8], into: &mut [u8]) -> Result<(), Error> {
        let (segment, inside) = self.geometry.place(address);
        let first_block = inside as usize / BLOCK_PAYLOAD_BYTES;
        let generation = self.generation(segment);
        let mut skip = inside as usize % BLOCK_PAYLOAD_BYTES;
        let mut rest = into;
        for (index, block) in blocks.chunks_exact(BLOCK_BYTES).enumerate() {
            let number = (first_block + index) as u32;
            let payload = format::decode_block(block, segment, number, generation)
                .map_err(|damage| damage.at(DATA, self.geometry.file_offset(segment, number)))?;
            let count = rest.len().min(BLOCK_PAYLOAD_BYTES - skip);
            let (head, tail) = rest.split_at_mut(count);
            head.copy_from_slice(&payload[skip..skip + count]);
            (rest, skip) = (tail, 0);
        }
        Ok(())
    }
}

/// A file that ends before a block that the tree knows is damaged.
pub(crate) fn unexpected_end(error: device::Error, offset: u64) -> Error {
    match error {
        device::Error::UnexpectedEnd { name, .. } => {
            Corruption::new("the file ends before a block that is in use", offset)
                .at(&name, 0)
                .into()
        }
        other => other.into(),
    }
}
