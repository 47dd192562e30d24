//! Recovery: from whatever a crash left to records that can no longer be lost.
//!
//! 1. Read the file `END` (`end.rs`). List the segments; their indices must follow one another.
//! 2. Read the headers. Segments whose records are all at or below `after` are not read further.
//! 3. Verify the others, from the oldest to the newest, whole. The journal must reach as far as
//!    `END` says, and as far as the caller knows.
//! 4. Begin a new segment, under an unfinished name. It says that the newest one ends at the
//!    highest watermark that was read in it, and it begins with the whole records found beyond
//!    that: they are *carried over*. Sync it, rename it, sync the directory. Then `END` says that
//!    it exists.
//!
//!    If the newest has only its header and marks, the new one takes its place and repeats its
//!    reference to the one before it, or each opening would leave a file behind.
//! 5. Replay.
//!
//! No found segment is ever written to, and `END` only says what is already durable (E1, E3 of
//! `end.rs`). So a crash at any point leaves a state that step 1 can start from again: the same as
//! before, or the same with the new segment, whole. A segment whose place was taken is found either
//! unchanged or as the new one; both say the same.
//!
//! # Why records are carried over
//! Records beyond the watermark can be read, but that does not make them durable. They may be in
//! the kernel alone, and after a failed sync the kernel may even believe them to be on the device,
//! so that another sync of the same file does nothing and succeeds. A copy in a new file has no
//! such past. And a header then defines the end of the old one, whatever a torn tail looks like.

use std::sync::Arc;

use codec::{Corruption, SeqNo};
use device::{Device, File};
use environment::{Environment, Random};
use rand::Rng;

use crate::end::{self, End};
use crate::error::{OpenError, Visit};
use crate::files::{self, Ending, Found};
use crate::open::{Cut, Recovery};
use crate::segment::{
    Fault, Group, Kind, NewSegment, Scanned, SegmentHeader, SegmentReader, Unfinished, scan,
};
use crate::store::{LocalSegments, SegmentStore};

/// Bytes carried over by one write.
const CARRY_BYTES: usize = 1 << 20;

/// The state from which appending begins.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) recovery: Recovery,
    /// The last record in the new segment or before it.
    pub(crate) last: SeqNo,
    /// The segments, the new one last.
    pub(crate) segments: Vec<Found>,
    /// The new segment, to write.
    pub(crate) file: Arc<dyn File>,
    /// An empty group at its end.
    pub(crate) active: Group,
    /// The source of this life's salts.
    pub(crate) random: Random,
}

/// Facts that the caller knows about the journal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    /// Records up to this one are not needed.
    pub(crate) after: SeqNo,
    /// A record with this number was in the journal, so it has to reach at least that far; 0 if the
    /// caller knows of none.
    pub(crate) reached: SeqNo,
    /// The id that the journal must have; a new journal gets it. If `None`, any journal is opened,
    /// and a new one gets a random id.
    pub(crate) id: Option<u64>,
}

/// Recovers the journal in `store`, or creates it.
pub(crate) fn recover(
    store: &dyn SegmentStore,
    environment: &Environment,
    known: &Known,
    replay: &mut Visit<'_>,
) -> Result<Recovered, OpenError> {
    let Known { after, reached, id } = *known;
    store.prepare()?;
    let end = end::load(store)?;
    let mut segments = files::find(store)?;
    if let (Some(id), Some(oldest)) = (id, segments.first())
        && oldest.header.journal != id
    {
        let what = "the segment belongs to another journal than the caller's";
        return Err(Corruption::new(what, 0).at(&oldest.name, 0).into());
    }
    let needed = needed(&segments, after)?;
    let scanned = verify(store, &segments, needed)?;
    let newest = segments.last().zip(scanned);
    let mut recovery = Recovery {
        last: newest.map_or(SeqNo::ZERO, |(_, scanned)| scanned.last),
        replayed: 0,
        segments: segments.len() as u64,
        closed: newest.is_none_or(|(_, scanned)| scanned.closed),
        cut: newest.map(|(newest, scanned)| cut(store, newest, &scanned)).transpose()?.flatten(),
    };
    end::check(store, end.as_ref(), newest.map(|(found, _)| found), Some(recovery.last), reached)?;
    files::remove_unfinished(store)?;
    if end.is_none() {
        end::create(store)?;
    }

    // A tail that was cut is kept, so that a user can inspect it.
    let replaced = newest.filter(|(_, scanned)| scanned.records == 0 && recovery.cut.is_none());
    let index = match (newest, replaced) {
        (_, Some((empty, _))) => empty.header.index,
        (Some((newest, _)), None) => newest.header.index + 1,
        (None, None) => 1,
    };
    let last = if newest.is_some() { recovery.last } else { after };
    // A stream for each segment: a simulated environment gives the same numbers every time.
    let stream = match replaced {
        // Not the stream of the salt of the file that the new one replaces.
        Some((empty, _)) => format!("journal segment {index} after {:x}", empty.header.salt),
        None => format!("journal segment {index}"),
    };
    let mut random = environment.random(&stream);
    let replaces = replaced.is_some();
    let (segment, file, active) = begin(store, newest, (index, after), (id, &mut random))?;
    if replaces {
        segments.pop();
    }
    let end = End::beginning(&segment.header);
    end::note(store, &End { last, ..end })?;
    segments.push(segment);
    for (at, segment) in segments.iter().enumerate().skip(needed) {
        // The new segment holds the bytes that were just written, or the device did not do as it
        // said.
        let written = Ending { end: active.start(), chain: active.chain(), last };
        let ending = segments.get(at + 1).map_or(written, Found::ending_before);
        files::verify(store, segment, Some(ending), &mut |seqno, _, payload| {
            if seqno > after {
                replay(seqno, payload)?;
                recovery.replayed += 1;
            }
            Ok(())
        })?;
    }
    Ok(Recovered { recovery, last, segments, file, active, random })
}

