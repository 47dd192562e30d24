//! Many records of the log in one call, with few and long reads of the device.
//!
//! 1. Records in memory are copied and handed over immediately.
//! 2. The others are sorted by address. Records near each other in one segment are read together,
//!    as a *span*, with the bytes between them.
//! 3. Several spans are in flight on a queue of the device; each record of a completed one is
//!    verified and handed over. A record that is longer than was guessed is read again, alone.
//!
//! # Memory
//! `flight_bytes` bounds the bytes in flight, and so do [`FLIGHT_SPANS`] spans of the longest kind;
//! but one span, or one record that is longer, is always in flight.

use device::{Buffer, Completion, Queue, Request, Work};
use engine::Result;
use workers::StopToken;

use super::segments::LOOKUP_DEPTH;
use super::{Fetched, HybridLog, Place, RecordRead};
use crate::address::LogAddress;
use crate::record::{Header, Read, Shape, Stored};

/// Reads in flight at the same time.
const DEPTH: usize = LOOKUP_DEPTH;
/// Longest spans in flight at the same time; more of shorter ones.
const FLIGHT_SPANS: usize = 8;
/// Bytes of the longest span, unless a page or the memory for reads is less: longer reads are no
/// faster on any device we know.
const SPAN_BYTES_MAX: usize = 256 << 10;
const SPAN_BYTES_MIN: usize = 64 << 10;
/// Bytes that are read for nothing rather than begin another read.
const GAP_BYTES_MAX: u64 = 32 << 10;

/// A record to fetch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<P> {
    pub(crate) address: LogAddress,
    /// Its length, if that is known.
    pub(crate) bytes: Option<usize>,
    /// Comes back with the record.
    pub(crate) payload: P,
}

/// The callback of each record; `None`: the log was truncated beyond it.
pub(crate) type WithRecord<'a, P> = dyn FnMut(P, Option<&Stored<'_>>) -> Result<()> + 'a;

/// A record in memory, copied so that it can be used unprotected.
#[derive(Debug, Default)]
pub(crate) struct RecordCopy {
    key: Vec<u8>,
    value: Vec<u8>,
    is_tombstone: bool,
    previous: LogAddress,
}

/// The place of a record that was to be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopiedFrom {
    /// It is in the copy.
    Memory,
    Disk,
    Truncated,
}

impl RecordCopy {
    /// The record as if it had been read from disk.
    pub(crate) fn stored(&self) -> Stored<'_> {
        let shape = Shape { key_bytes: self.key.len(), value_bytes: self.value.len() };
        Stored {
            header: Header::record(self.previous),
            key: &self.key,
            value: (!self.is_tombstone).then_some(&self.value),
            bytes: shape.bytes(),
        }
    }
}

/// Records of one segment that are read together.
struct Span<P> {
    first: LogAddress,
    bytes: usize,
    reads: Vec<(RecordRead, P)>,
}

/// Spans on their way.
struct Flight<P> {
    queue: Box<dyn Queue>,
    flying: Vec<Option<Span<P>>>,
    free: Vec<usize>,
    bytes: usize,
    bytes_max: usize,
    completions: Vec<Completion>,
}

impl HybridLog {
    /// Copies the record at `address` if it is in memory. The caller is protected.
    pub(crate) fn copy_record(&self, address: LogAddress, into: &mut RecordCopy) -> CopiedFrom {
        match self.place(address) {
            Place::Memory(record) => {
                into.previous = record.header().previous();
                record.read_key(&mut into.key);
                into.is_tombstone = record.read(&mut into.value) == Read::Tombstone;
                CopiedFrom::Memory
            }
            Place::Disk => CopiedFrom::Disk,
            Place::Truncated => CopiedFrom::Truncated,
        }
    }

    /// Reads and verifies all wanted records and hands each to `with`, in any order. Returns
    /// `false` if it was stopped and `with` has not had all. Blocks; the caller is not protected,
    /// and neither is `with`, which may append to the log.
    ///
    /// # Errors
    /// Damage with its place; the storage's; `with`'s.
    pub(crate) fn fetch<P: Copy>(
        &self,
        mut wanted: Vec<Wanted<P>>,
        stop: &StopToken,
        with: &mut WithRecord<'_, P>,
    ) -> Result<bool> {
        wanted.sort_by_key(|wanted| wanted.address);
        let mut on_disk = Vec::new();
        let mut copy = RecordCopy::default();
        for wanted in wanted {
            if stop.is_stopping() {
                return Ok(false);
            }
            // A record on disk stays there, so this needs no protection to be true.
            if wanted.address < self.head() {
                on_disk.push(wanted);
                continue;
            }
            let guard = self.epochs.protect();
            let from = self.copy_record(wanted.address, &mut copy);
            drop(guard);
            match from {
                CopiedFrom::Memory => with(wanted.payload, Some(&copy.stored()))?,
                CopiedFrom::Disk => on_disk.push(wanted),
                CopiedFrom::Truncated => with(wanted.payload, None)?,
            }
        }
        if on_disk.is_empty() { Ok(true) } else { self.fetch_spans(&on_disk, stop, with) }
    }

