//! The segments of a journal: found, put in order, verified.

use std::sync::Arc;

use codec::{Corruption, SeqNo};
use device::{File, Mode};

use crate::error::{OpenError, ReplayError};
use crate::segment::{
    Each, Fault, HeaderFault, Scanned, SegmentHeader, SegmentReader, file_name, index_of,
    is_unfinished, scan,
};
use crate::store::SegmentStore;

/// A segment that was found. Its file is open only while it is read: a journal may have more
/// segments than the process may have files open.
#[derive(Debug)]
pub(crate) struct Found {
    /// Its name in reports.
    pub(crate) name: String,
    pub(crate) header: SegmentHeader,
}

/// Returns the indices of the segments that there are, oldest first.
pub(crate) fn list(store: &dyn SegmentStore) -> Result<Vec<u64>, OpenError> {
    Ok(store.list()?.iter().filter_map(|name| index_of(name)).collect())
}

/// Reads the headers of the segments, and puts them in order.
pub(crate) fn find(store: &dyn SegmentStore) -> Result<Vec<Found>, OpenError> {
    let mut found: Vec<Found> = Vec::new();
    for index in list(store)? {
        let segment = found_at(store, index)?;
        if let Some(before) = found.last() {
            follows(before, &segment)?;
        }
        found.push(segment);
    }
    Ok(found)
}

/// Reads the header of one segment.
pub(crate) fn found_at(store: &dyn SegmentStore, index: u64) -> Result<Found, OpenError> {
    let name = file_name(index);
    let file = store.open(&name, Mode::Read)?;
    let name = store.place_of(&name);
    let mut reader = SegmentReader::new(&*file)?;
    match reader.header(index)? {
        Ok(header) => Ok(Found { name, header }),
        Err(HeaderFault::Unsupported(source)) => Err(OpenError::Unsupported { file: name, source }),
        Err(HeaderFault::Damaged(corruption)) => Err(corruption.at(&name, 0).into()),
    }
}

/// Checks that one segment's header is that of the next.
pub(crate) fn follows(before: &Found, segment: &Found) -> Result<(), OpenError> {
    if segment.header.index != before.header.index + 1 {
        let what = format!("{} is the last before it", before.name);
        return Err(OpenError::Missing { file: segment.name.clone(), what });
    }
    if segment.header.journal != before.header.journal {
        let what = "the segment belongs to another journal than the one before";
        return Err(Corruption::new(what, 0).at(&segment.name, 0).into());
    }
    Ok(())
}

/// Returns the missing records if `oldest` is the first segment that there is, and the caller needs
/// all records from `from` on.
pub(crate) fn missing_before(oldest: &Found, from: SeqNo) -> Option<OpenError> {
    let follows = oldest.header.previous_last;
    // No record has the number zero.
    (follows >= from.max(SeqNo::ZERO.next())).then(|| {
        let what = format!(
            "it is the oldest and follows record {follows}, but records from {from} on are needed"
        );
        OpenError::Missing { file: oldest.name.clone(), what }
    })
}

/// The known end of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    /// The offset after its last frame.
    pub(crate) end: u64,
    /// The last checksum.
    pub(crate) chain: u64,
    /// The last record's number, in it or before.
    pub(crate) last: SeqNo,
}

impl Found {
    /// Opens the segment to read it.
    pub(crate) fn open(&self, store: &dyn SegmentStore) -> device::Result<Arc<dyn File>> {
        store.open(&file_name(self.header.index), Mode::Read)
    }

    /// Returns the end of the segment before, as this segment's header has it.
    pub(crate) fn ending_before(&self) -> Ending {
        let header = &self.header;
        Ending {
            end: header.previous_end,
            chain: header.previous_chain,
            last: header.previous_last,
        }
    }
}

/// Reads a segment from its first to its last frame. If it is known where it ends, it must end
/// exactly so.
pub(crate) fn verify(
    store: &dyn SegmentStore,
    segment: &Found,
    ending: Option<Ending>,
    visit: &mut Each<'_, ReplayError>,
) -> Result<Scanned, OpenError> {
    let file = segment.open(store)?;
    let mut reader = SegmentReader::new(&*file)?;
    let until = ending.map(|ending| ending.end);
    let nothing = Scanned::nothing(&segment.header);
    let scanned = scan(&mut reader, &segment.header, nothing, until, visit)
        .map_err(|fault| explain(fault, &segment.name))?;
    let found = Ending { end: scanned.end, chain: scanned.chain, last: scanned.last };
    if ending.is_some_and(|ending| ending != found) {
        let what = "the segment does not end as the header of the next says";
        return Err(Corruption::new(what, scanned.end).at(&segment.name, 0).into());
    }
    Ok(scanned)
}

/// Returns the fault that a scan of the segment `name` met.
pub(crate) fn explain(fault: Fault<ReplayError>, name: &str) -> OpenError {
    match fault {
        Fault::Device(error) => OpenError::Device(error),
        Fault::Damaged(corruption) => corruption.at(name, 0).into(),
        Fault::Refused(seqno, offset, source) => {
            OpenError::Replay { seqno, file: name.to_owned(), offset, source }
        }
    }
}

/// Removes segments whose creation did not finish; nothing is in them.
pub(crate) fn remove_unfinished(store: &dyn SegmentStore) -> device::Result<()> {
    let names = store.list()?;
    names.iter().filter(|name| is_unfinished(name)).try_for_each(|name| store.remove(name))
}