/// Returns the number behind which the journal in the directory `dir` begins: the number it was
/// trimmed to, or a little less. Reads the headers of the segments.
///
/// # Errors
/// Damage to a header; the storage's.
pub fn begins_behind(device: &dyn Device, dir: &str) -> Result<SeqNo, OpenError> {
    let store = LocalSegments::new(device, dir);
    if !store.exists()? {
        return Ok(SeqNo::ZERO);
    }
    let segments = files::find(&store)?;
    Ok(segments.first().map_or(SeqNo::ZERO, |oldest| oldest.header.previous_last))
}

/// Refuses a journal in the directory `dir` with a segment that a newer release wrote. Reads the
/// headers of the segments; damage is left to the opening of the journal, which follows the opening
/// of all keyspaces.
///
/// # Errors
/// [`OpenError::Unsupported`]; the storage's.
pub fn refuse_newer(device: &dyn Device, dir: &str) -> Result<(), OpenError> {
    let store = LocalSegments::new(device, dir);
    let indices = if store.exists()? { files::list(&store)? } else { Vec::new() };
    for index in indices {
        let opened = files::found_at(&store, index);
        if let Err(error @ (OpenError::Unsupported { .. } | OpenError::Device(_))) = opened {
            return Err(error);
        }
    }
    Ok(())
}

/// Returns whether the journal in the directory `dir` has no segment at all. Each opening leaves
/// one, so it was never opened, or its files were removed.
///
/// # Errors
/// The storage's.
pub fn is_missing(device: &dyn Device, dir: &str) -> Result<bool, OpenError> {
    let store = LocalSegments::new(device, dir);
    Ok(!store.exists()? || files::list(&store)?.is_empty())
}

/// Returns the id of the journal in the directory `dir`: that of its oldest segment with a header
/// that can be read. `None` if it has no such segment.
///
/// # Errors
/// The storage's.
pub fn id(device: &dyn Device, dir: &str) -> Result<Option<u64>, OpenError> {
    let store = LocalSegments::new(device, dir);
    let indices = if store.exists()? { files::list(&store)? } else { Vec::new() };
    for index in indices {
        match files::found_at(&store, index) {
            Ok(segment) => return Ok(Some(segment.header.journal)),
            Err(OpenError::Damaged(_) | OpenError::Unsupported { .. }) => {}
            Err(failed) => return Err(failed),
        }
    }
    Ok(None)
}

/// Refuses a journal in the directory `dir` whose newest segments are lost, as opening does,
/// without reading more than the headers of segments. A journal that was never opened has lost
/// none.
///
/// # Errors
/// [`OpenError::Missing`]; damage to a header or to the file `END`; the storage's.
pub fn check_newest(device: &dyn Device, dir: &str) -> Result<(), OpenError> {
    let store = LocalSegments::new(device, dir);
    if !store.exists()? {
        return Ok(());
    }
    let end = end::load(&store)?;
    let segments = files::find(&store)?;
    end::check(&store, end.as_ref(), segments.last(), None, SeqNo::ZERO)
}

/// Returns the missing part of the journal in the directory `dir` if the caller needs all records
/// from `from` on: segments before the oldest one. Reports nothing about a segment whose header is
/// damaged.
///
/// # Errors
/// The storage's.
pub fn missing_from(
    device: &dyn Device,
    dir: &str,
    from: SeqNo,
) -> Result<Option<Corruption>, OpenError> {
    let store = LocalSegments::new(device, dir);
    let indices = if store.exists()? { files::list(&store)? } else { Vec::new() };
    let Some(oldest) = indices.first() else { return Ok(None) };
    let oldest = match files::found_at(&store, *oldest) {
        Err(OpenError::Damaged(_)) => return Ok(None),
        opened => opened?,
    };
    Ok(match files::missing_before(&oldest, from) {
        Some(OpenError::Missing { file, what }) => Some(Corruption::new(what, 0).at(&file, 0)),
        _ => None,
    })
}

