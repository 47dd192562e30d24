//! Writes of parts of several segments, some of which are on their way to the device together
//! (HashKV 3.8).

use std::sync::Arc;

use device::{File, OverlappedWrites};
use engine::{Error, Result};

use super::{Place, Volumes, WRITE_BYTES};

/// Writes in flight, at most.
const WRITES_MAX: usize = 8;
/// Bytes for which a queue is made. Fewer are written one part after another.
const QUEUE_BYTES_MIN: usize = 1 << 20;

/// Whole blocks for a place, from an offset of it on.
pub(crate) struct Part<'a> {
    pub(crate) place: Place,
    pub(crate) offset: u64,
    pub(crate) bytes: &'a [u8],
}

/// The parts of a call, and how far they are.
struct Progress<'a, 'b> {
    volumes: &'a Volumes,
    parts: &'a [Part<'b>],
    /// Writes of each part that have not succeeded yet.
    left: Vec<usize>,
    done: &'a mut dyn FnMut(usize) -> Result<()>,
    failure: Option<Error>,
}

impl Volumes {
    /// Writes parts of segments. `done` is called with the index of each part that is on the
    /// device. Up to `bytes_max` bytes are in flight, or one write.
    ///
    /// # Errors
    /// The first failure of the device or of `done`, once nothing is in flight any more. Parts for
    /// which `done` was not called may be written again, with the same bytes.
    pub(crate) fn write_parts(
        &self,
        parts: &[Part<'_>],
        bytes_max: usize,
        done: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<()> {
        let bytes: usize = parts.iter().map(|part| part.bytes.len()).sum();
        if parts.len() < 2 || bytes < QUEUE_BYTES_MIN {
            for (index, part) in parts.iter().enumerate() {
                self.write(part.place, part.offset, part.bytes)?;
                done(index)?;
            }
            return Ok(());
        }
        let left = parts.iter().map(|part| part.bytes.len().div_ceil(WRITE_BYTES)).collect();
        let mut writes = OverlappedWrites::new(&*self.device, WRITES_MAX, bytes_max)?;
        let mut progress = Progress { volumes: self, parts, left, done, failure: None };
        let begun = self.begin(&mut writes, &mut progress);
        let finished = writes.finish(&mut |tag| progress.note_end(tag));
        begun.and(progress.failure.map_or(Ok(()), Err)).and(finished.map_err(Error::from))
    }

    /// Begins the writes of all parts, each once there is room for it.
    fn begin(&self, writes: &mut OverlappedWrites, progress: &mut Progress<'_, '_>) -> Result<()> {
        for (index, part) in progress.parts.iter().enumerate() {
            let file = self.file_to_write(part.place.volume)? as Arc<dyn File>;
            let mut offset = self.offset(part.place) + part.offset;
            for bytes in part.bytes.chunks(WRITE_BYTES) {
                let mut ended = |tag| progress.note_end(tag);
                let mut buffer = writes.buffer(bytes.len(), &mut ended)?;
                buffer.copy_from_slice(bytes);
                writes.begin(index as u64, (&file, offset), buffer, &mut ended)?;
                if progress.failure.is_some() {
                    return Ok(());
                }
                offset += bytes.len() as u64;
            }
        }
        Ok(())
    }
}

impl Progress<'_, '_> {
    /// Notes that a write of a part has succeeded.
    fn note_end(&mut self, tag: u64) {
        let index = tag as usize;
        let (Some(left), Some(part)) = (self.left.get_mut(index), self.parts.get(index)) else {
            return;
        };
        *left -= 1;
        if *left > 0 {
            return;
        }
        // A sync that began meanwhile may have missed the write.
        self.volumes.note_dirty(part.place.volume);
        if let Err(error) = (self.done)(index) {
            self.failure.get_or_insert(error);
        }
    }
}
