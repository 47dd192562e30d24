//! The read batch: many ranges of files, read with few and long reads for one calling thread.
//!
//! Scans read ahead with it, commits read the intervals that they change, and compactions read the
//! records of keys. The caller returns ranges one by one, and takes the bytes of each range when
//! they arrive, in any order.
//!
//! - Ranges of one file that follow each other within [`Batch::gap`] bytes are one read, a *span*.
//! - Spans are in flight concurrently, up to [`Batch::bytes_max`] bytes, and never more than a
//!   table of [`InFlightReads`] takes. One span is in flight even if it is longer.
//! - A span without others, as of a batch of one range, needs no queue.
//! - If the read of several ranges fails, each is read again, alone. So a failure concerns only the
//!   ranges that have it.
//! - If the source refuses to make a queue, the calling thread does the reads one by one.

use std::ops::Range;
use std::sync::Arc;

use device::File;
use engine::{PendingLookup, Progress, ReadRequest, ReadSource, Result};
use memory_budget::MemoryBudget;

use crate::buffers::ReadNow;
use crate::in_flight::{Done, InFlightReads};
use crate::pool::ReadPool;

/// A range of a file to read, with a payload of the caller's.
#[derive(Debug)]
pub struct RangeRead<P> {
    /// The file, of the batch's source.
    pub file: Arc<dyn File>,
    /// The offset of the first byte.
    pub offset: u64,
    /// Bytes to read, above 0. Offset and length suit the file's alignment.
    pub len: usize,
    /// Is returned with the range's bytes.
    pub payload: P,
}

/// The bytes of a range that was read.
#[derive(Clone, Copy, Debug)]
pub struct RangeBytes<'a> {
    /// The bytes of the range.
    pub range: &'a [u8],
    /// The same, and the bytes that were read after them with other ranges.
    pub and_more: &'a [u8],
}

/// The limits of a read batch.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    /// Most bytes between two ranges that are read for nothing, to save a read.
    pub gap: u64,
    /// Most bytes of a span of several ranges.
    pub span_bytes_max: usize,
    /// Most bytes of the spans in flight.
    pub bytes_max: usize,
}

/// The caller of a read batch: it names the ranges, and takes their bytes. Each range is reported
/// exactly once. Both methods may block, and may start other batches of the same pool. After an
/// error or a panic the batch waits for the reads in flight, and reports no more ranges.
pub trait RangeReader<P> {
    /// Returns the next range, or nothing at the end; it is not called again after the end. Ranges
    /// that should be read together follow each other in the order of their offsets.
    ///
    /// # Errors
    /// An error ends the batch.
    fn next_range(&mut self) -> Result<Option<RangeRead<P>>>;

    /// Takes the bytes of a range, or the failure of its read. Returns another range that is read
    /// for this one, for instance a longer one.
    ///
    /// # Errors
    /// An error ends the batch.
    fn take_bytes(
        &mut self,
        payload: P,
        bytes: Result<RangeBytes<'_>>,
    ) -> Result<Option<RangeRead<P>>>;
}

/// Ranges that are read together.
struct Span<P> {
    file: Arc<dyn File>,
    offset: u64,
    len: usize,
    /// The place of each range in the span, and its payload.
    ranges: Vec<(Range<usize>, P)>,
}

/// The read of a span.
struct SpanRead([ReadRequest; 1]);

impl PendingLookup for SpanRead {
    fn key(&self) -> &[u8] {
        &[]
    }

    fn reads(&self) -> &[ReadRequest] {
        &self.0
    }

    fn resume(&mut self, _: usize, bytes: Result<&[u8]>, _: &mut Vec<u8>) -> Result<Progress> {
        bytes.map(|_| Progress::Absent)
    }

    fn is_newest(&self) -> bool {
        false
    }
}

impl<P> Span<P> {
    fn of(range: RangeRead<P>) -> Self {
        let RangeRead { file, offset, len, payload } = range;
        Self { file, offset, len, ranges: vec![(0..len, payload)] }
    }

    /// Adds a range, or returns it if it is not near enough.
    fn add(&mut self, range: RangeRead<P>, batch: &Batch) -> std::result::Result<(), RangeRead<P>> {
        let reach = self.offset + self.len as u64 + batch.gap;
        let is_near = (self.offset..=reach).contains(&range.offset);
        if !is_near || !Arc::ptr_eq(&self.file, &range.file) {
            return Err(range);
        }
        let begin = (range.offset - self.offset) as usize;
        let end = begin + range.len;
        if end.max(self.len) > batch.span_bytes_max {
            return Err(range);
        }
        self.len = self.len.max(end);
        self.ranges.push((begin..end, range.payload));
        Ok(())
    }

    fn request(&self, source: &Arc<dyn ReadSource>) -> ReadRequest {
        let (source, file) = (Arc::clone(source), Arc::clone(&self.file));
        ReadRequest { source, file, offset: self.offset, len: self.len }
    }

    /// Passes the bytes of the span, or the failure of its read, to the reader. Adds the ranges
    /// that are to be read next to `again`.
    fn give(
        self,
        bytes: Result<&[u8]>,
        reader: &mut dyn RangeReader<P>,
        again: &mut Vec<RangeRead<P>>,
    ) -> Result<()> {
        if bytes.is_err() && self.ranges.len() > 1 {
            again.extend(self.ranges.into_iter().map(|(range, payload)| {
                let offset = self.offset + range.start as u64;
                RangeRead { file: Arc::clone(&self.file), offset, len: range.len(), payload }
            }));
            return Ok(());
        }
        for (range, payload) in self.ranges {
            let bytes = bytes.clone().map(|bytes| RangeBytes {
                range: bytes.get(range.clone()).unwrap_or_default(),
                and_more: bytes.get(range.start..).unwrap_or_default(),
            });
            again.extend(reader.take_bytes(payload, bytes)?);
        }
        Ok(())
    }
}

