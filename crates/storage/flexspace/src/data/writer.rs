//! A segment that is being filled, and how it gets to the file.
//!
//! # Invariants
//! - W1. A block is written at most once: it is full, or closed by [`SegmentWriter::close_block`],
//!   before it is written, and nothing is put into it afterwards.

use std::sync::Arc;

use device::Buffer;

use super::format::{self, BLOCK_BYTES, BLOCK_PAYLOAD_BYTES};
use super::{DataFile, SegmentBuffer};

/// Most bytes of one write.
const WRITE_BYTES_MAX: usize = 256 << 10;

/// A segment between its first byte and its last.
#[derive(Debug)]
pub(crate) struct SegmentWriter {
    pub(crate) segment: u32,
    generation: u64,
    pub(crate) buffer: Arc<SegmentBuffer>,
    /// Payload bytes that are taken.
    filled: usize,
    /// Blocks that are in the file.
    written: usize,
}

impl SegmentWriter {
    pub(crate) fn new(segment: u32, generation: u64, buffer: Arc<SegmentBuffer>) -> Self {
        Self { segment, generation, buffer, filled: 0, written: 0 }
    }

    /// Returns whether `length` bytes have room.
    pub(crate) fn has_room(&self, data: &DataFile, length: usize) -> bool {
        length <= self.room_bytes(data)
    }

    /// For how many bytes there is room.
    pub(crate) fn room_bytes(&self, data: &DataFile) -> usize {
        data.geometry.payload_bytes() as usize - self.filled
    }

    /// Takes bytes for which there is room, and gives their address.
    pub(crate) fn push(&mut self, data: &DataFile, bytes: &[u8]) -> u64 {
        debug_assert!(self.has_room(data, bytes.len()), "the caller has looked");
        self.buffer.write(self.filled, bytes);
        let address = data.geometry.address(self.segment, self.filled as u32);
        self.filled += bytes.len();
        address
    }

    /// Lets the next byte begin a block, so that all that was put may be written.
    pub(crate) fn close_block(&mut self) {
        let end = self.filled.next_multiple_of(BLOCK_PAYLOAD_BYTES);
        // The rest of the block is written as zeros and never read; no older bytes are written.
        self.buffer.write(self.filled, &[0; BLOCK_PAYLOAD_BYTES][..end - self.filled]);
        self.filled = end;
    }

    /// Writes the blocks that are not in the file; the last one is closed. Not durable yet.
    pub(crate) fn write_new(
        &mut self,
        data: &DataFile,
        scratch: &mut Option<Buffer>,
    ) -> Result<(), device::Error> {
        self.close_block();
        let end = self.filled / BLOCK_PAYLOAD_BYTES;
        while self.written < end {
            let count = (end - self.written).min(WRITE_BYTES_MAX / BLOCK_BYTES);
            let bytes = count * BLOCK_BYTES;
            if scratch.as_ref().is_none_or(|buffer| buffer.len() < bytes) {
                *scratch = Some(Buffer::zeroed(bytes));
            }
            let blocks = &mut scratch.as_mut().expect("it was made just now")[..bytes];
            for (index, block) in blocks.chunks_exact_mut(BLOCK_BYTES).enumerate() {
                let number = self.written + index;
                self.buffer.read(number * BLOCK_PAYLOAD_BYTES, &mut block[..BLOCK_PAYLOAD_BYTES]);
                format::seal_block(block, self.segment, number as u32, self.generation);
            }
            let at = data.geometry.file_offset(self.segment, self.written as u32);
            data.file.write_at(at, blocks)?;
            self.written += count;
        }
        Ok(())
    }
}
