//! The read batch: many ranges of files, read with few and long reads for one calling thread.
//!
//! Scans read ahead with it, commits read the intervals that they change, and compactions read the
//! records of keys. The caller returns ranges one by one, and takes the bytes of each range when
//! they arrive, in any order.
//!
//! - Ranges of one file that follow each other within [`Batch::gap`] bytes are one read, a *span*.
//! - Spans are in flight concurrently, up to [`Batch::bytes_max`] bytes. One span is in flight even
//!   if it is longer.
//! - If the read of several ranges fails, each is read again, alone. So a failure concerns only the
//!   ranges that have it.
//! - If the source has no queue left, the calling thread does the reads one by one.

use std::ops::Range;
use std::sync::Arc;

use engine::{PendingLookup, Progress, ReadRequest, Result};

use crate::buffers::ReadNow;
use crate::in_flight::{Done, InFlightReads};
use crate::pool::ReadPool;

/// A range of a file to read, with a payload of the caller's.
#[derive(Debug)]
pub struct RangeRead<P> {
    /// The range.
    pub request: ReadRequest,
    /// Is returned with the range's bytes.
    pub payload: P,
}

/// The limits of a read batch.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    /// Unneeded bytes between two ranges that are read to avoid another read.
    pub gap: u64,
    /// Bytes of the longest span of several ranges.
    pub span_bytes_max: usize,
    /// Bytes of the spans in flight.
    pub bytes_max: usize,
}

/// The caller of a read batch: it names the ranges, and takes their bytes.
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
    fn take_bytes(&mut self, payload: P, bytes: Result<&[u8]>) -> Result<Option<RangeRead<P>>>;
}

/// Ranges that are read together.
struct Span<P> {
    request: ReadRequest,
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
        let RangeRead { request, payload } = range;
        let ranges = vec![(0..request.len, payload)];
        Self { request, ranges }
    }

    /// Adds a range, or returns it if it is not near enough.
    fn add(&mut self, range: RangeRead<P>, batch: &Batch) -> std::result::Result<(), RangeRead<P>> {
        let (span, request) = (&mut self.request, &range.request);
        let is_of_file =
            Arc::ptr_eq(&span.file, &request.file) && Arc::ptr_eq(&span.source, &request.source);
        let reach = span.offset + span.len as u64 + batch.gap;
        if !is_of_file || request.offset < span.offset || request.offset > reach {
            return Err(range);
        }
        let begin = (request.offset - span.offset) as usize;
        let end = begin + request.len;
        if end.max(span.len) > batch.span_bytes_max {
            return Err(range);
        }
        span.len = span.len.max(end);
        self.ranges.push((begin..end, range.payload));
        Ok(())
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
                let offset = self.request.offset + range.start as u64;
                let request = ReadRequest { offset, len: range.len(), ..self.request.clone() };
                RangeRead { request, payload }
            }));
            return Ok(());
        }
        for (range, payload) in self.ranges {
            let bytes = bytes.clone().map(|bytes| bytes.get(range).unwrap_or_default());
            again.extend(reader.take_bytes(payload, bytes)?);
        }
        Ok(())
    }
}

/// A batch that is being read.
struct Reading<'a, P> {
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
        self.bytes == 0 || self.bytes + span.request.len <= self.batch.bytes_max
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
        if table.start(Box::new(SpanRead([span.request.clone()])), tag).is_err() {
            self.free.push(tag);
            return Err(span);
        }
        self.bytes += span.request.len;
        self.spans[tag] = Some(span);
        Ok(())
    }

    /// Waits for spans, and passes their bytes to the reader.
    fn complete(&mut self, table: &mut InFlightReads<usize>) -> Result<()> {
        let mut failure = None;
        table.complete(true, &mut |tag, Done { bytes, value, .. }| {
            let Some(span) = self.spans.get_mut(tag).and_then(Option::take) else { return };
            self.free.push(tag);
            self.bytes -= span.request.len;
            if failure.is_none() {
                let bytes = value.map(|_| bytes);
                failure = span.give(bytes, self.reader, &mut self.again).err();
            }
        });
        failure.map_or(Ok(()), Err)
    }
}

impl ReadPool {
    /// Reads all ranges of `reader`; the calling thread waits. Ranges are joined and overlap as
    /// `batch` says.
    ///
    /// # Errors
    /// Those of the reader. The failure of a read goes to the reader, which decides.
    pub fn read_batch<P>(&self, batch: Batch, reader: &mut dyn RangeReader<P>) -> Result<()> {
        let (spans, free, again) = Default::default();
        let (next, is_at_end, bytes) = Default::default();
        let mut reading = Reading { batch, reader, next, is_at_end, again, spans, free, bytes };
        let mut lent: Option<InFlightReads<usize>> = None;
        let mut refused: Option<Span<P>> = None;
        loop {
            let span = match refused.take() {
                Some(span) => Some(span),
                None => reading.next_span()?,
            };
            match span {
                Some(span) if reading.has_room_for(&span) => {
                    let table = lent.get_or_insert_with(|| self.take());
                    if table.make_queue(&span.request.source).is_ok() {
                        let Err(span) = reading.start(table, span) else { continue };
                        refused = Some(span);
                    } else {
                        let read = ReadNow::new(&span.request, self.budget());
                        span.give(read.bytes(), reading.reader, &mut reading.again)?;
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