/// A batch that is being read.
struct Reading<'a, P> {
    source: &'a Arc<dyn ReadSource>,
    batch: Batch,
    reader: &'a mut dyn RangeReader<P>,
    /// A range that the reader has returned, and that did not fit into the span before it.
    next: Option<RangeRead<P>>,
    is_at_end: bool,
    /// Ranges that the reader wants in the place of others.
    again: Vec<RangeRead<P>>,
    /// The spans in flight, by the tags of their reads.
    spans: Vec<Option<Span<P>>>,
    free: Vec<usize>,
    bytes: usize,
}

impl<P> Reading<'_, P> {
    fn next_range(&mut self) -> Result<Option<RangeRead<P>>> {
        if let Some(range) = self.next.take() {
            return Ok(Some(range));
        }
        if self.is_at_end {
            return Ok(None);
        }
        let range = self.reader.next_range()?;
        self.is_at_end = range.is_none();
        Ok(range)
    }

    /// Returns the next span.
    fn next_span(&mut self) -> Result<Option<Span<P>>> {
        if let Some(range) = self.again.pop() {
            return Ok(Some(Span::of(range)));
        }
        let Some(first) = self.next_range()? else { return Ok(None) };
        let mut span = Span::of(first);
        while let Some(range) = self.next_range()? {
            if let Err(range) = span.add(range, &self.batch) {
                self.next = Some(range);
                break;
            }
        }
        Ok(Some(span))
    }

    fn has_room_for(&self, span: &Span<P>) -> bool {
        self.bytes == 0 || self.bytes + span.len <= self.batch.bytes_max
    }

    /// Returns whether nothing but the span that was returned last is to be read.
    fn is_last_span(&self) -> bool {
        self.bytes == 0 && self.is_at_end && self.next.is_none() && self.again.is_empty()
    }

    /// Reads a span; the calling thread waits.
    fn read_now(&mut self, span: Span<P>, budget: &Arc<MemoryBudget>) -> Result<()> {
        let read = ReadNow::new(&span.request(self.source), budget);
        span.give(read.bytes(), self.reader, &mut self.again)
    }

    /// Starts the read of a span. Returns the span if the table has no room for it.
    fn start(
        &mut self,
        table: &mut InFlightReads<usize>,
        span: Span<P>,
    ) -> std::result::Result<(), Span<P>> {
        let tag = self.free.pop().unwrap_or_else(|| {
            self.spans.push(None);
            self.spans.len() - 1
        });
        if table.start(Box::new(SpanRead([span.request(self.source)])), tag).is_err() {
            self.free.push(tag);
            return Err(span);
        }
        self.bytes += span.len;
        self.spans[tag] = Some(span);
        Ok(())
    }

    /// Waits for spans, and passes their bytes to the reader.
    fn complete(&mut self, table: &mut InFlightReads<usize>) -> Result<()> {
        let mut failure = None;
        table.complete(true, &mut |tag, Done { bytes, value, .. }| {
            let Some(span) = self.spans.get_mut(tag).and_then(Option::take) else { return };
            self.free.push(tag);
            self.bytes -= span.len;
            if failure.is_none() {
                let bytes = value.map(|_| bytes);
                failure = span.give(bytes, self.reader, &mut self.again).err();
            }
        });
        failure.map_or(Ok(()), Err)
    }
}

impl ReadPool {
    /// Reads all ranges of `reader` from `source`; the calling thread waits. Joins ranges that are
    /// near each other, and keeps several reads in flight, within the limits of `batch`.
    ///
    /// # Errors
    /// Those of the reader. The failure of a read goes to the reader, which decides.
    pub fn read_batch<P>(
        &self,
        source: &Arc<dyn ReadSource>,
        batch: Batch,
        reader: &mut dyn RangeReader<P>,
    ) -> Result<()> {
        let (next, is_at_end, bytes) = Default::default();
        let (spans, free, again) = Default::default();
        let mut reading =
            Reading { source, batch, reader, next, is_at_end, again, spans, free, bytes };
        let mut lent: Option<InFlightReads<usize>> = None;
        let mut refused: Option<Span<P>> = None;
        loop {
            let span = match refused.take() {
                Some(span) => Some(span),
                None => reading.next_span()?,
            };
            match span {
                Some(span) if reading.is_last_span() => {
                    reading.read_now(span, self.budget())?;
                    continue;
                }
                Some(span) if reading.has_room_for(&span) => {
                    let table = lent.get_or_insert_with(|| self.take());
                    if table.make_queue(source).is_ok() {
                        let Err(span) = reading.start(table, span) else { continue };
                        refused = Some(span);
                    } else {
                        reading.read_now(span, self.budget())?;
                        continue;
                    }
                }
                span => refused = span,
            }
            match &mut lent {
                Some(table) if !table.is_empty() => reading.complete(table)?,
                _ if refused.is_none() => break,
                _ => unreachable!("a table without lookups takes any span"),
            }
        }
        if let Some(table) = lent {
            self.put_back(table);
        }
        Ok(())
    }
}
