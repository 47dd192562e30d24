//! A segment that is being filled, and how it gets to the file.
//!
//! # Invariants
//! - W1. A block is written at most once: it is full, or closed by [`SegmentWriter::close_block`],
//!   before it is written, and nothing is put into it afterwards.
//! - W2. Blocks are in the file once [`SegmentWriter::write_new`] has returned. Writes of full
//!   blocks may be in flight before that. Until then readers find all bytes in the buffer.

use std::sync::Arc;

use device::{Buffer, Device, OverlappedWrites};

use super::format::{self, BLOCK_BYTES, BLOCK_PAYLOAD_BYTES};
use super::{DataFile, SegmentBuffer};

/// Most bytes of one write.
const WRITE_BYTES_MAX: usize = 256 << 10;
/// Writes of a segment, at least.
const WRITES_MIN: usize = 4;
/// Writes that are in flight, at most.
const IN_FLIGHT_MAX: usize = 4;
/// Parts of a segment (one in this many) that are in flight, at most.
const IN_FLIGHT_PARTS: usize = 2;
/// Bytes of a write from which on others begin while it is in flight. Smaller ones block, since a
/// queue for them would cost more.
const OVERLAPPED_BYTES_MIN: usize = if cfg!(test) { BLOCK_BYTES } else { 64 << 10 };

/// The writes of segments that one thread at a time fills.
#[derive(Debug)]
pub(crate) struct SegmentWrites {
    device: Arc<dyn Device>,
    /// Made for the first write that does not block, and dropped when the writes end.
    overlapped: Option<OverlappedWrites>,
    /// Memory for writes that block.
    scratch: Option<Buffer>,
}

impl SegmentWrites {
    pub(crate) fn new(device: Arc<dyn Device>) -> Self {
        Self { device, overlapped: None, scratch: None }
    }

    /// Waits until no write is in flight.
    pub(crate) fn finish(&mut self) -> Result<(), device::Error> {
        self.overlapped.as_mut().map_or(Ok(()), |writes| writes.finish(&mut |_| {}))
    }

    /// The same. Also frees the descriptor and the buffers of writes that do not block.
    pub(crate) fn end(&mut self) -> Result<(), device::Error> {
        let finished = self.finish();
        self.overlapped = None;
        finished
    }

    /// Returns the writes that do not block. None if they are too small, or if the device can make
    /// no queue for them.
    fn overlapped(&mut self, data: &DataFile) -> Option<&mut OverlappedWrites> {
        if blocks_of_write(data) * BLOCK_BYTES < OVERLAPPED_BYTES_MIN {
            return None;
        }
        if self.overlapped.is_none() {
            let bytes_max = data.geometry.segment_bytes() as usize / IN_FLIGHT_PARTS;
            self.overlapped = OverlappedWrites::new(&*self.device, IN_FLIGHT_MAX, bytes_max).ok();
        }
        self.overlapped.as_mut()
    }
}

/// A segment between its first byte and its last.
#[derive(Debug)]
pub(crate) struct SegmentWriter {
    pub(crate) segment: u32,
    generation: u64,
    pub(crate) buffer: Arc<SegmentBuffer>,
    /// Payload bytes that are taken.
    filled: usize,
    /// Blocks whose writes were begun.
    begun: usize,
}

impl SegmentWriter {
    pub(crate) fn new(segment: u32, generation: u64, buffer: Arc<SegmentBuffer>) -> Self {
        Self { segment, generation, buffer, filled: 0, begun: 0 }
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

    /// Begins to write full blocks if there are enough for a write.
    pub(crate) fn begin_full(
        &mut self,
        data: &DataFile,
        writes: &mut SegmentWrites,
    ) -> Result<(), device::Error> {
        let count = blocks_of_write(data);
        while self.filled / BLOCK_PAYLOAD_BYTES - self.begun >= count {
            match writes.overlapped(data) {
                Some(overlapped) => self.begin(data, count, overlapped)?,
                None => self.write(data, count, &mut writes.scratch)?,
            }
        }
        Ok(())
    }

    /// Writes the blocks that are not in the file; the last one is closed. Not durable yet.
    pub(crate) fn write_new(
        &mut self,
        data: &DataFile,
        writes: &mut SegmentWrites,
    ) -> Result<(), device::Error> {
        self.begin_full(data, writes)?;
        self.close_block();
        let left = self.filled / BLOCK_PAYLOAD_BYTES - self.begun;
        match &mut writes.overlapped {
            Some(overlapped) if left > 0 && overlapped.in_flight() > 0 => {
                self.begin(data, left, overlapped)?;
            }
            _ if left > 0 => self.write(data, left, &mut writes.scratch)?,
            _ => {}
        }
        writes.finish()
    }

    fn begin(
        &mut self,
        data: &DataFile,
        count: usize,
        writes: &mut OverlappedWrites,
    ) -> Result<(), device::Error> {
        let mut buffer = writes.buffer(count * BLOCK_BYTES, &mut |_| {})?;
        let at = self.seal_next(data, &mut buffer);
        writes.begin(at, (&data.file, at), buffer, &mut |_| {})
    }

    fn write(
        &mut self,
        data: &DataFile,
        count: usize,
        scratch: &mut Option<Buffer>,
    ) -> Result<(), device::Error> {
        let bytes = count * BLOCK_BYTES;
        if scratch.as_ref().is_none_or(|buffer| buffer.len() < bytes) {
            *scratch = Some(Buffer::zeroed(bytes));
        }
        let blocks = &mut scratch.as_mut().expect("it was made just now")[..bytes];
        let at = self.seal_next(data, blocks);
        data.file.write_at(at, blocks)
    }

    /// Fills `blocks` with the next ones that are written, and returns their offset in the file.
    fn seal_next(&mut self, data: &DataFile, blocks: &mut [u8]) -> u64 {
        let at = data.geometry.file_offset(self.segment, self.begun as u32);
        for block in blocks.chunks_exact_mut(BLOCK_BYTES) {
            let payload = &mut block[..BLOCK_PAYLOAD_BYTES];
            self.buffer.read(self.begun * BLOCK_PAYLOAD_BYTES, payload);
            format::seal_block(block, self.segment, self.begun as u32, self.generation);
            self.begun += 1;
        }
        at
    }
}

/// Returns the blocks of one write: the device may work on several of a segment.
fn blocks_of_write(data: &DataFile) -> usize {
    let segment_bytes = data.geometry.segment_bytes() as usize;
    ((segment_bytes / WRITES_MIN).min(WRITE_BYTES_MAX) / BLOCK_BYTES).max(1)
}
