//! The handle: the state of an open journal, and its figures.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use codec::SeqNo;
use device::File;
use environment::{Environment, LongWaits, Random};
use sync::atomic::AtomicU64;
use sync::atomic::Ordering::Relaxed;
use sync::{Condvar, Mutex};

use crate::error::{Error, Result};
use crate::options::Options;
use crate::rotate::Taken;
use crate::segment::{Group, NewSegment};
use crate::stats::Stats;
use crate::store::SegmentStore;

/// An open journal. Many threads may call all methods at the same time. Dropping it without
/// [`Journal::close`] is like a killed process: records that were not flushed are lost.
///
/// # Concurrency
/// One lock guards `State`; it is never held over I/O. Two *roles* are taken under it. The writer
/// does one write at a time, so that groups reach the file in order. The syncer does one sync at a
/// time, because the kernel reports a failed sync to one caller only. A thread that holds both
/// begins a segment. A thread that holds the syncer's role may wait for the writer's, never the
/// other way.
pub struct Journal {
    pub(crate) store: Arc<dyn SegmentStore>,
    pub(crate) options: Options,
    pub(crate) environment: Environment,
    pub(crate) alignment: usize,
    pub(crate) state: Mutex<State>,
    /// Notified when the writer's role is released.
    pub(crate) written: Condvar,
    /// Number of times that it was, for a thread that reads it without the lock.
    pub(crate) writes: AtomicU64,
    /// Segments that were planned since opening, for a look without the lock.
    pub(crate) begun: AtomicU64,
    /// Notified when the syncer's role is released after a turn of even and of odd number.
    pub(crate) synced: [Condvar; 2],
    /// Held by the thread that removes segments.
    pub(crate) trimming: Mutex<()>,
    /// Long waits of appends for a full group.
    pub(crate) group_waits: LongWaits,
}

/// The part that the journal's lock guards.
#[derive(Debug)]
pub(crate) struct State {
    /// The last record appended, or the number at opening behind which all records are appended
    /// now.
    pub(crate) last: SeqNo,
    /// The last record that really is in the journal.
    pub(crate) last_record: SeqNo,
    /// The last record in the kernel.
    pub(crate) flushed: SeqNo,
    /// The last record on the device.
    pub(crate) synced: SeqNo,
    /// Frames not yet taken by a writer.
    pub(crate) active: Group,
    /// A group that there was no room for: it is written unchanged, before any other.
    pub(crate) unwritten: Option<Taken>,
    /// Whether there was such a group since a segment was last ended or removed.
    pub(crate) has_lacked_room: bool,
    /// Whether the newest segment ends with the next group that is taken, whatever its length is.
    pub(crate) is_ending: bool,
    /// The segment that must be created before the active group is written.
    pub(crate) opens: Option<NewSegment>,
    /// The other buffer, unless a writer has it.
    pub(crate) memory: Vec<u8>,
    /// The newest segment that exists.
    pub(crate) file: Arc<dyn File>,
    /// Its index. While the group that begins the next one is being written, `opens` is taken and
    /// `segments` names a file that is not there yet: this alone says which is.
    pub(crate) existing: u64,
    /// The end of the last write to `file`.
    pub(crate) written_end: u64,
    /// The active group's segment is synced below this.
    pub(crate) synced_end: u64,
    /// The last watermark that was encoded in the active group's segment.
    pub(crate) marked_end: u64,
    /// The segments, oldest first, with the one that `opens` says.
    pub(crate) segments: VecDeque<Segment>,
    /// The journal's id.
    pub(crate) id: u64,
    /// The source of salts.
    pub(crate) random: Random,
    /// Whether a thread has the writer's role.
    pub(crate) writing: bool,
    /// Whether a thread that will take the writer's role spins until it is released.
    pub(crate) looking: bool,
    /// Whether a thread has the syncer's role.
    pub(crate) syncing: bool,
    /// The number of the sync that is under way, or will be next.
    pub(crate) sync_turn: u64,
    /// The last record that the sync under way covers, once that is fixed; those appended before
    /// that moment are covered.
    pub(crate) sync_covers: Option<SeqNo>,
    /// Whether appends are refused because the journal is being closed, or is.
    pub(crate) closing: bool,
    /// The failure that stopped the journal, or `Closed`.
    pub(crate) stopped: Option<Error>,
    pub(crate) stats: Stats,
    /// How many of the records counted in `stats` are flushed.
    pub(crate) flushed_records: u64,
}

/// One segment of an open journal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) index: u64,
    /// The last record in it or before it.
    pub(crate) last: SeqNo,
    /// Its length; of the active group's, up to that group.
    pub(crate) bytes: u64,
}

impl State {
    /// Refuses once stopped.
    pub(crate) fn check(&self) -> Result<()> {
        self.stopped.clone().map_or(Ok(()), Err)
    }

    /// The same, and once closing.
    pub(crate) fn check_open(&self) -> Result<()> {
        self.check()?;
        if self.closing { Err(Error::Closed) } else { Ok(()) }
    }

    /// Returns the segment of the active group.
    pub(crate) fn newest(&mut self) -> &mut Segment {
        self.segments.back_mut().expect("a journal has a segment")
    }

    /// Stops the journal; the first cause stays.
    pub(crate) fn stop(&mut self, cause: device::Error) -> Error {
        self.stopped.get_or_insert(Error::Stopped { cause }).clone()
    }
}

impl fmt::Debug for Journal {
    /// Formats the journal's place, and nothing of its content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").field("store", &self.store).finish_non_exhaustive()
    }
}

impl Journal {
    /// Returns the last record that a killed process would not lose.
    pub fn flushed(&self) -> SeqNo {
        self.state.lock().flushed
    }

    /// Returns the last record that a power cut would not lose.
    pub fn synced(&self) -> SeqNo {
        self.state.lock().synced
    }

    /// Returns the last record appended; after opening, the last one recovered, or `after` if that
    /// is more.
    pub fn last(&self) -> SeqNo {
        self.state.lock().last
    }

    /// Returns the last record that is in the journal, or was trimmed. No effect of a later number
    /// may be durable.
    pub fn last_record(&self) -> SeqNo {
        self.state.lock().last_record
    }

    /// Segments that were begun since opening. Costs one load, so that a writer can look after each
    /// write whether the journal has grown by a segment.
    #[inline]
    pub fn segments_begun(&self) -> u64 {
        self.begun.load(Relaxed)
    }

    /// Returns whether records are kept in memory that could not be written, for lack of room or of
    /// a file descriptor.
    pub fn lacks_room(&self) -> bool {
        self.state.lock().unwritten.is_some()
    }

    /// Returns whether records could not be written since the last trim that released room. Such a
    /// journal is trimmed however short it is.
    pub fn has_lacked_room(&self) -> bool {
        let state = self.state.lock();
        state.has_lacked_room || state.unwritten.is_some()
    }

    /// Returns the bytes of the records that could not be written.
    pub fn unwritten_bytes(&self) -> u64 {
        self.state.lock().unwritten.as_ref().map_or(0, Taken::bytes)
    }

    /// Returns the bytes in all segments, and waiting in memory to be written to them.
    pub fn bytes(&self) -> u64 {
        self.stats().bytes
    }

    /// Returns counts of the journal's work since it was opened.
    pub fn stats(&self) -> Stats {
        let state = self.state.lock();
        let on_disk: u64 = state.segments.iter().map(|segment| segment.bytes).sum();
        Stats {
            segments: state.segments.len() as u64,
            bytes: on_disk + state.active.len() as u64,
            group_waits: self.group_waits.counts(),
            ..state.stats
        }
    }
}
