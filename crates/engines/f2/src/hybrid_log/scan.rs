//! Everything in a stretch of the log on disk, in the order in which it was appended.
//!
//! A [`Scan`] reads the log page by page, and reads some pages ahead of the one that its caller
//! works on: the ring of *frames* that compaction works with (section 5.1 of the F2 paper).

use std::collections::VecDeque;
use std::sync::Arc;

use codec::Corruption;
use device::{Buffer, Completion, Queue, Request, Work};
use engine::Result;

use super::segments::Segment;
use super::{BLOCK_BYTES, Geometry, Segments};
use crate::address::LogAddress;
use crate::record::{Damage, Stored};

/// Pages that a scan takes memory for: its caller works on one, the others are on their way. There
/// are more if several threads have one each.
pub(crate) const FRAMES: usize = 3;

/// A piece of one page on disk, verified while it is walked.
pub(crate) struct Stretch {
    from: LogAddress,
    bytes: Buffer,
    /// Bytes of the buffer in front of it: reads begin with a block.
    skipped: usize,
    segment: Arc<Segment>,
}

/// A walk over a part of the log. It keeps the files open, so a truncation meanwhile does no harm.
pub(crate) struct Scan {
    geometry: Geometry,
    /// The address to be read next, and the scan's end.
    at: LogAddress,
    to: LogAddress,
    /// The segment that is read, and the address at which the log leaves it.
    segment: Option<(Arc<Segment>, LogAddress)>,
    queue: Option<Box<dyn Queue>>,
    /// Pages ahead, in order; each is read or on its way.
    ahead: VecDeque<Page>,
    /// How many were handed out: the tag of the first one ahead.
    handed_out: u64,
    completions: Vec<Completion>,
}

/// A requested page.
struct Page {
    from: LogAddress,
    skipped: usize,
    segment: Arc<Segment>,
    bytes: Option<Buffer>,
}

/// Reads the log from `from` to `to` page by page and hands each piece to `with`. At both addresses
/// a record begins; between them, the log may have been left and continued elsewhere.
///
/// # Errors
/// A missing segment, the storage's, and `with`'s.
pub(crate) fn stretches(
    segments: &Segments,
    geometry: &Geometry,
    from: LogAddress,
    to: LogAddress,
    with: &mut dyn FnMut(&Stretch) -> Result<()>,
) -> Result<()> {
    let mut scan = Scan::new(geometry, from, to);
    while let Some(stretch) = scan.next(segments)? {
        with(&stretch)?;
    }
    Ok(())
}

impl Scan {
    /// A scan from `from` to `to`, at both of which a record begins. Nothing is read yet.
    pub(crate) fn new(geometry: &Geometry, from: LogAddress, to: LogAddress) -> Self {
        Self {
            geometry: *geometry,
            at: from,
            to,
            segment: None,
            queue: None,
            ahead: VecDeque::new(),
            handed_out: 0,
            completions: Vec::new(),
        }
    }

    /// The next piece, of the log with these segments; nothing at the end. Blocks until it is read,
    /// and has those behind it read meanwhile.
    ///
    /// # Errors
    /// A missing or shortened segment, with its place; the storage's. Nothing is left then.
    pub(crate) fn next(&mut self, segments: &Segments) -> Result<Option<Stretch>> {
        let next = self.try_next(segments);
        if next.is_err() {
            // Other threads may call this too: the pages on their way are lost, and nothing more is
            // to be read.
            (self.at, self.queue) = (self.to, None);
            self.ahead.clear();
        }
        next
    }

    fn try_next(&mut self, segments: &Segments) -> Result<Option<Stretch>> {
        while self.ahead.len() < FRAMES && self.read_ahead(segments)? {}
        let Some(mut page) = self.ahead.pop_front() else { return Ok(None) };
        // The next page ahead takes its place.
        let tag = self.handed_out;
        self.handed_out += 1;
        while page.bytes.is_none() {
            self.wait_for(tag, &mut page)?;
        }
        let Page { from, skipped, segment, bytes } = page;
        Ok(bytes.map(|bytes| Stretch { from, bytes, skipped, segment }))
    }

    /// Whether all was handed out.
    pub(crate) fn is_at_end(&self) -> bool {
        self.ahead.is_empty() && self.at >= self.to
    }

