//! Writes of parts of several segments, some of which are on their way to the device together
//! (HashKV 3.8).

use std::ops::ControlFlow;
use std::sync::Arc;

use device::{Buffer, Completion, File, Queue, Request, Work};
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

/// Writes in progress.
struct Writes<'a> {
    parts: &'a [Part<'a>],
    queue: Box<dyn Queue>,
    completions: Vec<Completion>,
    bytes_in_flight: usize,
    /// Writes of each part that have not succeeded yet.
    left: Vec<usize>,
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
        let queue = self.device.queue(WRITES_MAX)?;
        let (completions, bytes_in_flight, failure) = Default::default();
        let mut writes = Writes { parts, queue, completions, bytes_in_flight, left, failure };
        for index in 0..parts.len() {
            if self.begin(&mut writes, index, bytes_max, done).is_break() {
                break;
            }
        }
        while writes.queue.in_flight() > 0 {
            if self.reap(&mut writes, done).is_break() {
                break;
            }
        }
        writes.failure.map_or(Ok(()), Err)
    }

    /// Begins the writes of a part, once there is room for them.
    fn begin(
        &self,
        writes: &mut Writes<'_>,
        index: usize,
        bytes_max: usize,
        done: &mut dyn FnMut(usize) -> Result<()>,
    ) -> ControlFlow<()> {
        let Some(part) = writes.parts.get(index) else { return ControlFlow::Break(()) };
        let file = match self.file_to_write(part.place.volume) {
            Ok(file) => file as Arc<dyn File>,
            Err(error) => return writes.fail(error),
        };
        let mut offset = self.offset(part.place) + part.offset;
        for bytes in part.bytes.chunks(WRITE_BYTES) {
            while writes.queue.in_flight() == WRITES_MAX
                || writes.bytes_in_flight > 0 && writes.bytes_in_flight + bytes.len() > bytes_max
            {
                self.reap(writes, done)?;
            }
            if writes.failure.is_some() {
                return ControlFlow::Break(());
            }
            let work = Work::Write { offset, buffer: Buffer::copy_of(bytes) };
            let request = Request { tag: index as u64, file: Arc::clone(&file), work };
            // Fewer are in flight than the queue has room for.
            let submitted = writes.queue.submit(request);
            debug_assert!(submitted.is_ok(), "the queue is full");
            writes.bytes_in_flight += bytes.len();
            offset += bytes.len() as u64;
        }
        ControlFlow::Continue(())
    }

    /// Waits for a write to end.
    fn reap(
        &self,
        writes: &mut Writes<'_>,
        done: &mut dyn FnMut(usize) -> Result<()>,
    ) -> ControlFlow<()> {
        let mut completions = std::mem::take(&mut writes.completions);
        if let Err(error) = writes.queue.wait(1, &mut completions) {
            return writes.fail(error.into());
        }
        for Completion { tag, buffer, result } in completions.drain(..) {
            let bytes = buffer.map_or(0, |buffer| buffer.len());
            writes.bytes_in_flight = writes.bytes_in_flight.saturating_sub(bytes);
            let ended = result.map_err(Error::from).and_then(|()| {
                let index = tag as usize;
                let left = writes.left.get_mut(index).map_or(1, |left| {
                    *left -= 1;
                    *left
                });
                match (left, writes.parts.get(index)) {
                    (0, Some(part)) => {
                        // A sync that began meanwhile may have missed the write.
                        self.note_dirty(part.place.volume);
                        done(index)
                    }
                    _ => Ok(()),
                }
            });
            if let Err(error) = ended {
                writes.failure.get_or_insert(error);
            }
        }
        writes.completions = completions;
        ControlFlow::Continue(())
    }
}

impl Writes<'_> {
    fn fail(&mut self, error: Error) -> ControlFlow<()> {
        self.failure.get_or_insert(error);
        ControlFlow::Break(())
    }
}
