//! Opens a journal: recovers its records, then makes the handle.

use std::collections::VecDeque;
use std::sync::Arc;

use codec::SeqNo;
use device::Device;
use environment::{Environment, LongWaits};
use sync::atomic::AtomicU64;
use sync::{Condvar, Mutex};

use crate::error::{OpenError, Visit};
use crate::files::Found;
use crate::journal::{Journal, Segment, State};
use crate::options::Options;
use crate::recover::{Known, Recovered, recover};
use crate::stats::Stats;
use crate::store::{LocalSegments, SegmentStore};

/// The findings of an opening.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The last record in the journal; zero if there never was one.
    pub last: SeqNo,
    /// Records handed to `replay`.
    pub replayed: u64,
    /// Segments found.
    pub segments: u64,
    /// Whether the journal had been closed in order.
    pub closed: bool,
    /// The tail that was cut from the newest segment.
    pub cut: Option<Cut>,
}

/// A tail that is not whole: the last writes before a crash, none of them acknowledged as synced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The segment.
    pub file: String,
    /// The end of the whole records.
    pub offset: u64,
    /// Bytes that were cut from there.
    pub bytes: u64,
}

impl Journal {
    /// Opens the journal in the directory `dir` of `device`, or creates it, and hands every record
    /// whose number is above `after`, in order, to `replay`. Records that `replay` gets can no
    /// longer be lost. On return the journal is empty in memory and appends go to a new segment.
    ///
    /// `after` must be at least the number last passed to [`Journal::trim`]. Numbers appended from
    /// now on must be above both `after` and [`Recovery::last`]. A journal that is made here begins
    /// behind `after`, like one that was trimmed to there.
    ///
    /// Costs reading every segment above `after` twice (to verify before anything is changed, and
    /// to replay), writing again all records that are not known to be synced, and a few syncs.
    ///
    /// # Errors
    /// [`OpenError`]. A damaged or incomplete journal is not opened and not altered.
    pub fn open(
        device: Arc<dyn Device>,
        dir: &str,
        options: Options,
        environment: &Environment,
        after: SeqNo,
        replay: &mut Visit<'_>,
    ) -> Result<(Self, Recovery), OpenError> {
        let store = Arc::new(LocalSegments::new(device, dir));
        Self::open_in(store, options, environment, after, replay)
    }

    /// The same with its segments in `store`.
    ///
    /// # Errors
    /// As [`Journal::open`].
    pub fn open_in(
        store: Arc<dyn SegmentStore>,
        options: Options,
        environment: &Environment,
        after: SeqNo,
        replay: &mut Visit<'_>,
    ) -> Result<(Self, Recovery), OpenError> {
        let known = Known { after, reached: options.reached, id: options.id };
        let recovered = recover(&*store, environment, &known, replay)?;
        let recovery = recovered.recovery.clone();
        let alignment = recovered.file.alignment();
        let journal = Self {
            store,
            options: options.checked(alignment),
            environment: environment.clone(),
            alignment,
            state: Mutex::new(State::new(recovered, after)),
            written: Condvar::new(),
            writes: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            synced: [Condvar::new(), Condvar::new()],
            trimming: Mutex::new(()),
            group_waits: LongWaits::default(),
        };
        Ok((journal, recovery))
    }
}

impl State {
    fn new(recovered: Recovered, after: SeqNo) -> Self {
        let Recovered { last: last_record, segments, file, active, random, .. } = recovered;
        let last = last_record.max(after);
        Self {
            last,
            last_record,
            flushed: last,
            synced: last,
            written_end: active.start(),
            synced_end: active.start(),
            marked_end: active.start(),
            unwritten: None,
            has_lacked_room: false,
            is_ending: false,
            opens: None,
            memory: Vec::new(),
            file,
            existing: segments.last().map_or(0, |newest| newest.header.index),
            id: segments.last().map_or(0, |newest| newest.header.journal),
            segments: lengths(&segments, last_record, active.start()),
            active,
            random,
            writing: false,
            looking: false,
            syncing: false,
            sync_turn: 0,
            sync_covers: None,
            closing: false,
            stopped: None,
            stats: Stats::default(),
            flushed_records: 0,
        }
    }
}

/// Returns the segments as an open journal keeps them: each ends where the header of the next says,
/// the newest at `end`, after the record `last`.
fn lengths(found: &[Found], last: SeqNo, end: u64) -> VecDeque<Segment> {
    let followers = found.iter().skip(1);
    let ends = followers.map(|next| (next.header.previous_last, next.header.previous_end));
    let segments = found.iter().zip(ends.chain([(last, end)]));
    segments
        .map(|(found, (last, bytes))| Segment { index: found.header.index, last, bytes })
        .collect()
}
