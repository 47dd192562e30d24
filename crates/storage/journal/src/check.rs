//! Offline verification and reading of a journal; nothing is altered.

use codec::{Corruption, SeqNo};
use device::Device;

use crate::end;
use crate::error::{OpenError, Visit};
use crate::files::{self, Found};
use crate::store::{LocalSegments, SegmentStore};

/// The result of [`check`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The segments, oldest first.
    pub segments: Vec<SegmentReport>,
    /// Everything that keeps the journal from being opened, with its place.
    pub damage: Vec<Corruption>,
}

/// One segment, as [`check`] found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentReport {
    /// Its file.
    pub file: String,
    /// The file's length in bytes.
    pub bytes: u64,
    /// Whole records in it.
    pub records: u64,
    /// The last record's number, in this segment or before.
    pub last: SeqNo,
    /// Bytes after the last whole frame that opening would cut, or has no use for.
    pub torn_bytes: u64,
    /// Whether it ends with the mark of a journal that was closed in order.
    pub closed: bool,
}

impl Report {
    /// Returns whether the journal can be opened.
    pub fn is_whole(&self) -> bool {
        self.damage.is_empty()
    }
}

/// Verifies every segment, record and link of the journal in `dir`, and continues after damage, so
/// that all of it is found. Reads everything once; changes nothing. A torn tail is no damage.
///
/// # Errors
/// The device failed, or a segment is of another release. Damage is in the report.
pub fn check(device: &dyn Device, dir: &str) -> Result<Report, OpenError> {
    check_in(&LocalSegments::new(device, dir))
}

/// The same of a journal with its segments in `store`.
///
/// # Errors
/// As [`check`].
pub fn check_in(store: &dyn SegmentStore) -> Result<Report, OpenError> {
    let mut report = Report::default();
    let mut found: Vec<Found> = Vec::new();
    let indices = files::list(store)?;
    let end = report.note(end::load(store))?;
    for index in &indices {
        if let Some(segment) = report.note(files::found_at(store, *index))? {
            found.push(segment);
        }
    }
    for (at, segment) in found.iter().enumerate() {
        let ending = match found.get(at + 1) {
            None => None,
            Some(next) => {
                report.note(files::follows(segment, next))?.map(|()| next.ending_before())
            }
        };
        let scanned = files::verify(store, segment, ending, &mut |_, _, _| Ok(()));
        if let Some(scanned) = report.note(scanned)? {
            let bytes = segment.open(store)?.len()?;
            report.segments.push(SegmentReport {
                file: segment.name.clone(),
                bytes,
                records: scanned.records,
                last: scanned.last,
                torn_bytes: bytes - scanned.end,
                closed: scanned.closed,
            });
        }
    }
    // Of a newest segment whose header is damaged nothing more can be said.
    let newest = found.last().filter(|found| indices.last() == Some(&found.header.index));
    if let Some(end) = end
        && newest.is_some() != indices.is_empty()
    {
        let whole =
            report.segments.last().filter(|last| newest.is_none_or(|n| n.name == last.file));
        let last = whole.map(|last| last.last);
        report.note(end::check(store, end.as_ref(), newest, last, SeqNo::ZERO))?;
    }
    Ok(report)
}

impl Report {
    /// Keeps damage, and passes on whole records and errors that stop the check.
    fn note<T>(&mut self, result: Result<T, OpenError>) -> Result<Option<T>, OpenError> {
        match result {
            Ok(whole) => Ok(Some(whole)),
            Err(OpenError::Damaged(corruption)) => {
                self.damage.push(corruption);
                Ok(None)
            }
            Err(OpenError::Missing { file, what }) => {
                self.damage.push(Corruption::new(what, 0).at(&file, 0));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// Hands every whole record whose number is at or above `from`, in order, to `visit`. For tools:
/// opens nothing to write, and changes nothing.
///
/// # Errors
/// The errors of [`crate::Journal::open`]; records before the damage have been visited then. If the
/// oldest segments are missing, all records that are there have.
pub fn read(
    device: &dyn Device,
    dir: &str,
    from: SeqNo,
    visit: &mut Visit<'_>,
) -> Result<(), OpenError> {
    read_in(&LocalSegments::new(device, dir), from, visit)
}

/// The same of a journal with its segments in `store`.
///
/// # Errors
/// As [`read`].
pub fn read_in(
    store: &dyn SegmentStore,
    from: SeqNo,
    visit: &mut Visit<'_>,
) -> Result<(), OpenError> {
    let mut indices = files::list(store)?.into_iter();
    let mut open = || indices.next().map(|index| files::found_at(store, index)).transpose();
    let Some(mut segment) = open()? else { return Ok(()) };
    let gap = files::missing_before(&segment, from);
    loop {
        let follower = open().and_then(|follower| {
            follower.iter().try_for_each(|follower| files::follows(&segment, follower))?;
            Ok(follower)
        });
        // Damage of the next one is no reason to leave this one out.
        let ending = follower.iter().flatten().map(Found::ending_before).next();
        if ending.is_none_or(|ending| ending.last >= from) {
            files::verify(store, &segment, ending, &mut |seqno, _, payload| {
                if seqno >= from { visit(seqno, payload) } else { Ok(()) }
            })?;
        }
        match follower? {
            Some(next) => segment = next,
            None => return gap.map_or(Ok(()), Err),
        }
    }
}
