//! The segment files of a journal's directory: found, put in order, verified.

use std::sync::Arc;

use codec::{Corruption, SeqNo};
use device::{Device, File, Mode, join};

use crate::error::{OpenError, ReplayError};
use crate::segment::{
    Each, Fault, HeaderFault, Scanned, SegmentHeader, SegmentReader, index_of, is_unfinished, scan,
};

/// A segment that was found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) name: String,
    pub(crate) file: Arc<dyn File>,
    pub(crate) header: SegmentHeader,
}

/// Makes the journal's directory, durably.
pub(crate) fn make_dir(device: &dyn Device, dir: &str) -> device::Result<()> {
    device.create_dir(dir)?;
    let mut name = dir;
    while !name.is_empty() {
        name = name.rsplit_once('/').map_or("", |(parent, _)| parent);
        device.sync_dir(name)?;
    }
    Ok(())
}

/// The names and indices of the segments in `dir`, oldest first.
pub(crate) fn list(device: &dyn Device, dir: &str) -> Result<Vec<(u64, String)>, OpenError> {
    let entries = device.list(dir)?;
    let named = |name: String| index_of(&name).map(|index| (index, join(dir, &name)));
    Ok(entries.into_iter().filter_map(|entry| named(entry.name)).collect())
}

/// Opens the segments in `dir`, to read, and puts them in order.
pub(crate) fn find(device: &dyn Device, dir: &str, mode: Mode) -> Result<Vec<Found>, OpenError> {
    let mut found: Vec<Found> = Vec::new();
    for (index, name) in list(device, dir)? {
        let file = device.open(&name, mode)?;
        let segment = read_header(file, index, name)?;
        if let Some(before) = found.last() {
            follows(before, &segment)?;
        }
        found.push(segment);
    }
    Ok(found)
}

/// Reads the header of one segment.
pub(crate) fn read_header(
    file: Arc<dyn File>,
    index: u64,
    name: String,
) -> Result<Found, OpenError> {
    let mut reader = SegmentReader::new(&*file)?;
    match reader.header(index)? {
        Ok(header) => Ok(Found { name, file, header }),
        Err(HeaderFault::Unsupported(source)) => Err(OpenError::Unsupported { file: name, source }),
        Err(HeaderFault::Damaged(corruption)) => Err(corruption.at(&name, 0).into()),
    }
}

/// Whether one segment's header is that of the next.
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

/// What is missing if `oldest` is the first segment that there is, and all records from `from` on are wanted.
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

/// Where a segment is known to end.
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
    /// Where this segment's header says that the one before ends.
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
    segment: &Found,
    ending: Option<Ending>,
    visit: &mut Each<'_, ReplayError>,
) -> Result<Scanned, OpenError> {
    let mut reader = SegmentReader::new(&*segment.file)?;
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

/// The fault that a scan of the segment `name` met.
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
pub(crate) fn remove_unfinished(device: &dyn Device, dir: &str) -> device::Result<()> {
    for entry in device.list(dir)? {
        if is_unfinished(&entry.name) {
            device.remove(&join(dir, &entry.name))?;
        }
    }
    Ok(())
}