/// Returns the first segment that may hold a record above `after`.
fn needed(found: &[Found], after: SeqNo) -> Result<usize, OpenError> {
    if let Some(missing) =
        found.first().and_then(|oldest| files::missing_before(oldest, after.next()))
    {
        return Err(missing);
    }
    let followers = found.iter().skip(1);
    Ok(followers.take_while(|follower| follower.header.previous_last <= after).count())
}

/// Verifies the segments from the one at `needed` on. Returns the content of the newest.
fn verify(
    store: &dyn SegmentStore,
    found: &[Found],
    needed: usize,
) -> Result<Option<Scanned>, OpenError> {
    let mut newest = None;
    for (at, segment) in found.iter().enumerate().skip(needed) {
        let ending = found.get(at + 1).map(Found::ending_before);
        newest = Some(files::verify(store, segment, ending, &mut |_, _, _| Ok(()))?);
    }
    Ok(newest)
}

/// Returns the part of the newest segment after its last whole frame.
fn cut(store: &dyn SegmentStore, newest: &Found, scanned: &Scanned) -> device::Result<Option<Cut>> {
    let bytes = newest.open(store)?.len()?.saturating_sub(scanned.end);
    let cut = Cut { file: newest.name.clone(), offset: scanned.end, bytes };
    Ok((bytes > 0).then_some(cut))
}

/// Creates the segment that this life appends to, with the records carried over from the newest.
fn begin(
    store: &dyn SegmentStore,
    newest: Option<(&Found, Scanned)>,
    (index, after): (u64, SeqNo),
    (id, random): (Option<u64>, &mut Random),
) -> Result<(Found, Arc<dyn File>, Group), OpenError> {
    let unfinished = Unfinished::new(store, index)?;
    let drawn = random.next_u64();
    let mut header = SegmentHeader {
        journal: id.unwrap_or(drawn),
        index,
        salt: random.next_u64(),
        previous_end: 0,
        previous_chain: 0,
        previous_last: after,
    };
    let active = match newest {
        None => {
            let segment = NewSegment::new(header, unfinished.alignment());
            unfinished.begin(&segment)?;
            segment.first_group(Vec::new())
        }
        Some((empty, _)) if empty.header.index == index => {
            let header = SegmentHeader { salt: header.salt, ..empty.header };
            let segment = NewSegment::new(header, unfinished.alignment());
            unfinished.begin(&segment)?;
            segment.first_group(Vec::new())
        }
        Some((newest, scanned)) => carry((store, &unfinished), newest, &scanned, &mut header)
            .map_err(|fault| match fault {
                Fault::Device(error) | Fault::Refused(_, _, error) => error.into(),
                Fault::Damaged(corruption) => OpenError::from(corruption.at(&newest.name, 0)),
            })?,
    };
    let file = unfinished.finish()?;
    Ok((files::found_at(store, index)?, file, active))
}

/// Begins the new segment with the records of the newest that are beyond its highest watermark, and
/// completes the new one's header. Returns an empty group at the new one's end.
fn carry(
    (store, unfinished): (&dyn SegmentStore, &Unfinished<'_>),
    newest: &Found,
    scanned: &Scanned,
    header: &mut SegmentHeader,
) -> Result<Group, Fault<device::Error>> {
    let file = newest.open(store)?;
    let mut reader = SegmentReader::new(&*file)?;
    let nothing = Scanned::nothing(&newest.header);
    let until = Some(scanned.synced_end);
    let kept = scan(&mut reader, &newest.header, nothing, until, &mut |_, _, _| Ok(()))?;
    header.journal = newest.header.journal;
    header.previous_end = kept.end;
    header.previous_chain = kept.chain;
    header.previous_last = kept.last;
    let alignment = unfinished.alignment();
    let segment = NewSegment::new(*header, alignment);
    unfinished.begin(&segment)?;
    let mut group = segment.first_group(Vec::new());
    let mut each = |seqno, _, payload: &[u8]| {
        group
            .append_record(seqno, payload.len(), |bytes| bytes.extend_from_slice(payload))
            .expect("the limit is its own length");
        if group.len() >= CARRY_BYTES { write(unfinished, &mut group, alignment) } else { Ok(()) }
    };
    let until = Some(scanned.end);
    scan(&mut reader, &newest.header, kept, until, &mut each)?;
    if group.len() > 0 {
        write(unfinished, &mut group, alignment)?;
    }
    Ok(group)
}

/// Writes the gathered records, and leaves an empty group after them. The segment gets its name
/// only after its sync, so a reader of the mark finds all records before it synced.
fn write(unfinished: &Unfinished<'_>, group: &mut Group, alignment: usize) -> device::Result<()> {
    group.append_mark(Kind::Seal, group.end(), alignment);
    unfinished.write(group)?;
    *group = Group::new(group.seed(), group.end(), group.chain(), Vec::new());
    Ok(())
}
