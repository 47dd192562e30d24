//! The read of a value by its handle: of the record where a write appended it, or where jobs have
//! moved it.
//!
//! 1. If the segment of the handle is there, the blocks of the record are read.
//! 2. Otherwise a job has moved the record. The directory of the group has its place. Without a
//!    directory a page of the footer of each base segment is read: the hashes of a footer are
//!    equally spread, so its place in the footer is known to a page or two.
//! 3. A segment that goes during the read is noticed by its number, which no other segment gets.
//!    The search begins again then.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use codec::{Corruption, SeqNo};
use device::File;
use engine::{Error, ReadRequest, ReadSource, Result, as_damage};

use super::Values;
use super::group::GroupState;
use super::read::Span;
use crate::index_value::Handle;
use crate::key_hash::KeyHash;
use crate::segment::footer::{self, Entry, PAGE_ENTRIES};
use crate::segment::record::BLOCK_BYTES;
use crate::segment_table::{Described, State};

/// The read of one value.
pub(crate) struct PendingRecord {
    /// As the index has it.
    handle: Handle,
    hash: KeyHash,
    /// Changes of the group's base segments before the present search.
    version: u64,
    /// Other places that may have the record.
    places: Vec<Handle>,
    /// Damage of such a place, which may have been the record's.
    damage: Option<Box<Error>>,
    step: Step,
    reads: Reads,
}

/// The reads of a step. That of a record takes no memory of its own.
enum Reads {
    One(ReadRequest),
    Several(Vec<ReadRequest>),
}

/// The present step.
enum Step {
    Record(Handle, Span),
    Pages(Vec<Page>),
    /// The record is nowhere.
    Missing,
}

/// A page of a footer that may have the entry of a record.
struct Page {
    base: Described,
    /// The pages that are left of this footer: from the first to before the second.
    first: usize,
    end: usize,
    /// The one that is read in this round.
    page: usize,
    is_read: bool,
}

/// The result of a step.
pub(crate) enum RecordProgress {
    /// The value of this write replaced the content of the caller's buffer.
    Value(SeqNo),
    /// Other reads of this round are missing.
    Waiting,
    NextRound,
    /// No segment has the record: a newer write has superseded it since the index was looked up.
    Gone,
}

impl Values {
    /// Begins to read the record of a handle, which is not in memory.
    ///
    /// # Errors
    /// Damage of the handle.
    pub(crate) fn begin_read(
        &self,
        key: &[u8],
        handle: Handle,
        source: &Arc<dyn ReadSource>,
    ) -> Result<PendingRecord> {
        let hash = self.hash(key);
        let (version, places, damage) = Default::default();
        let (step, reads) = match self.segment(handle.segment) {
            Some(segment) => {
                let span = self.span(&segment, handle)?;
                let read = span.request(source);
                (Step::Record(handle, span), Reads::One(read))
            }
            None => (Step::Missing, Reads::Several(Vec::new())),
        };
        let mut pending = PendingRecord { handle, hash, version, places, damage, step, reads };
        if matches!(pending.step, Step::Missing) {
            pending.search(self);
            pending.advance(self, source)?;
        }
        Ok(pending)
    }
}

impl PendingRecord {
    /// Returns the reads of this round; none if the record is nowhere.
    pub(crate) fn reads(&self) -> &[ReadRequest] {
        match &self.reads {
            Reads::One(read) => std::slice::from_ref(read),
            Reads::Several(reads) => reads,
        }
    }

    /// Returns whether it searches footers, since the group has no directory in memory.
    pub(crate) fn searches_footers(&self) -> bool {
        matches!(self.step, Step::Pages(_))
    }

    /// Returns the handle of the index.
    pub(crate) fn handle(&self) -> Handle {
        self.handle
    }

    /// Takes the damage of a place that may have had the record.
    pub(crate) fn take_damage(&mut self) -> Option<Error> {
        self.damage.take().map(|damage| *damage)
    }

    /// Continues with the bytes of one read of this round.
    ///
    /// # Errors
    /// The failure of the read; damage.
    pub(crate) fn resume(
        &mut self,
        values: &Values,
        key: &[u8],
        (read, bytes): (usize, Result<&[u8]>),
        source: &Arc<dyn ReadSource>,
        into: &mut Vec<u8>,
    ) -> Result<RecordProgress> {
        match &mut self.step {
            Step::Missing => return Ok(RecordProgress::Gone),
            Step::Record(handle, span) => {
                let wanted = (*handle, *handle != self.handle);
                let found = bytes.and_then(|blocks| values.record_in(span, blocks, key, wanted));
                match found {
                    Ok(record) => {
                        into.clear();
                        into.extend_from_slice(record.value);
                        return Ok(RecordProgress::Value(record.number));
                    }
                    Err(error) => self.after_mismatch(values, error)?,
                }
            }
            Step::Pages(pages) => {
                let Some(page) = pages.get_mut(read) else { return Ok(RecordProgress::Waiting) };
                let wanted = (self.hash, self.handle);
                match bytes.and_then(|bytes| page.look(values, bytes, wanted)) {
                    Ok(found) => self.places.extend(found),
                    // A job has removed the segment, and its place has other bytes.
                    Err(error) if values.segment(page.base.number).is_some() => {
                        return Err(as_damage(error));
                    }
                    Err(_) => page.end = page.first,
                }
                page.is_read = true;
                if !pages.iter().all(|page| page.is_read) {
                    return Ok(RecordProgress::Waiting);
                }
                pages.retain(|page| page.first < page.end);
            }
        }
        self.advance(values, source)?;
        Ok(match self.step {
            Step::Missing => RecordProgress::Gone,
            _ => RecordProgress::NextRound,
        })
    }

