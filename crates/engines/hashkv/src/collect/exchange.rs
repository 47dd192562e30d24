//! Step 3 to 5 of a job: the records that stay are copied, and new segments replace the victims.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use engine::Result;

use super::judge::{Bits, Entries, Judged};
use super::sources::FooterEntries;
use crate::segment::footer::Entry;
use crate::segment::record::{Record, decode, place};
use crate::segment_table::Described;
use crate::values::Values;
use crate::values::directory::Directory;
use crate::values::group::Group;
use crate::values::open_segment::OpenSegment;

/// A segment that a job collects.
pub(super) struct Victim<'a> {
    pub(super) described: &'a Described,
    pub(super) judged: &'a Judged,
    /// Tombstones and inline markers that go, too.
    pub(super) markers: Bits,
}

/// A base segment, and its records.
pub(super) struct Output {
    pub(super) described: Described,
    pub(super) entries: Vec<Entry>,
}

/// The base segments that a job writes.
pub(super) struct Outputs<'v> {
    values: &'v Values,
    group: &'v Group,
    open: Option<OpenSegment>,
    sealed: Vec<Output>,
    /// Segments that were taken from the bound, and that no output has.
    taken: u64,
    /// Whether the table may name the outputs.
    is_committing: bool,
    /// Bytes of the device that the victims had, without those of the outputs.
    returned_bytes: u64,
}

impl<'v> Outputs<'v> {
    /// Returns no outputs, with space for `taken` segments. A victim begins one of them at most:
    /// its records have room in one segment.
    pub(super) fn new(values: &'v Values, group: &'v Group, taken: u64) -> Self {
        Self {
            values,
            group,
            open: None,
            sealed: Vec::new(),
            taken,
            is_committing: false,
            returned_bytes: 0,
        }
    }

    /// Returns whether the table may name the outputs.
    pub(super) fn is_committing(&self) -> bool {
        self.is_committing
    }

    /// Returns the bytes of the device that the exchange has freed.
    pub(super) fn returned_bytes(&self) -> u64 {
        self.returned_bytes
    }

    /// Copies the records of victims that stay.
    ///
    /// # Errors
    /// The device's; damage of a victim.
    pub(super) fn copy(&mut self, victims: &[Victim<'_>]) -> Result<()> {
        for victim in victims {
            self.copy_one(victim)?;
        }
        self.seal()
    }

    fn copy_one(&mut self, victim: &Victim<'_>) -> Result<()> {
        let (values, described) = (self.values, victim.described);
        let mut footer = FooterEntries::new(values, *described);
        let mut kept = Vec::new();
        for at in 0.. {
            let Some(entry) = footer.next()? else { break };
            if !victim.judged.dead.has(at) && !victim.markers.has(at) {
                kept.push(entry);
            }
        }
        if kept.is_empty() {
            return Ok(());
        }
        let bytes = values.volumes.read(described.place, 0, described.records_end())?;
        for entry in kept {
            let (begin, offset) = (entry.offset as usize, u64::from(entry.offset));
            let record = bytes.get(begin..begin + entry.bytes as usize).unwrap_or_default();
            let place = place(described.number, offset, values.geometry.store);
            let record = decode(record, place).map_err(|damage| {
                values.damage_in(described, codec::Corruption::new(damage.what, offset))
            })?;
            self.append(&record, entry)?;
        }
        Ok(())
    }

    fn append(&mut self, record: &Record<'_>, entry: Entry) -> Result<()> {
        let bytes = record.bytes();
        if self.open.as_ref().is_some_and(|open| !open.has_room(bytes)) {
            self.seal()?;
        }
        let (values, range) = (self.values, self.group.range());
        let open = match &mut self.open {
            Some(open) => open,
            none => {
                match self.taken.checked_sub(1) {
                    Some(taken) => self.taken = taken,
                    None => values.bound.take(u64::from(values.geometry.segment_bytes)),
                }
                none.insert(values.begin_segment(range, bytes))
            }
        };
        open.append(record, entry.hash, values.geometry.store);
        Ok(())
    }

    /// Writes the open segment with its footer. A failure that does not pass stops writes (law L5).
    fn seal(&mut self) -> Result<()> {
        let written = self.write_open();
        self.values.failures.noted(written)
    }

    fn write_open(&mut self) -> Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let values = self.values;
        open.cut();
        if !values.is_reserved(open.segment.number)? {
            let _flusher = values.gates.flusher.lock();
            values.reserve_number(open.segment.number)?;
        }
        if let Some(part) = open.frozen() {
            values.volumes.write(open.segment.place, part.begin as u64, &part.bytes)?;
        }
        open.note_written();
        let segment = Arc::clone(&open.segment);
        let newest = open.newest();
        let (offset, entries) = open.sorted_entries();
        let described = values.write_footer(&segment, offset as u32, entries, newest, true)?;
        values.count_sealed(&described);
        let entries = entries.to_vec();
        self.sealed.push(Output { described, entries });
        self.open = None;
        Ok(())
    }

