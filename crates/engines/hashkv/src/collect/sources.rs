//! The entries of a group: of the footers of its sealed segments, and of segments in memory.

use engine::Result;

use super::judge::Entries;
use crate::segment::footer::{self, Entry, PAGE_ENTRIES, footer_bytes};
use crate::segment::record::BLOCK_BYTES;
use crate::segment_table::Described;
use crate::values::Values;
use crate::values::group::Group;

/// Bytes of a footer that are read at a time.
const READ_BYTES: usize = 64 << 10;

/// The entries of a footer on the device.
pub(crate) struct FooterEntries<'v> {
    values: &'v Values,
    described: Described,
    /// Entries that were read from the device.
    read: usize,
    /// Entries that were read and not returned yet.
    left: std::vec::IntoIter<Entry>,
}

impl<'v> FooterEntries<'v> {
    pub(crate) fn new(values: &'v Values, described: Described) -> Self {
        Self { values, described, read: 0, left: Vec::new().into_iter() }
    }
}

impl Entries for FooterEntries<'_> {
    fn next(&mut self) -> Result<Option<Entry>> {
        if let Some(entry) = self.left.next() {
            return Ok(Some(entry));
        }
        let count = (self.described.entries() as usize - self.read)
            .min(READ_BYTES / BLOCK_BYTES * PAGE_ENTRIES);
        if count == 0 {
            return Ok(None);
        }
        let Self { values, described, .. } = self;
        let offset = described.records_end() + footer_bytes(self.read);
        let pages = values.volumes.read(described.place, offset as u64, footer_bytes(count))?;
        let (number, store) = (described.number, values.geometry.store);
        let entries = footer::decode(&pages, count, number, offset, store)
            .map_err(|damage| values.damage_in(described, damage))?;
        self.read += count;
        self.left = entries.into_iter();
        Ok(self.left.next())
    }
}

/// The entries of a segment that is not sealed.
struct InMemory(std::vec::IntoIter<Entry>);

impl Entries for InMemory {
    fn next(&mut self) -> Result<Option<Entry>> {
        Ok(self.0.next())
    }
}

/// The sealed segments of a group, the entries of all its segments, and the bytes that its ledger
/// does not know. The group counts as unchanged since.
pub(super) type Sources<'v> = (Vec<Described>, Vec<Box<dyn Entries + 'v>>, u64);

impl Values {
    /// Returns the sources of a judgement: sealed segments first, then those in memory.
    pub(super) fn sources_of(&self, group: &Group) -> Sources<'_> {
        let mut state = group.state.lock();
        let sealed: Vec<Described> = state.sealed.values().copied().collect();
        let mut in_memory = state.entries();
        let unknown = state.ledger.unknown;
        state.is_changed = false;
        drop(state);
        in_memory.iter_mut().for_each(|entries| entries.sort_unstable());
        let of_footer = |described: &Described| {
            Box::new(FooterEntries::new(self, *described)) as Box<dyn Entries>
        };
        let mut sources: Vec<_> = sealed.iter().map(of_footer).collect();
        sources.extend(
            in_memory
                .into_iter()
                .map(|entries| Box::new(InMemory(entries.into_iter())) as Box<dyn Entries>),
        );
        (sealed, sources, unknown)
    }
}
