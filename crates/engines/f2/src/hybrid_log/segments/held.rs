//! The segments of a part of a log, held open for whoever writes a copy of them: nobody else has to wait for
//! that, and a segment that is removed meanwhile is still read.

use std::sync::Arc;

use device::{Buffer, Device, File, Mode, SyncKind};
use engine::{GoOn, Result};

use super::{BLOCK_BYTES, Segment, Segments};
use crate::address::LogAddress;

/// Bytes that are copied at once.
const COPY_BYTES: u64 = 1 << 20;

/// All that hold something of the part.
pub(crate) struct HeldSegments {
    segments: Vec<Arc<Segment>>,
    /// Where the part ends; what is below never changes.
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
    /// Writes them to `into`, durable on return, and lets go of each. `go_on` is asked now and then.
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
