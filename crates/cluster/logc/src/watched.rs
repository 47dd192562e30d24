//! The segments of a log, as other threads than its writer see them. They do not take the lock of
//! the writer, because an append may hold it while it waits.

use std::collections::BTreeSet;

use stoc::Listed;

use crate::log::{HEADER_BYTES, Log, Writer};
use crate::record::{Mode, Segment};
use crate::replicas::Replicas;

/// The segments of a log at a moment at which its writer makes none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched {
    /// The segments in memory, each with the end of the bytes that all of its replicas have to
    /// have.
    pub(crate) segments: Vec<(Segment, u64)>,
    /// The number of the segment that is appended to, and its replicas.
    pub(crate) active: Option<(u64, Replicas)>,
    /// The numbers and nonces of the segments that are registered, or may be.
    registered: BTreeSet<(u64, u64)>,
    /// All segments of this owner with lower numbers are in `registered`, or will never be
    /// registered.
    settled: u64,
}

impl Watched {
    /// Returns those of a writer.
    pub(crate) fn of(writer: &Writer) -> Self {
        let active = writer.active.as_ref();
        let active = active.map(|active| (active.segment.index, active.replicas.clone()));
        let end_of = |segment: &Segment| {
            let left = writer.left.as_ref().filter(|left| left.index == segment.index);
            let is_active = active.as_ref().is_some_and(|(index, _)| *index == segment.index);
            // Replicas of the active segment may have its last bytes later. A spare has none.
            let unsealed = if is_active { HEADER_BYTES } else { 0 };
            segment.sealed.or_else(|| left.map(|left| left.end)).unwrap_or(unsealed)
        };
        let all = writer.record.segments.iter();
        let in_memory = all.filter(|segment| segment.mode == Mode::Memory);
        let segments = in_memory.map(|segment| (segment.clone(), end_of(segment))).collect();
        let records = writer.uncertain.iter().chain([&writer.record]);
        let all = records.flat_map(|record| &record.segments);
        let registered = all.map(|segment| (segment.index, segment.nonce)).collect();
        Self { segments, active, registered, settled: writer.next_index }
    }
}

impl Log {
    /// Returns whether a file that a StoC has listed is an orphan of this log: no record of the log
    /// names it, and none will. It may be released. No other log of this epoch is in use. (L8)
    pub fn is_orphan(&self, file: &Listed) -> bool {
        let Listed { name, epoch, length, .. } = file;
        let own = self.setup.epoch;
        let watched = self.watched.lock();
        // Owners before this one register nothing more. A later owner makes files of its own epoch.
        let is_settled = *epoch < own || (*epoch == own && name.number < watched.settled);
        // The epoch of a damaged file is unknown.
        let is_known = length.is_some();
        (name.range, name.kind) == (self.setup.range, self.kind)
            && is_known
            && is_settled
            && !watched.registered.contains(&(name.number, name.nonce))
    }
}