    /// Continues after bytes that are not the record: a job may have removed the segment.
    fn after_mismatch(&mut self, values: &Values, error: Error) -> Result<()> {
        let Step::Record(handle, _) = &self.step else { return Ok(()) };
        if values.segment(handle.segment).is_none() {
            self.search(values);
            return Ok(());
        }
        // An entry of the directory may be of another key, whose record has another length.
        let says_nothing = matches!(
            error,
            Error::Corruption(_) | Error::Device(device::Error::UnexpectedEnd { .. })
        );
        if !says_nothing || *handle == self.handle {
            return Err(as_damage(error));
        }
        self.damage.get_or_insert_with(|| Box::new(error));
        Ok(())
    }

    /// Finds the next step, and its reads.
    fn advance(&mut self, values: &Values, source: &Arc<dyn ReadSource>) -> Result<()> {
        loop {
            if let Some(handle) = self.places.pop() {
                let Some(segment) = values.segment(handle.segment) else {
                    self.search(values);
                    continue;
                };
                match values.span(&segment, handle) {
                    Ok(span) => {
                        self.reads = Reads::One(span.request(source));
                        self.step = Step::Record(handle, span);
                        return Ok(());
                    }
                    Err(error) if handle == self.handle => return Err(error),
                    // The entry of another key.
                    Err(_) => continue,
                }
            }
            if let Step::Pages(pages) = &mut self.step
                && !pages.is_empty()
            {
                let hash = self.hash;
                let reads = pages.iter_mut().map(|page| page.request(values, hash, source));
                self.reads = Reads::Several(reads.collect::<Result<_>>()?);
                return Ok(());
            }
            // The record may have been moved again meanwhile.
            if values.group(self.hash.position()).state.lock().version == self.version {
                (self.step, self.reads) = (Step::Missing, Reads::Several(Vec::new()));
                return Ok(());
            }
            self.search(values);
        }
    }

    /// Begins the search for a record that was moved.
    fn search(&mut self, values: &Values) {
        let group = values.group(self.hash.position());
        group.is_used.store(true, Relaxed);
        let state = group.state.lock();
        self.version = state.version;
        self.places.clear();
        self.step = Step::Missing;
        match &state.directory {
            Some(directory) => {
                let of = |(segment, offset)| Handle { segment, offset, ..self.handle };
                self.places = directory.find(self.hash).into_iter().map(of).collect();
            }
            None => self.step = Step::Pages(pages_of(&state)),
        }
    }
}

/// Returns the footers of a group's base segments.
fn pages_of(state: &GroupState) -> Vec<Page> {
    let page = |base: &Described| match base.state {
        State::Sealed { entries, is_base: true, .. } if entries > 0 => {
            let end = (entries as usize).div_ceil(PAGE_ENTRIES);
            Some(Page { base: *base, first: 0, end, page: 0, is_read: false })
        }
        _ => None,
    };
    state.sealed.values().filter_map(page).collect()
}

impl Page {
    /// Returns the read of the page that most probably has the entry.
    fn request(
        &mut self,
        values: &Values,
        hash: KeyHash,
        source: &Arc<dyn ReadSource>,
    ) -> Result<ReadRequest> {
        let Described { range, place, .. } = self.base;
        let from = hash.position().saturating_sub(range.first);
        let share = from as f64 / (range.last() - range.first) as f64;
        let guess = (share * self.pages() as f64) as usize;
        self.page = guess.clamp(self.first, self.end - 1);
        self.is_read = false;
        let offset = self.base.records_end() + self.page * BLOCK_BYTES;
        let file = values.volumes.file(place.volume)? as Arc<dyn File>;
        let offset = values.volumes.offset(place) + offset as u64;
        Ok(ReadRequest { source: Arc::clone(source), file, offset, len: BLOCK_BYTES })
    }

    /// Returns the number of pages of the footer.
    fn pages(&self) -> usize {
        (self.base.entries() as usize).div_ceil(PAGE_ENTRIES)
    }

    /// Looks for the record in the page that was read, and narrows the pages that are left down.
    fn look(
        &mut self,
        values: &Values,
        bytes: &[u8],
        (hash, handle): (KeyHash, Handle),
    ) -> Result<Option<Handle>> {
        let Described { number, .. } = self.base;
        let offset = self.base.records_end() + self.page * BLOCK_BYTES;
        let count = (self.base.entries() as usize - self.page * PAGE_ENTRIES).min(PAGE_ENTRIES);
        let store = values.geometry.store;
        let entries = footer::decode(bytes, count, number, offset, store);
        let entries = entries.map_err(|damage| self.damage(values, damage))?;
        let wanted = (hash, handle.number);
        let key = |entry: &Entry| (entry.hash, entry.number);
        if let Some(found) = entries.iter().find(|entry| key(entry) == wanted) {
            self.end = self.first;
            let Entry { offset, bytes, .. } = *found;
            return Ok(Some(Handle { segment: number, offset, bytes, ..handle }));
        }
        if entries.first().is_none_or(|first| wanted < key(first)) {
            self.end = self.page;
        } else if entries.last().is_some_and(|last| wanted > key(last)) {
            self.first = self.page + 1;
        } else {
            self.end = self.first;
        }
        Ok(None)
    }

    fn damage(&self, values: &Values, damage: Corruption) -> Error {
        let base = values.volumes.offset(self.base.place);
        damage.at(&crate::volumes::file_name(self.base.place.volume), base).into()
    }
}
