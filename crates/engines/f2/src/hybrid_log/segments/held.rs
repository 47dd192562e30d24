//! The segments of a part of a log, held open for a thread that writes a copy of them.
//!
//! No other thread has to wait for that, and a segment that is removed meanwhile is still read.

use std::sync::Arc;

use device::{Buffer, Device, File, Mode, SyncKind};
use engine::{GoOn, Result};

use super::{BLOCK_BYTES, Segment, Segments};
use crate::address::LogAddress;

/// Bytes of one step of a copy.
const COPY_BYTES: u64 = 1 << 20;

/// All that hold something of the part.
pub(crate) struct HeldSegments {
    segments: Vec<Arc<Segment>>,
    /// The address at which the part ends; records below never change.
    end: LogAddress,
    segment_bytes: u64,
}

impl Segments {
    /// Holds the segments of the part from `begin` to `end`, which are there.
    pub(crate) fn hold(&self, begin: LogAddress, end: LogAddress) -> HeldSegments {
        let (first, last) = self.numbers(begin, end);
        let open = self.open.read();
        let segments = open.range(first..last).map(|(_, segment)| Arc::clone(segment)).collect();
        HeldSegments { segments, end, segment_bytes: self.geometry.segment_bytes() }
    }
}

impl HeldSegments {
    /// Writes them to `into`, durable on return, and releases each. `go_on` is called from time to
    /// time.
    ///
    /// # Errors
    /// Those of `go_on`; the storage's, of either side.
    pub(crate) fn copy(self, into: &dyn Device, go_on: &GoOn<'_>) -> Result<()> {
        for segment in self.segments {
            let copy = into.open(&segment.name, Mode::CreateNew)?;
            let len = segment.offset(self.end).min(BLOCK_BYTES + self.segment_bytes);
            let len = len.min(segment.file.len()?);
            let mut buffer = Buffer::zeroed(COPY_BYTES.min(len) as usize);
            let mut at = 0;
            while at < len {
                go_on()?;
                let piece = (len - at).min(COPY_BYTES) as usize;
                segment.file.read_at(at, &mut buffer[..piece])?;
                copy.write_at(at, &buffer[..piece])?;
                at += piece as u64;
            }
            copy.sync(SyncKind::All)?;
        }
        Ok(into.sync_dir("")?)
    }
}
