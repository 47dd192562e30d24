//! Recovery: from whatever a crash left to a journal that can be appended to.
//!
//! 1. List the segments; their indices must follow one another.
//! 2. Read the headers. Segments whose records are all at or below `after` are not read further.
//! 3. Verify the others, from the oldest to the newest, whole. Nothing has been changed so far,
//!    so a damaged journal stays as it was found.
//! 4. Settle the newest: write again, and sync, what no mark says to be synced, and cut what is
//!    not whole. From here on nothing that is replayed can be lost.
//! 5. Replay.
//! 6. Create a new segment, which says where the newest ended. Appends go there.
//!
//! A crash at any point leaves what step 1 can start from again: until step 6 has renamed the new
//! segment nothing but the settling has changed, and that can be repeated.
//!
//! # Why step 4 writes what is there already
//! After a failed sync the kernel may hold pages that it believes to be on the device and that are
//! not. They can be read, and replayed, and a later sync says nothing about them; so only pages
//! that were written again are known to be synced by it.

use std::collections::VecDeque;
use std::sync::Arc;

use codec::SeqNo;
use device::{Device, Mode, SyncKind};
use environment::Environment;
use parking_lot::{Condvar, Mutex};
use rand::Rng;

use crate::error::{OpenError, Visit};
use crate::files::{self, Found};
use crate::journal::{Journal, Segment, State};
use crate::options::Options;
use crate::segment::{self, NewSegment, Scanned, SegmentHeader};
use crate::stats::Stats;

/// Bytes settled at once.
const SETTLE_BYTES: u64 = 1 << 20;

/// What opening found.
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
    /// What was cut from the newest segment.
    pub cut: Option<Cut>,
}

/// A tail that was not whole: the last writes before a crash, none of them acknowledged as synced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The segment.
    pub file: String,
    /// Where the whole records end.
    pub offset: u64,
    /// Bytes that were cut from there.
    pub bytes: u64,
}

impl Journal {
    /// Opens the journal in the directory `dir` of `device`, or creates it, and hands every record
    /// whose number is above `after`, in order, to `replay`. What `replay` is given can no longer
    /// be lost. On return the journal is empty in memory and appends go to a new segment.
    ///
    /// `after` must be at least what was last passed to [`Journal::trim`]. Numbers appended from
    /// now on must be above both `after` and [`Recovery::last`].
    ///
    /// Costs reading every segment above `after` twice (to verify before anything is changed or
    /// replayed, and to replay), writing what is not known to be synced again, and a few syncs.
    ///
    /// # Errors
    /// [`OpenError`]. What is damaged or incomplete is not opened and not altered.
    pub fn open(
        device: Arc<dyn Device>,
        dir: &str,
        options: Options,
        environment: &Environment,
        after: SeqNo,
        replay: &mut Visit<'_>,
    ) -> Result<(Self, Recovery), OpenError> {
        files::make_dir(&*device, dir)?;
        let found = files::find(&*device, dir, Mode::Write)?;
        let needed = needed(&found, after)?;
        let scanned = verify(&found, needed)?;
        let mut recovery = Recovery {
            last: scanned.map_or(SeqNo::ZERO, |scanned| scanned.last),
            replayed: 0,
            segments: found.len() as u64,
            closed: scanned.is_none_or(|scanned| scanned.closed),
            cut: None,
        };
        if let (Some(newest), Some(scanned)) = (found.last(), &scanned) {
            recovery.cut = settle(newest, scanned)?;
        }
        for (at, segment) in found.iter().enumerate().skip(needed) {
            recovery.replayed += replay_segment(segment, found.get(at + 1), after, replay)?;
        }
        files::remove_unfinished(&*device, dir)?;
        let newest = found.last().zip(scanned.as_ref());
        let place =
            Place { device, dir: dir.to_owned(), options, environment: environment.clone() };
        let journal = place.begin(&found, newest, after)?;
        Ok((journal, recovery))
    }
}

/// Where a journal lives and how it is laid out.
struct Place {
    device: Arc<dyn Device>,
    dir: String,
    options: Options,
    environment: Environment,
}

