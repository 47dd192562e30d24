//! Segments in memory that have lost replicas.

use stoc::{Request, call_all};

use crate::log::{HEADER_BYTES, Log, Writer};
use crate::record::{Mode, Segment};
use crate::replicas::Replicas;

/// The segments of a log, without the lock of its writer: that is held while an append waits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched {
    /// The segments in memory, each with the end of the bytes that all of its replicas have to
    /// have.
    segments: Vec<(Segment, u64)>,
    /// The number of the segment that is appended to, and its replicas.
    active: Option<(u64, Replicas)>,
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
        Self { segments, active }
    }
}

impl Log {
    /// Returns the numbers of the segments in memory that fewer than E StoCs have, with the spare.
    /// A further loss may lose the bytes of such a segment. Asks the StoCs of all segments in
    /// memory, and waits for their replies.
    ///
    /// A StoC that replies late does not count. So the caller repeats the call, and acts if a
    /// number is returned twice.
    pub fn weak_segments(&self) -> Vec<u64> {
        let Watched { segments, active } = self.watched.lock().clone();
        let has_failed = |segment: &Segment| {
            let active = active.as_ref().filter(|(index, _)| *index == segment.index);
            active.is_some_and(|(_, replicas)| !replicas.failed_nodes().is_empty())
        };
        let is_weak = |(segment, end): &&(Segment, u64)| {
            has_failed(segment) || self.count_holders(segment, *end) < self.setup.ensemble
        };
        segments.iter().filter(is_weak).map(|(segment, _)| segment.index).collect()
    }

    /// Counts the StoCs that have all bytes of a segment up to `end`.
    fn count_holders(&self, segment: &Segment, end: u64) -> usize {
        let links: Vec<_> = self.setup.present(segment).into_iter().map(|(_, link)| link).collect();
        let name = segment.name(self.setup.range, self.kind);
        // An empty read at the end succeeds if the end is there.
        let request = Request::Read { name, offset: end, bytes: 0 };
        let replies = call_all(&links, &request, self.setup.timing());
        replies.iter().filter(|reply| reply.is_ok()).count()
    }
}
