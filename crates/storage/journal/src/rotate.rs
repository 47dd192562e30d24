//! Takes groups from the append path to the files, and moves from one segment to the next.
//!
//! A group is in one segment. Taking the group that fills a segment makes the next active group
//! begin a new one, whose header is then complete: it has the end of the old one. Its file is
//! created when its first group is written:
//!
//! 1. sync the old segment: it is whole from now on;
//! 2. write the header under an unfinished name, sync the file;
//! 3. rename it, sync the directory;
//! 4. note in `END` that it exists;
//! 5. write the group.

use std::sync::Arc;

use codec::SeqNo;
use device::{File, SyncKind};
use rand::Rng;
use sync::MutexGuard;
use sync::atomic::Ordering::Relaxed;

use crate::end::{self, End};
use crate::error::Result;
use crate::journal::{Journal, Segment, State};
use crate::segment::{Group, Kind, NewSegment, SECTOR_BYTES, SegmentHeader, Unfinished};

/// A group on its way to the file.
#[derive(Debug)]
pub(crate) struct Taken {
    group: Group,
    /// The segment to create first.
    pub(crate) opens: Option<NewSegment>,
    /// The newest segment that exists.
    file: Arc<dyn File>,
    /// The last record in the group or before it.
    last: SeqNo,
}

impl Taken {
    /// Returns the bytes that are written to the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.group.len() as u64
    }
}

impl Journal {
    /// Ends the active group with a mark of the kind `end` and takes it away; an empty one succeeds
    /// it. A seal is left out if it would have no new information and nothing needs padding; at the
    /// journal's end it never is, and no segment is begun.
    pub(crate) fn take(&self, state: &mut State, end: Kind) -> Taken {
        let news = self.alignment > 1 || state.synced_end > state.marked_end;
        let (synced, sector) = (state.synced_end, self.alignment.max(SECTOR_BYTES));
        match end {
            Kind::Close => {
                // So that the close itself chains from nothing in another sector.
                state.active.append_mark(Kind::LastSeal, synced, 1);
                state.active.append_mark(end, synced, sector);
            }
            Kind::LastSeal => state.active.append_mark(end, synced, sector),
            _ if state.active.len() > 0 && news => {
                state.active.append_mark(end, synced, self.alignment);
                state.marked_end = synced;
            }
            _ => {}
        }
        let last = state.last;
        let opens = state.opens.take();
        let (last_record, bytes) = (state.last_record, state.active.end());
        let newest = state.newest();
        newest.last = last_record;
        newest.bytes = bytes;
        let memory = std::mem::take(&mut state.memory);
        let is_full = state.is_ending || state.active.end() >= self.options.segment_bytes;
        let following = if !is_full || end != Kind::Seal {
            let active = &state.active;
            Group::new(active.seed(), active.end(), active.chain(), memory)
        } else {
            self.plan_segment(state, memory)
        };
        let group = std::mem::replace(&mut state.active, following);
        Taken { group, opens, file: state.file.clone(), last }
    }

    /// Plans the segment after the active group's, and returns the group that will begin it.
    fn plan_segment(&self, state: &mut State, memory: Vec<u8>) -> Group {
        state.is_ending = false;
        let index = state.newest().index + 1;
        let header = SegmentHeader {
            journal: state.id,
            index,
            salt: state.random.next_u64(),
            previous_end: state.active.end(),
            previous_chain: state.active.chain(),
            previous_last: state.last_record,
        };
        let segment = NewSegment::new(header, self.alignment);
        let group = segment.first_group(memory);
        state.segments.push_back(Segment { index, last: state.last_record, bytes: group.start() });
        state.synced_end = group.start();
        state.marked_end = group.start();
        state.opens = Some(segment);
        self.begun.fetch_add(1, Relaxed);
        group
    }

    /// Writes a group, without the lock. Returns its file. If the failure may be temporary, the
    /// same call may be repeated, with the same effect: the same bytes in the same place. If the
    /// group begins the segment, that is made again.
    pub(crate) fn write_taken(&self, taken: &Taken) -> device::Result<Arc<dyn File>> {
        let file = match &taken.opens {
            None => taken.file.clone(),
            Some(segment) => {
                taken.file.sync(SyncKind::Data)?;
                let index = segment.header.index;
                let unfinished = Unfinished::new(&*self.store, index)?;
                unfinished.begin(segment)?;
                let file = unfinished.finish()?;
                end::note(&*self.store, &End::beginning(&segment.header))?;
                file
            }
        };
        if taken.group.len() > 0 {
            file.write_at(taken.group.start(), taken.group.frames())?;
        }
        Ok(file)
    }

    /// Makes known that a group was written to `file`.
    pub(crate) fn publish_written(&self, state: &mut State, taken: Taken, file: Arc<dyn File>) {
        if let Some(segment) = &taken.opens {
            state.existing = segment.header.index;
            state.publish_synced(segment.header.previous_last, state.flushed_records);
        }
        state.file = file;
        state.flushed = taken.last;
        state.flushed_records += taken.group.records();
        state.written_end = taken.group.end();
        state.stats.groups += 1;
        state.stats.group_bytes += taken.group.len() as u64;
        let memory = taken.group.into_memory();
        // Memory that one huge record made grow is released.
        if memory.capacity() <= self.options.buffer_bytes.saturating_mul(4) {
            state.memory = memory;
        }
    }

    /// Ends the newest segment, and begins another one: all records so far are in segments that a
    /// trim may remove. They are synced on return. For a caller that no longer trusts the place of
    /// the segments.
    ///
    /// # Errors
    /// [`crate::Error::Stopped`], [`crate::Error::NoRoom`], [`crate::Error::Closed`].
    pub fn rotate(&self) -> Result<()> {
        let mut state = self.state.lock();
        state.check_open()?;
        let newest = state.newest().index;
        state.is_ending = true;
        while state.existing <= newest {
            // A group that is taken here plans the segment, and the next group begins it.
            let last = state.last;
            self.sync_upto(&mut state, last)?;
            self.wait_for_both_roles(&mut state)?;
            // A group that found no room may be the first one of the next segment.
            match state.unwritten {
                Some(_) => self.write_group(&mut state)?,
                None => self.begin_segment(&mut state)?,
            }
        }
        Ok(())
    }

    /// Begins a new segment now, planned already or not, if everything in the newest is synced;
    /// else does nothing. The caller holds no role.
    pub(crate) fn begin_segment(&self, state: &mut MutexGuard<'_, State>) -> Result<()> {
        self.wait_for_both_roles(state)?;
        if state.active.len() > 0 || state.unwritten.is_some() {
            return Ok(());
        }
        if state.opens.is_none() {
            let memory = std::mem::take(&mut state.memory);
            state.active = self.plan_segment(state, memory);
        }
        state.syncing = true;
        let result = self.write_active(state, Kind::Seal);
        self.return_sync_role(state);
        result
    }
}
