//! Read-only pages go to their segments.
//!
//! Records below `SAFE_READ_ONLY` never change, so they are copied without a lock, each stamped
//! with its checksum, and written in one piece for each page. A write that fails stops the store:
//! the page stays in memory, but nothing new is taken. If there was no room for it, it is only
//! written later, the same bytes to the same place: nothing refers to them before that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use device::{Ballast, Buffer};
use engine::Result;
use sync::Mutex;
use sync::atomic::Ordering;
use sync::thread::at_device;
use workers::Group;

use super::{BLOCK_BYTES, HybridLog};
use crate::address::LogAddress;
use crate::held_room::HeldRoom;
use crate::planted::{Planted, mutant};
use crate::record::{WORD_BYTES, stamp};

/// The flushes of a log: the one in progress, and the task that makes the next ones.
pub(super) struct Flushes {
    flusher: Mutex<Flusher>,
    /// Whether a task is queued that flushes.
    pub(super) is_queued: AtomicBool,
    pub(super) workers: Arc<Group>,
    /// Room for pages that are flushed while the device is full.
    ballast: Arc<Ballast>,
    /// Bytes that a record takes on average, as of the page that was flushed last.
    record_bytes: AtomicUsize,
}

/// The state that one flush keeps for the next.
#[derive(Debug, Default)]
struct Flusher {
    /// Reused for every page.
    buffer: Option<Buffer>,
}

impl Flushes {
    pub(super) fn new(workers: Arc<Group>, ballast: Arc<Ballast>) -> Self {
        Self {
            flusher: Mutex::default(),
            is_queued: AtomicBool::new(false),
            workers,
            ballast,
            record_bytes: AtomicUsize::new(256),
        }
    }

    /// Returns the bytes that a record takes on average, as of the page that was flushed last.
    pub(super) fn record_bytes(&self) -> usize {
        self.record_bytes.load(Relaxed)
    }
}

impl HybridLog {
    /// Flushes one page or a part of it, if any may be flushed. Returns `false` if there is nothing
    /// to flush.
    ///
    /// # Errors
    /// The storage's; the store takes no more writes then, unless the error is retryable.
    pub(crate) fn flush_some(self: &Arc<Self>) -> Result<bool> {
        let mut flusher = self.flushes.flusher.lock();
        self.check_writable()?;
        let (from, to) = (self.flushed(), self.safe_read_only());
        if from >= to {
            return Ok(false);
        }
        let page_end = self.geometry.page_begin(self.geometry.page(from) + 1);
        let to = to.min(page_end);
        debug_assert!(from.get() % BLOCK_BYTES == 0 && to.get() % BLOCK_BYTES == 0, "H6");
        let written = self.write_out(&mut flusher, from, to);
        if let Some(error) = written.as_ref().err().filter(|error| !error.is_retryable()) {
            self.health.fail(error);
        }
        written?;
        self.regions.flushed.store(to.get(), Ordering::Release);
        drop(flusher);
        self.advance_head();
        Ok(true)
    }

    /// Flushes everything below `to`, which is safely read-only.
    pub(crate) fn flush_until(self: &Arc<Self>, to: LogAddress) -> Result<()> {
        while self.flushed() < to {
            self.flush_some()?;
        }
        Ok(())
    }

    /// Releases the files of a log of a closed store, once the flush that is under way has ended. A
    /// writer that waits for room may flush while its store is closed. It would take a released
    /// segment for a new one, and remove its file.
    pub(crate) fn close(&self) {
        let _flusher = mutant!(Planted::ClosedUnderFlush, Some(self.flushes.flusher.lock()), None);
        self.segments.close();
    }

    fn write_out(&self, flusher: &mut Flusher, from: LogAddress, to: LogAddress) -> Result<()> {
        let len = (to.get() - from.get()) as usize;
        let page_bytes = self.geometry.page_bytes() as usize;
        let buffer = flusher.buffer.take().filter(|buffer| buffer.len() == len);
        let mut buffer = buffer.unwrap_or_else(|| Buffer::zeroed(len));
        let words = self.frames.ring.words(from.get());
        let (chunks, _) = buffer.as_chunks_mut::<WORD_BYTES>();
        for (chunk, word) in chunks.iter_mut().zip(words) {
            // Acquire of `SAFE_READ_ONLY` ordered this after the last change.
            *chunk = word.load(Ordering::Relaxed).to_le_bytes();
        }
        at_device();
        let number = self.geometry.segment(from);
        let Flushes { ballast, record_bytes, .. } = &self.flushes;
        let segment = HeldRoom::spend(ballast, BLOCK_BYTES, || self.segments.of_write(number))?;
        let (mut at, mut records) = (0, 0);
        while at < len {
            at += stamp(&mut buffer[at..], segment.salt(), from.plus(at as u64));
            records += 1;
        }
        assert_eq!(at, len, "records end where what is flushed ends");
        record_bytes.store(len / records, Relaxed);
        HeldRoom::spend(ballast, len as u64, || segment.write(from, &buffer))?;
        self.segments.count_written(len as u64);
        self.segments.note_written(number);
        flusher.buffer = (len == page_bytes).then_some(buffer);
        Ok(())
    }
}