impl Place {
    /// Creates the segment that this life appends to, after the newest that was found.
    fn begin(
        self,
        found: &[Found],
        newest: Option<(&Found, &Scanned)>,
        after: SeqNo,
    ) -> device::Result<Journal> {
        let index = newest.map_or(1, |(newest, _)| newest.header.index + 1);
        // A stream for each index: a simulated environment gives the same numbers every time.
        let mut random = self.environment.random(&format!("journal segment {index}"));
        let header = SegmentHeader {
            journal: newest.map_or_else(|| random.next_u64(), |(newest, _)| newest.header.journal),
            index,
            salt: random.next_u64(),
            previous_end: newest.map_or(0, |(_, scanned)| scanned.end),
            previous_chain: newest.map_or(0, |(_, scanned)| scanned.chain),
            previous_last: newest.map_or(SeqNo::ZERO, |(_, scanned)| scanned.last),
        };
        let unfinished = segment::open_unfinished(&*self.device, &self.dir, index)?;
        let alignment = unfinished.alignment();
        let segment = NewSegment::new(header, alignment);
        let file = segment::finish(&*self.device, &self.dir, &*unfinished, &segment)?;
        let active = segment.first_group(Vec::new());
        let mut segments = segments(found, newest);
        segments.push_back(Segment { index, last: header.previous_last, bytes: active.start() });
        let last = header.previous_last.max(after);
        let state = State {
            last,
            last_record: header.previous_last,
            flushed: last,
            synced: last,
            written_end: active.start(),
            synced_end: active.start(),
            marked_end: active.start(),
            active,
            opens: None,
            memory: Vec::new(),
            file,
            segments,
            id: header.journal,
            random,
            writing: false,
            syncing: false,
            closing: false,
            stopped: None,
            stats: Stats::default(),
            flushed_records: 0,
        };
        Ok(Journal {
            device: self.device,
            dir: self.dir,
            options: self.options.checked(alignment),
            environment: self.environment,
            alignment,
            state: Mutex::new(state),
            written: Condvar::new(),
            synced: Condvar::new(),
            trimming: Mutex::new(()),
        })
    }
}

/// The segments that were found, as an open journal keeps them.
fn segments(found: &[Found], newest: Option<(&Found, &Scanned)>) -> VecDeque<Segment> {
    let ends = found.iter().skip(1).map(|f| (f.header.previous_last, f.header.previous_end));
    let ends = ends.chain(newest.map(|(_, scanned)| (scanned.last, scanned.end)));
    let segment =
        |(found, (last, bytes)): (&Found, _)| Segment { index: found.header.index, last, bytes };
    found.iter().zip(ends).map(segment).collect()
}

/// The first segment that may hold a record above `after`.
fn needed(found: &[Found], after: SeqNo) -> Result<usize, OpenError> {
    if let Some(oldest) = found.first()
        && oldest.header.previous_last > after
    {
        let what = format!(
            "it is the oldest and follows record {}, but records above {after} are needed",
            oldest.header.previous_last
        );
        return Err(OpenError::Missing { file: oldest.name.clone(), what });
    }
    let followers = found.iter().skip(1);
    Ok(followers.take_while(|follower| follower.header.previous_last <= after).count())
}

/// Verifies the segments from the one at `needed` on. Returns what the newest holds.
fn verify(found: &[Found], needed: usize) -> Result<Option<Scanned>, OpenError> {
    let mut newest = None;
    for (at, segment) in found.iter().enumerate().skip(needed) {
        newest = Some(files::verify(segment, found.get(at + 1), &mut |_, _, _| Ok(()))?);
    }
    Ok(newest)
}

fn replay_segment(
    segment: &Found,
    follower: Option<&Found>,
    after: SeqNo,
    replay: &mut Visit<'_>,
) -> Result<u64, OpenError> {
    let mut replayed = 0;
    files::verify(segment, follower, &mut |seqno, _, payload| {
        if seqno > after {
            replay(seqno, payload)?;
            replayed += 1;
        }
        Ok(())
    })?;
    Ok(replayed)
}

/// Makes what is whole in the newest segment durable, and cuts what is not.
fn settle(newest: &Found, scanned: &Scanned) -> Result<Option<Cut>, OpenError> {
    let file = &newest.file;
    let block = file.alignment() as u64;
    let end = scanned.end.next_multiple_of(block);
    let mut at = scanned.synced_end - scanned.synced_end % block;
    let mut bytes = Vec::new();
    while at < end {
        let stop = end.min(at - at % SETTLE_BYTES + SETTLE_BYTES);
        bytes.clear();
        bytes.resize((stop - at) as usize, 0);
        let whole = (scanned.end.min(stop) - at) as usize;
        if let Some(whole) = bytes.get_mut(..whole) {
            file.read_at(at, whole)?;
        }
        file.write_at(at, &bytes)?;
        at = stop;
    }
    let len = file.len()?;
    if len != end {
        file.set_len(end)?;
    }
    file.sync(SyncKind::All)?;
    let cut = len.saturating_sub(scanned.end);
    let torn = cut > 0 && !scanned.closed;
    Ok(torn.then(|| Cut { file: newest.name.clone(), offset: scanned.end, bytes: cut }))
}