    /// Removes all segments that were written: no table names them.
    pub(super) fn discard(mut self) {
        let sealed = std::mem::take(&mut self.sealed);
        let open = self.open.take().map(|open| open.segment.number);
        for number in sealed.iter().map(|output| output.described.number).chain(open) {
            // A later job returns a place that cannot be released now.
            let _ = self.values.remove(number);
        }
    }

    /// Replaces the victims by the segments that were written, on the device and for readers.
    ///
    /// # Errors
    /// The device's. The victims are still there then, unless the failure is one of returning their
    /// room to the device.
    pub(super) fn exchange(&mut self, victims: &[Victim<'_>]) -> Result<()> {
        let outputs = &self.sealed;
        let victims: Vec<Described> = victims.iter().map(|victim| *victim.described).collect();
        let numbers: Vec<u64> = victims.iter().map(|victim| victim.number).collect();
        self.is_committing = true;
        self.values.commit_exchange(outputs.iter().map(|output| output.described), &victims)?;
        self.values.show_exchange(self.group, outputs, &numbers);
        let copied: u64 = outputs.iter().map(|output| output.described.end() as u64).sum();
        let counts = self.values.counts();
        counts.copied_bytes.fetch_add(copied, Relaxed);
        counts.collected.fetch_add(victims.len() as u64, Relaxed);
        let victim_bytes: u64 = victims.iter().map(|victim| victim.end() as u64).sum();
        self.returned_bytes = victim_bytes.saturating_sub(copied);
        // They belong to the store from now on.
        self.sealed = Vec::new();
        let mut released = Ok(());
        for victim in &victims {
            released = released.and(self.values.remove(victim.number));
        }
        self.values.failures.noted(released)
    }
}

impl Drop for Outputs<'_> {
    fn drop(&mut self) {
        let segment_bytes = u64::from(self.values.geometry.segment_bytes);
        self.values.bound.release(self.taken * segment_bytes);
    }
}

impl Values {
    /// Commits an edit that adds segments and removes others.
    fn commit_exchange(
        &self,
        outputs: impl Iterator<Item = Described>,
        victims: &[Described],
    ) -> Result<()> {
        // No flush notes bytes as durable between the sync and the commit.
        let _flusher = self.gates.flusher.lock();
        self.failures.health.check_writable()?;
        let committed = self
            .sync_and_commit()
            .and_then(|()| self.with_table(|table| table.exchange(outputs.collect(), victims)));
        self.failures.noted(committed)
    }

    /// Returns a copy of a group's directory without the victims and with room for the outputs, if
    /// the directory would be made again otherwise while the group is locked. Only a job adds
    /// segments to a directory, and a store has one job at a time.
    fn copy_of_directory(
        &self,
        group: &Group,
        outputs: &[Output],
        victims: &[u64],
    ) -> Option<Arc<Directory>> {
        let added = outputs.iter().map(|output| output.entries.len()).sum();
        let directory = group.state.lock().directory.clone()?;
        let is_tight = directory.is_tight(victims, added);
        is_tight.then(|| Arc::new(directory.copy_without(victims, added)))
    }

    /// Shows new segments to readers, in the place of others.
    fn show_exchange(&self, group: &Group, outputs: &[Output], victims: &[u64]) {
        let copy = self.copy_of_directory(group, outputs, victims);
        let mut state = group.state.lock();
        for number in victims {
            state.sealed.remove(number);
        }
        let before = state.directory_bytes();
        if let (Some(copy), Some(directory)) = (copy, &mut state.directory) {
            *directory = copy;
        }
        let had_none = state.directory.is_none() && !state.has_base_segments();
        if had_none {
            state.directory = Some(Arc::new(Directory::with_room(0, self.geometry.segment_bytes)));
        }
        for output in outputs {
            state.sealed.insert(output.described.number, output.described);
            let records = output.entries.iter().map(|entry| (entry.hash, entry.offset));
            let directory = state.directory.as_mut().and_then(Arc::get_mut);
            let is_added =
                directory.is_some_and(|directory| directory.add(output.described.number, records));
            if !is_added {
                state.directory = None;
            }
        }
        if let Some(directory) = state.directory.as_mut().and_then(Arc::get_mut) {
            directory.remove(victims);
        }
        state.version += 1;
        let records = state.records();
        state.keys.note_records(records);
        let after = state.directory_bytes();
        self.accounts.directories.add(after);
        self.accounts.directories.release(before);
    }
}
