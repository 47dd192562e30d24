//! Flushes of write buffers, and the barrier of the index.
//!
//! 1. Each group's buffers are cut, under the group's lock.
//! 2. The host's barrier is called with the largest cut number (law L3).
//! 3. The cut parts are written. A part whose write failed stays cut. The next flush writes it
//!    first, with the same bytes, and cuts no further part before.
//! 4. Segments without room get their footers, and are sealed in the segment table.
//!
//! The barrier of the index then syncs the volumes and commits the segment table. It waits for I/O
//! in progress and for no task of the pool.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use codec::SeqNo;
use engine::{Barrier, Result};

use super::group::{Group, GroupState};
use super::open_segment::{Frozen, OpenSegment};
use super::{Segment, Values};
use crate::segment::footer;
use crate::segment_table::{Described, State};
use crate::volumes::overlapped::Part;

/// A part that is to be written, and the group of its segment.
struct Cut {
    group: Arc<Group>,
    segment: Arc<Segment>,
    frozen: Frozen,
}

impl Cut {
    fn part(&self) -> Part<'_> {
        let (place, offset) = (self.segment.place, self.frozen.begin as u64);
        Part { place, offset, bytes: &self.frozen.bytes }
    }
}

impl Values {
    /// Writes the buffers of the fullest groups, until at most `bytes` are left. Then seals the
    /// segments with the most entries, until these take at most `entry_bytes` of memory.
    ///
    /// # Errors
    /// The journal's, the device's. The parts that were not written stay in memory.
    pub(crate) fn flush_down_to(&self, bytes: u64, entry_bytes: u64) -> Result<()> {
        let _flusher = self.gates.flusher.lock();
        let fullest = self.fullest(bytes, GroupState::buffered);
        self.failures.noted(self.flush_locked(&fullest, SeqNo::ZERO))?;
        if self.entry_bytes() <= entry_bytes {
            return Ok(());
        }
        // A group is left if there is no space for its next segment.
        let fullest = self.fullest(0, GroupState::entry_bytes);
        let (mut left, mut chosen) = (self.entry_bytes(), Vec::new());
        for group in fullest {
            if left <= entry_bytes {
                break;
            }
            left = left.saturating_sub(self.try_end_open(&group));
            chosen.push(group);
        }
        self.failures.noted(self.flush_locked(&chosen, SeqNo::ZERO)).map(|_| ())
    }

    /// Returns the groups with the most bytes, without which at most `left` bytes remain.
    fn fullest(&self, left: u64, bytes: impl Fn(&GroupState) -> u64) -> Vec<Arc<Group>> {
        let mut groups: Vec<_> =
            self.groups.iter().map(|group| (bytes(&group.state.lock()), group)).collect();
        groups.sort_unstable_by_key(|(bytes, _)| Reverse(*bytes));
        let mut all = groups.iter().map(|(bytes, _)| bytes).sum::<u64>();
        let fullest = groups.into_iter().take_while(|(bytes, _)| {
            let is_wanted = all > left;
            all -= bytes;
            is_wanted
        });
        fullest.map(|(_, group)| Arc::clone(group)).collect()
    }

    /// Writes the buffers of these groups. `number` is the number that the journal must reach at
    /// least. Returns the number that it has reached. The caller has the flusher's lock.
    fn flush_locked(&self, groups: &[Arc<Group>], number: SeqNo) -> Result<SeqNo> {
        self.failures.health.check_writable()?;
        let failed = cut_parts(groups, |_| {});
        if !failed.is_empty() {
            self.write_parts(&failed, SeqNo::ZERO)?;
        }
        let cuts = cut_parts(groups, OpenSegment::cut);
        let reached = self.write_parts(&cuts, number)?;
        if !cuts.is_empty() {
            self.counts.flushes.fetch_add(1, Relaxed);
        }
        groups.iter().try_for_each(|group| self.seal_full(group))?;
        Ok(reached)
    }

    /// Writes parts, once the journal has reached their numbers and `number`. Returns the number
    /// that it has reached.
    fn write_parts(&self, cuts: &[Cut], number: SeqNo) -> Result<SeqNo> {
        let newest = cuts.iter().map(|cut| cut.frozen.newest).max().unwrap_or(SeqNo::ZERO);
        let reached = self.links.barrier.reach(number.max(newest))?;
        if let Some(largest) = cuts.iter().map(|cut| cut.segment.number).max() {
            self.reserve_number(largest)?;
        }
        let parts: Vec<Part<'_>> = cuts.iter().map(Cut::part).collect();
        // Each is copied. The shares of the memory have room for copies of two segments.
        let bytes_max = 2 * self.geometry.segment_bytes as usize;
        self.volumes.write_parts(&parts, bytes_max, &mut |index| {
            let Some(cut) = cuts.get(index) else { return Ok(()) };
            self.note_end(&cut.segment, cut.frozen.begin + cut.frozen.bytes.len())?;
            self.counts.flushed_bytes.fetch_add(cut.frozen.bytes.len() as u64, Relaxed);
            self.note_written(cut);
            Ok(())
        })?;
        Ok(reached)
    }

