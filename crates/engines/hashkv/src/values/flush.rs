//! Flushes of write buffers, and the barrier of the index.
//!
//! 1. Each group's buffers are cut, under the group's lock.
//! 2. The host's barrier is called with the largest cut number (law L3).
//! 3. The cut parts are written. A part whose write failed stays cut, and is written by the next
//!    flush with the same bytes.
//! 4. Segments without room get their footers, and are sealed in the segment table.
//!
//! The barrier of the index then syncs the volumes and commits the segment table. It waits for I/O
//! in progress and for no task of the pool.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use codec::SeqNo;
use engine::{Barrier, Result};

use super::group::Group;
use super::open_segment::{Frozen, OpenSegment};
use super::{Segment, Values};
use crate::segment::footer;
use crate::segment_table::{Described, State};

/// A part that is to be written, and the group of its segment.
struct Cut {
    group: Arc<Group>,
    segment: Arc<Segment>,
    frozen: Frozen,
}

impl Values {
    /// Writes the buffers of the fullest groups, until at most `bytes` are left.
    ///
    /// # Errors
    /// The journal's, the device's. The parts that were not written stay in memory.
    pub(crate) fn flush_down_to(&self, bytes: u64) -> Result<()> {
        let buffered = |group: &Arc<Group>| (group.state.lock().buffered(), Arc::clone(group));
        let mut groups: Vec<_> = self.groups.iter().map(buffered).collect();
        groups.sort_unstable_by_key(|(buffered, _)| Reverse(*buffered));
        let mut left = groups.iter().map(|(buffered, _)| buffered).sum::<u64>();
        let fullest = groups.into_iter().take_while(|(buffered, _)| {
            let is_wanted = left > bytes;
            left -= buffered;
            is_wanted
        });
        let fullest: Vec<_> = fullest.map(|(_, group)| group).collect();
        let _flusher = self.flusher.lock();
        self.noted(self.flush_locked(&fullest, SeqNo::ZERO)).map(|_| ())
    }

    /// Writes the buffers of these groups. `number` is the number that the journal must reach at
    /// least. Returns the number that it has reached. The caller has the flusher's lock.
    fn flush_locked(&self, groups: &[Arc<Group>], number: SeqNo) -> Result<SeqNo> {
        let mut cuts = Vec::new();
        for group in groups {
            for unsealed in group.state.lock().unsealed() {
                let segment = Arc::clone(&unsealed.segment);
                cuts.extend(unsealed.freeze().map(|frozen| {
                    let (group, segment) = (Arc::clone(group), Arc::clone(&segment));
                    Cut { group, segment, frozen }
                }));
            }
        }
        let newest = cuts.iter().map(|cut| cut.frozen.newest).max().unwrap_or(SeqNo::ZERO);
        let reached = self.barrier.reach(number.max(newest))?;
        if let Some(largest) = cuts.iter().map(|cut| cut.segment.number).max() {
            self.reserve_number(largest)?;
        }
        for cut in &cuts {
            self.volumes.write(cut.segment.place, cut.frozen.begin as u64, &cut.frozen.bytes)?;
            self.note_end(&cut.segment, cut.frozen.begin + cut.frozen.bytes.len())?;
            self.counts.flushed_bytes.fetch_add(cut.frozen.bytes.len() as u64, Relaxed);
            self.note_written(cut);
        }
        if !cuts.is_empty() {
            self.counts.flushes.fetch_add(1, Relaxed);
        }
        groups.iter().try_for_each(|group| self.seal_full(group))?;
        Ok(reached)
    }

    /// Notes that a segment is written up to `end`, for the next commit of the table, which follows
    /// a sync.
    fn note_end(&self, segment: &Segment, end: usize) -> Result<()> {
        let Segment { number, range, place } = *segment;
        let state = State::Open { durable_bytes: end as u32 };
        self.with_table(|table| {
            table.put(Described { number, range, place, state });
            Ok(())
        })
    }

    fn note_written(&self, cut: &Cut) {
        let mut state = cut.group.state.lock();
        let found = state.unsealed().find(|one| one.segment.number == cut.segment.number);
        let counted = found.map_or(0, OpenSegment::note_written);
        drop(state);
        self.buffers.release(counted);
        self.counts.buffered.fetch_sub(counted, Relaxed);
    }

    /// Seals the segments of a group that are full and on the device.
    fn seal_full(&self, group: &Group) -> Result<()> {
        loop {
            let mut state = group.state.lock();
            let Some(at) = state.full.iter().position(OpenSegment::is_written) else {
                return Ok(());
            };
            let mut full = state.full.remove(at);
            drop(state);
            if let Err(error) = self.seal(&mut full) {
                group.state.lock().full.insert(0, full);
                return Err(error);
            }
            self.entries.release(full.entries_bytes());
        }
    }

    /// Writes the footer of a segment, whose records are on the device, and notes it as sealed.
    fn seal(&self, full: &mut OpenSegment) -> Result<()> {
        let (segment, newest) = (Arc::clone(&full.segment), full.newest());
        let (offset, entries) = full.sorted_entries();
        self.write_footer(&segment, offset as u32, entries, newest)
    }

    /// Writes a footer behind `records_bytes` bytes of records, and notes the segment as sealed.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn write_footer(
        &self,
        segment: &Segment,
        records_bytes: u32,
        entries: &[footer::Entry],
        newest: SeqNo,
    ) -> Result<()> {
        let count = entries.len() as u32;
        let Segment { number, range, place } = *segment;
        let bytes = footer::encode(entries, number, records_bytes as usize, self.geometry.store);
        self.volumes.write(place, u64::from(records_bytes), &bytes)?;
        self.counts.sealed.fetch_add(1, Relaxed);
        self.counts.footer_bytes.fetch_add(bytes.len() as u64, Relaxed);
        let state = State::Sealed { records_bytes, entries: count, newest };
        self.with_table(|table| {
            table.put(Described { number, range, place, state });
            Ok(())
        })
    }
}

/// The barrier of the index.
impl Barrier for Values {
    fn reach(&self, number: SeqNo) -> Result<SeqNo> {
        let _flusher = self.flusher.lock();
        let reached = self.flush_locked(&self.groups, number);
        let reached = reached.and_then(|reached| self.sync_and_commit().map(|()| reached));
        Ok(number.min(self.noted(reached)?))
    }

    fn is_journaled(&self) -> bool {
        self.barrier.is_journaled()
    }

    fn holds(&self, newest: SeqNo) {
        self.barrier.holds(newest);
    }
}