    fn fetch_spans<P: Copy>(
        &self,
        mut wanted: &[Wanted<P>],
        stop: &StopToken,
        with: &mut WithRecord<'_, P>,
    ) -> Result<bool> {
        let span_bytes = self.span_bytes_max();
        let flight_bytes = (self.flight_bytes as usize).min(FLIGHT_SPANS * span_bytes);
        let mut flight = Flight::new(self.segments.queue(DEPTH)?, flight_bytes);
        let mut next: Option<Span<P>> = None;
        let mut longer = Vec::new();
        loop {
            while !stop.is_stopping() {
                let span = match next.take().or_else(|| longer.pop()) {
                    Some(span) => span,
                    None => match self.next_span(&mut wanted, span_bytes, with)? {
                        Some(span) => span,
                        None => break,
                    },
                };
                if let Err(no_room) = flight.submit(span) {
                    next = Some(no_room);
                    break;
                }
            }
            if !flight.wait(|span, buffer| span.hand_over(buffer, &mut longer, with))? {
                return Ok(next.is_none() && longer.is_empty() && wanted.is_empty());
            }
        }
    }

    /// Takes the first wanted record and the records near it off `wanted`. Reports records that are
    /// gone.
    fn next_span<P: Copy>(
        &self,
        wanted: &mut &[Wanted<P>],
        bytes_max: usize,
        with: &mut WithRecord<'_, P>,
    ) -> Result<Option<Span<P>>> {
        let mut span: Option<Span<P>> = None;
        while let Some((first, rest)) = wanted.split_first() {
            let Some(read) = self.record_read_of(first.address, first.bytes)? else {
                with(first.payload, None)?;
                *wanted = rest;
                continue;
            };
            match &mut span {
                None => span = Some(Span::of(read, first.payload)),
                Some(span) => {
                    if !span.reaches(&read, bytes_max) {
                        break;
                    }
                    span.bytes = span.bytes.max(span.bytes_to(&read));
                    span.reads.push((read, first.payload));
                }
            }
            *wanted = rest;
        }
        Ok(span)
    }

    fn span_bytes_max(&self) -> usize {
        // A few spans at the same time are faster than one.
        let share = (self.flight_bytes as usize / 4).max(SPAN_BYTES_MIN);
        SPAN_BYTES_MAX.min(share).min(self.geometry.page_bytes() as usize)
    }
}

impl<P> Span<P> {
    fn of(read: RecordRead, payload: P) -> Self {
        Self { first: read.first(), bytes: read.len(), reads: vec![(read, payload)] }
    }

    /// Bytes from the span's beginning to the read's end.
    fn bytes_to(&self, read: &RecordRead) -> usize {
        (read.first().get() - self.first.get()) as usize + read.len()
    }

    /// Whether a read belongs to the span.
    fn reaches(&self, read: &RecordRead, bytes_max: usize) -> bool {
        let end = self.first.get() + self.bytes as u64;
        let is_near = read.first().get() <= end + GAP_BYTES_MAX;
        let is_same_segment =
            || self.reads.last().is_some_and(|(other, _)| other.shares_segment(read));
        is_near && self.bytes_to(read) <= bytes_max && is_same_segment()
    }

    /// Verifies every record of a span that was read, and hands it over.
    fn hand_over(
        self,
        buffer: &[u8],
        longer: &mut Vec<Self>,
        with: &mut WithRecord<'_, P>,
    ) -> Result<()> {
        for (mut read, payload) in self.reads {
            let skipped = (read.first().get() - self.first.get()) as usize;
            match read.judge(buffer.get(skipped..).unwrap_or_default())? {
                Fetched::Record(stored) => with(payload, Some(&stored))?,
                Fetched::Longer => longer.push(Self::of(read, payload)),
            }
        }
        Ok(())
    }
}

impl<P> Flight<P> {
    fn new(queue: Box<dyn Queue>, bytes_max: usize) -> Self {
        Self {
            queue,
            flying: (0..DEPTH).map(|_| None).collect(),
            free: (0..DEPTH).collect(),
            bytes: 0,
            bytes_max,
            completions: Vec::new(),
        }
    }

    /// Begins to read a span, or hands it back if there is no room for it now.
    fn submit(&mut self, span: Span<P>) -> std::result::Result<(), Span<P>> {
        let is_full = self.bytes > 0 && self.bytes + span.bytes > self.bytes_max;
        let (Some(read), false) = (span.reads.first(), is_full) else { return Err(span) };
        let Some(tag) = self.free.pop() else { return Err(span) };
        let work = Work::Read { offset: read.0.offset(), buffer: Buffer::zeroed(span.bytes) };
        let request = Request { tag: tag as u64, file: read.0.file(), work };
        let submitted = self.queue.submit(request);
        assert!(submitted.is_ok(), "no more is submitted than the queue has room for");
        self.bytes += span.bytes;
        self.flying[tag] = Some(span);
        Ok(())
    }

    /// Waits for spans and hands them to `with`. Returns `false` if none is on its way.
    fn wait(&mut self, mut with: impl FnMut(Span<P>, &[u8]) -> Result<()>) -> Result<bool> {
        if self.free.len() == DEPTH {
            return Ok(false);
        }
        let mut completions = std::mem::take(&mut self.completions);
        self.queue.wait(1, &mut completions)?;
        for completion in completions.drain(..) {
            completion.result?;
            let tag = completion.tag as usize;
            let (Some(span), Some(buffer)) = (self.flying[tag].take(), completion.buffer) else {
                unreachable!("a completion answers a read that was submitted")
            };
            self.free.push(tag);
            self.bytes -= span.bytes;
            with(span, &buffer)?;
        }
        self.completions = completions;
        Ok(true)
    }
}