    /// Notes that a segment is written up to `end`, for the next commit of the table, which follows
    /// a sync.
    fn note_end(&self, segment: &Segment, end: usize) -> Result<()> {
        let Segment { number, range, place, .. } = *segment;
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
        self.accounts.buffers.release(counted);
        self.counts.buffered.fetch_sub(counted, Relaxed);
    }

    /// Seals the segments of a group that are full and on the device.
    fn seal_full(&self, group: &Group) -> Result<()> {
        loop {
            let mut state = group.state.lock();
            let Some(full) = state.full.iter_mut().find(|full| full.is_written()) else {
                return Ok(());
            };
            // A job finds the entries here until the segment is sealed.
            let (segment, newest) = (Arc::clone(&full.segment), full.newest());
            let (offset, entries) = full.sorted_entries();
            let entries = entries.to_vec();
            drop(state);
            let sealed = self.write_footer(&segment, offset as u32, &entries, newest, false)?;
            self.note_sealed(sealed)?;
            let mut state = group.state.lock();
            let at = state.full.iter().position(|full| full.segment.number == segment.number);
            let released = at.map_or(0, |at| state.full.remove(at).entry_bytes());
            drop(state);
            self.accounts.entries.release(released);
        }
    }

    /// Seals the segments that accept records, for a close: the next opening examines no segment
    /// that is sealed and durable in the index. Records in buffers are dropped. The journal has
    /// them, or the store has none.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn seal_all(&self) -> Result<()> {
        let _flusher = self.gates.flusher.lock();
        if self.failures.health.has_failed() {
            return Ok(());
        }
        for group in &self.groups {
            let mut state = group.state.lock();
            let open = state.open.take();
            state.full.extend(open);
            let is_cut = |full: &&OpenSegment| full.frozen().is_some();
            let cut = state.full.iter().filter(is_cut).map(|full| full.segment.number);
            let cut: Vec<u64> = cut.collect();
            state.full.iter_mut().for_each(OpenSegment::drop_unwritten);
            state.full.retain(|full| !full.entries().is_empty());
            drop(state);
            self.seal_full(group)?;
            // A part whose write has failed may have left bytes behind the footer.
            let sealed = group.state.lock().sealed.clone();
            for sealed in cut.iter().filter_map(|number| sealed.get(number)) {
                self.volumes.trim(sealed.place, sealed.end())?;
            }
        }
        self.sync_and_commit()
    }

    /// Writes a footer behind `records_bytes` bytes of records, which are on the device. Returns
    /// the sealed segment.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn write_footer(
        &self,
        segment: &Segment,
        records_bytes: u32,
        entries: &[footer::Entry],
        newest: SeqNo,
        is_base: bool,
    ) -> Result<Described> {
        let count = entries.len() as u32;
        let Segment { number, range, place, .. } = *segment;
        let bytes = footer::encode(entries, number, records_bytes as usize, self.geometry.store);
        self.volumes.write(place, u64::from(records_bytes), &bytes)?;
        self.counts.sealed.fetch_add(1, Relaxed);
        self.counts.footer_bytes.fetch_add(bytes.len() as u64, Relaxed);
        let state = State::Sealed { records_bytes, entries: count, newest, is_base };
        Ok(Described { number, range, place, state })
    }
}

/// Returns the parts of these groups that are cut, once `cut` was called for each segment.
fn cut_parts(groups: &[Arc<Group>], cut: impl Fn(&mut OpenSegment)) -> Vec<Cut> {
    let mut cuts = Vec::new();
    for group in groups {
        for unsealed in group.state.lock().unsealed() {
            cut(unsealed);
            let segment = &unsealed.segment;
            cuts.extend(unsealed.frozen().map(|frozen| {
                let (group, segment) = (Arc::clone(group), Arc::clone(segment));
                Cut { group, segment, frozen: frozen.clone() }
            }));
        }
    }
    cuts
}

/// The barrier of the index.
impl Barrier for Values {
    fn reach(&self, number: SeqNo) -> Result<SeqNo> {
        let _flusher = self.gates.flusher.lock();
        let examined = self.finish_examination_locked();
        let reached = examined.and_then(|()| self.flush_locked(&self.groups, number));
        let noted = self.with_table(|table| {
            table.note_index();
            Ok(())
        });
        let reached = noted.and(reached);
        let reached = reached.and_then(|reached| self.sync_and_commit().map(|()| reached));
        let reached = self.failures.noted(reached);
        let reached = reached.inspect_err(|error| self.failures.note_barrier(error))?;
        self.failures.forget_flush();
        Ok(number.min(reached))
    }

    fn is_journaled(&self) -> bool {
        self.links.barrier.is_journaled()
    }

    fn holds(&self, newest: SeqNo) {
        self.links.barrier.holds(newest);
    }
}