    /// Requests one more page; returns `false` if there is none.
    fn read_ahead(&mut self, segments: &Segments) -> Result<bool> {
        let Some((segment, end)) = self.segment_of_next(segments)? else { return Ok(false) };
        let from = self.at;
        let page_end = self.geometry.page_begin(self.geometry.page(from) + 1).min(end);
        // Whole blocks, as in the writes.
        let first = LogAddress::new(from.get() / BLOCK_BYTES * BLOCK_BYTES);
        let skipped = (from.get() - first.get()) as usize;
        let buffer = Buffer::zeroed((page_end.get() - first.get()) as usize);
        let work = Work::Read { offset: segment.offset(first), buffer };
        let tag = self.handed_out + self.ahead.len() as u64;
        let queue = match &mut self.queue {
            Some(queue) => queue,
            none => none.insert(segments.queue(FRAMES)?),
        };
        let submitted = queue.submit(Request { tag, file: segment.file(), work });
        assert!(submitted.is_ok(), "no more is submitted than the queue has room for");
        self.ahead.push_back(Page { from, skipped, segment, bytes: None });
        self.at = page_end;
        Ok(true)
    }

    /// The segment with the next page, and the address at which the log leaves it; `None` at the
    /// end.
    fn segment_of_next(
        &mut self,
        segments: &Segments,
    ) -> Result<Option<(Arc<Segment>, LogAddress)>> {
        while self.at < self.to {
            let number = self.geometry.segment(self.at);
            let (segment, end) = match &self.segment {
                Some((segment, end)) if segment.number() == number => (Arc::clone(segment), *end),
                _ => self.enter_segment(segments, number)?,
            };
            if self.at < end {
                self.segment = Some((Arc::clone(&segment), end));
                return Ok(Some((segment, end)));
            }
            self.at = self.at.max(self.geometry.segment_begin(number + 1).min(self.to));
        }
        Ok(None)
    }

    fn enter_segment(
        &self,
        segments: &Segments,
        number: u64,
    ) -> Result<(Arc<Segment>, LogAddress)> {
        let Some(segment) = segments.get(number) else {
            let what = "a segment of the log is missing";
            return Err(Corruption::new(what, 0).at(&segments.file_name(number), 0).into());
        };
        let next = self.geometry.segment_begin(number + 1);
        // The life that wrote this segment ended at this address, and the next life begins with
        // another segment.
        let left = match segments.get(number + 1) {
            Some(next) => next.previous_end(),
            None => match segments.pending_end(number) {
                Some(end) => end,
                // The next one may have been made, and have taken it over, since.
                None => segments.get(number + 1).map_or(next, |next| next.previous_end()),
            },
        };
        Ok((segment, self.to.min(next).min(left)))
    }

    /// Waits until something was read; the page with this tag is the one that was taken off.
    fn wait_for(&mut self, tag: u64, page: &mut Page) -> Result<()> {
        let queue = self.queue.as_mut().expect("a page that is on its way has a queue");
        queue.wait(1, &mut self.completions)?;
        for completion in self.completions.drain(..) {
            let number = (completion.tag - tag) as usize;
            let read = match number.checked_sub(1) {
                None => &mut *page,
                Some(number) => &mut self.ahead[number],
            };
            let failed = |error: device::Error| read.segment.read_error(read.from, error.into());
            completion.result.map_err(failed)?;
            read.bytes = completion.buffer;
        }
        Ok(())
    }
}

impl Stretch {
    fn bytes(&self) -> &[u8] {
        &self.bytes[self.skipped..]
    }

    /// The address at which it begins.
    pub(crate) fn begin(&self) -> LogAddress {
        self.from
    }

    /// The address at which it ends, and the next one begins, unless the log was left here.
    pub(crate) fn end(&self) -> LogAddress {
        self.from.plus(self.len() as u64)
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.skipped
    }

    /// Returns the damage at `address`, with its place.
    pub(crate) fn damage(&self, address: LogAddress, damage: Damage) -> Corruption {
        self.segment.damage(address, damage)
    }

    /// Returns the record that begins `at` bytes behind the stretch's beginning, verified.
    pub(super) fn decode(&self, at: usize) -> std::result::Result<Stored<'_>, Damage> {
        let bytes = self.bytes().get(at..).unwrap_or_default();
        Stored::decode(bytes, self.segment.salt(), self.from.plus(at as u64))
    }

    /// The length that a record that begins there claims to have, if that is possible; otherwise
    /// none.
    pub(super) fn claimed_bytes(&self, at: usize) -> usize {
        let bytes = self.bytes().get(at..).unwrap_or_default();
        Stored::claimed_bytes(bytes, bytes.len()).unwrap_or_default()
    }

    /// Hands every record, with its address, to `with`; fillers are left out.
    ///
    /// # Errors
    /// Damage with its place; `with`'s.
    pub(crate) fn records<'a>(
        &'a self,
        with: &mut dyn FnMut(LogAddress, &Stored<'a>) -> Result<()>,
    ) -> Result<()> {
        let mut at = 0;
        while at < self.len() {
            let address = self.from.plus(at as u64);
            let stored = self.decode(at).map_err(|damage| self.damage(address, damage))?;
            at += stored.bytes;
            if !stored.header.is_filler() {
                with(address, &stored)?;
            }
        }
        Ok(())
    }
}
