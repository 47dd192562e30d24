//! Reads of victims: the blocks around the last read of each victim are kept.
//!
//! The bytes of a segment were mostly written in the order of the space. So a walk in that order
//! visits each segment from its beginning to its end; and many extents are in one block.

use std::collections::BTreeMap;

use device::Buffer;

use crate::data::{DataFile, Span};
use crate::space::Error;

/// Parts of a segment that a window is, and its bounds in bytes.
const WINDOW_PARTS: u32 = 64;
const WINDOW_BYTES: (u32, u32) = (4 << 10, 32 << 10);

/// Blocks of a segment that were read, from an offset of the file on.
#[derive(Debug)]
struct Window {
    offset: u64,
    bytes: usize,
    buffer: Buffer,
}

/// A window for each segment.
#[derive(Debug, Default)]
pub(super) struct Windows(BTreeMap<u32, Window>);

impl Windows {
    /// Reads bytes that are all in one closed segment. At most one read of the device, and none if
    /// they are in the window; only requested blocks are verified.
    pub(super) fn read(
        &mut self,
        data: &DataFile,
        address: u64,
        into: &mut [u8],
    ) -> Result<(), Error> {
        let Some(span) = data.span(address, into.len()) else { return Ok(()) };
        let segment = data.geometry.place(address).0;
        if !self.0.get(&segment).is_some_and(|window| window.has(span)) {
            let Some(window) = Window::at(data, segment, span) else {
                // The file may end behind these blocks; a read of them alone reports the defect.
                return data.read(address, into, &mut None);
            };
            self.0.insert(segment, window);
        }
        let Some(window) = self.0.get(&segment) else { return Ok(()) };
        let begin = (span.offset - window.offset) as usize;
        data.take(address, &window.buffer[begin..begin + span.bytes], into)
    }
}

impl Window {
    /// Returns the blocks of a span, and those behind them, of a segment; none if they cannot be
    /// read.
    fn at(data: &DataFile, segment: u32, span: Span) -> Option<Self> {
        let geometry = data.geometry;
        let (least, most) = WINDOW_BYTES;
        let usual = (geometry.segment_bytes() / WINDOW_PARTS).clamp(least, most) as usize;
        let left = geometry.file_offset(segment, geometry.blocks()) - span.offset;
        let bytes = usual.max(span.bytes).min(left as usize);
        let mut buffer = Buffer::zeroed(bytes);
        data.file.read_at(span.offset, &mut buffer[..bytes]).ok()?;
        Some(Self { offset: span.offset, bytes, buffer })
    }

    fn has(&self, span: Span) -> bool {
        let end = self.offset + self.bytes as u64;
        span.offset >= self.offset && span.offset + span.bytes as u64 <= end
    }
}
