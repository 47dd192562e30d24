//! Segments in memory that have lost replicas.

use stoc::{Request, call_all};

use crate::log::Log;
use crate::record::Segment;
use crate::watched::Watched;

impl Log {
    /// Returns the numbers of the segments in memory that fewer than E StoCs have, with the spare.
    /// A further loss may lose the bytes of such a segment. Asks the StoCs of all segments in
    /// memory, and waits for their replies.
    ///
    /// A StoC that replies late does not count. So the caller repeats the call, and acts if a
    /// number is returned twice.
    pub fn weak_segments(&self) -> Vec<u64> {
        let Watched { segments, active, .. } = self.watched.lock().clone();
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
