//! The entries of a group: of the footers of its sealed segments, and of segments in memory.

use engine::Result;

use super::judge::Entries;
use crate::segment::footer::{self, Entry, PAGE_ENTRIES, footer_bytes};
use crate::segment_table::Described;
use crate::values::Values;
use crate::values::group::Group;

/// Pages of a footer that are read at a time, at most.
const PAGES_MAX: usize = 16;
/// Memory of the entries of a page.
pub(super) const PAGE_MEMORY_BYTES: u64 = (PAGE_ENTRIES * size_of::<Entry>()) as u64;

/// The entries of a footer on the device.
pub(crate) struct FooterEntries<'v> {
    values: &'v Values,
    described: Described,
    /// Pages that are read at a time.
    pages: usize,
    /// Entries that were read from the device.
    read: usize,
    /// Entries that were read and not returned yet.
    left: std::vec::IntoIter<Entry>,
}

impl<'v> FooterEntries<'v> {
    pub(crate) fn new(values: &'v Values, described: Described) -> Self {
        Self::with_pages(values, described, PAGES_MAX)
    }

    /// Returns the same. Only the entries of up to `pages` pages are in memory.
    fn with_pages(values: &'v Values, described: Described, pages: usize) -> Self {
        Self { values, described, pages, read: 0, left: Vec::new().into_iter() }
    }
}

impl Entries for FooterEntries<'_> {
    fn next(&mut self) -> Result<Option<Entry>> {
        if let Some(entry) = self.left.next() {
            return Ok(Some(entry));
        }
        let left = self.described.entries() as usize - self.read;
        let count = left.min(self.pages * PAGE_ENTRIES);
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

/// The entries of all segments of a group.
pub(super) struct Sources<'v> {
    /// Those of sealed segments first.
    pub(super) all: Vec<Box<dyn Entries + 'v>>,
    bytes: u64,
}

impl Sources<'_> {
    /// Returns the bytes of memory that the entries take, at most.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Values {
    /// Returns the sealed segments of a group, the sources of a judgement, and the bytes that the
    /// group's ledger does not know. Entries of about `pages` pages are in memory. The group counts
    /// as unchanged since.
    pub(super) fn sources_of(
        &self,
        group: &Group,
        pages: u64,
    ) -> (Vec<Described>, Sources<'_>, u64) {
        let mut state = group.state.lock();
        let sealed: Vec<Described> = state.sealed.values().copied().collect();
        let mut in_memory = state.entries();
        let unknown = state.ledger.unknown;
        state.is_changed = false;
        drop(state);
        in_memory.iter_mut().for_each(|entries| entries.sort_unstable());
        let pages = pages as usize / sealed.len().max(1);
        let pages = pages.clamp(1, PAGES_MAX);
        let of_footer = |described: &Described| {
            Box::new(FooterEntries::with_pages(self, *described, pages)) as Box<dyn Entries>
        };
        let copied: usize = in_memory.iter().map(Vec::len).sum();
        let bytes = (sealed.len() * pages) as u64 * PAGE_MEMORY_BYTES
            + (copied * size_of::<Entry>()) as u64;
        let mut all: Vec<_> = sealed.iter().map(of_footer).collect();
        all.extend(
            in_memory
                .into_iter()
                .map(|entries| Box::new(InMemory(entries.into_iter())) as Box<dyn Entries>),
        );
        (sealed, Sources { all, bytes }, unknown)
    }
}
