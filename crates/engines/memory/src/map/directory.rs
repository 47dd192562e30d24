//! The leaf of each range: two levels of immutable lists, replaced as a whole at each change.
//!
//! ```text
//! root      separators of chunks      -> cells            replaced when a chunk splits or merges
//! cell      the newest chunk of one fixed range of keys
//! chunk     separators of leaves      -> (leaf, revision)  replaced when a leaf splits or merges
//! ```
//!
//! A reader takes no lock: it loads the root, the chunk, and has a leaf's number and the revision
//! that the leaf had for this range. Once it holds the leaf's lock it compares revisions; if they
//! differ the range has moved, and the newer chunk is there already, because a split publishes it
//! before it unlocks the leaf.
//!
//! # Invariants
//! - D1. The ranges of the root's cells part all keys; a cell's range never changes. A cell that
//!   the root dropped keeps its last chunk: what is not outdated by a revision stays right.
//! - D2. One thread at a time changes the directory ([`Change`] is guarded by the map).

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::separators::Separators;
use super::slab::LeafId;

/// Leaves above which a chunk is cut in two.
const CHUNK_LEAVES_MAX: usize = 256;

/// A leaf, and the revision it had when the directory was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) leaf: LeafId,
    pub(super) revision: u32,
}

/// A leaf's range: from `low` on, below `high` if there is one.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    pub(super) low: Vec<u8>,
    pub(super) high: Option<Vec<u8>>,
}

#[derive(Debug)]
pub(super) struct Directory {
    root: ArcSwap<Root>,
}

#[derive(Debug)]
struct Root {
    separators: Separators,
    cells: Vec<Arc<Cell>>,
}

#[derive(Debug)]
struct Cell {
    chunk: ArcSwap<Chunk>,
}

#[derive(Debug)]
struct Chunk {
    separators: Separators,
    entries: Box<[Entry]>,
    /// The end of the range.
    end: Option<Box<[u8]>>,
}

impl Chunk {
    fn new(leaves: &[(&[u8], Entry)], end: Option<&[u8]>) -> Self {
        let strings: Vec<&[u8]> = leaves.iter().map(|(low, _)| *low).collect();
        Self {
            separators: Separators::new(&strings),
            entries: leaves.iter().map(|(_, entry)| *entry).collect(),
            end: end.map(Into::into),
        }
    }

    fn leaves(&self) -> Vec<(&[u8], Entry)> {
        self.separators.iter().zip(self.entries.iter().copied()).collect()
    }

    fn high(&self, index: usize) -> Option<&[u8]> {
        if index + 1 < self.separators.len() {
            Some(self.separators.get(index + 1))
        } else {
            self.end.as_deref()
        }
    }

    fn bounds(&self, index: usize) -> Bounds {
        Bounds {
            low: self.separators.get(index).to_vec(),
            high: self.high(index).map(<[u8]>::to_vec),
        }
    }
}

impl Directory {
    /// A directory of leaves, each with the lower end of its range; the first begins at the empty
    /// key.
    pub(super) fn new(leaves: &[(&[u8], Entry)]) -> Self {
        let pieces: Vec<_> = leaves.chunks(CHUNK_LEAVES_MAX * 3 / 4).collect();
        let ends = pieces.iter().skip(1).map(|next| Some(next[0].0)).chain([None]);
        let cells = pieces.iter().zip(ends).map(|(piece, end)| cell(Chunk::new(piece, end)));
        let cells: Vec<_> = cells.collect();
        let starts: Vec<&[u8]> = pieces.iter().map(|piece| piece[0].0).collect();
        let root = Root { separators: Separators::new(&starts), cells };
        Self { root: ArcSwap::from_pointee(root) }
    }

    /// Returns the leaf whose range contains `key`.
    pub(super) fn find(&self, key: &[u8]) -> Entry {
        let root = self.root.load();
        let chunk = root.cells[root.separators.find(key)].chunk.load();
        chunk.entries[chunk.separators.find(key)]
    }

    /// The same, with the leaf's range.
    pub(super) fn find_bounds(&self, key: &[u8]) -> (Entry, Bounds) {
        let root = self.root.load();
        let chunk = root.cells[root.separators.find(key)].chunk.load();
        let index = chunk.separators.find(key);
        (chunk.entries[index], chunk.bounds(index))
    }

    /// The leaf that holds the keys just below `key`, or the last of all, with its range.
    pub(super) fn find_before(&self, key: Option<&[u8]>) -> (Entry, Bounds) {
        let before = |separators: &Separators| match key {
            Some(key) => separators.find_before(key),
            None => separators.len() - 1,
        };
        let root = self.root.load();
        let chunk = root.cells[before(&root.separators)].chunk.load();
        let index = before(&chunk.separators);
        (chunk.entries[index], chunk.bounds(index))
    }

    /// Every leaf, one chunk after the other.
    #[cfg(test)]
    pub(super) fn for_each(&self, mut visit: impl FnMut(Entry)) {
        for cell in &self.root.load_full().cells {
            cell.chunk.load_full().entries.iter().copied().for_each(&mut visit);
        }
    }

    /// Prepares a change around the leaf that holds `key`.
    pub(super) fn change(&self, key: &[u8]) -> Change<'_> {
        let root = self.root.load_full();
        let cell = root.separators.find(key);
        let chunk = root.cells[cell].chunk.load_full();
        let index = chunk.separators.find(key);
        Change { directory: self, root, cell, chunk, index }
    }
}

fn cell(chunk: Chunk) -> Arc<Cell> {
    Arc::new(Cell { chunk: ArcSwap::from_pointee(chunk) })
}

/// A change of the directory around one leaf, not yet made. Only one exists at a time (D2).
pub(super) struct Change<'a> {
    directory: &'a Directory,
    root: Arc<Root>,
    cell: usize,
    chunk: Arc<Chunk>,
    index: usize,
}

impl Change<'_> {
    pub(super) fn entry(&self) -> Entry {
        self.chunk.entries[self.index]
    }

    pub(super) fn bounds(&self) -> Bounds {
        self.chunk.bounds(self.index)
    }

    /// Steps to the lower of two neighbours in one chunk, if the chunk has two leaves, and gives
    /// the upper one with its range.
    pub(super) fn pair(&mut self) -> Option<(Entry, Bounds)> {
        if self.chunk.entries.len() < 2 {
            return None;
        }
        self.index = self.index.min(self.chunk.entries.len() - 2);
        Some((self.chunk.entries[self.index + 1], self.chunk.bounds(self.index + 1)))
    }

    /// The leaf has a new revision, and an upper neighbour from `cut` on.
    pub(super) fn publish_split(self, revision: u32, cut: &[u8], upper: Entry) {
        let mut leaves = self.chunk.leaves();
        leaves[self.index].1.revision = revision;
        leaves.insert(self.index + 1, (cut, upper));
        self.publish(&leaves);
    }

    /// The leaf has a new revision, and the upper neighbour's range.
    pub(super) fn publish_merge(self, revision: u32) {
        let mut leaves = self.chunk.leaves();
        leaves[self.index].1.revision = revision;
        leaves.remove(self.index + 1);
        self.publish(&leaves);
    }

    /// Joins the chunk with a neighbour if both are small; the leaves do not change.
    pub(super) fn join_chunks(self) {
        let cells = self.root.cells.len();
        if cells < 2 || self.chunk.entries.len() > CHUNK_LEAVES_MAX / 8 {
            return;
        }
        let lower = self.cell.min(cells - 2);
        let chunks = [lower, lower + 1].map(|index| self.root.cells[index].chunk.load_full());
        let leaves: Vec<_> = chunks.iter().flat_map(|chunk| chunk.leaves()).collect();
        if leaves.len() <= CHUNK_LEAVES_MAX / 2 {
            let joined = Chunk::new(&leaves, chunks[1].end.as_deref());
            self.replace_cells(lower..lower + 2, &[(leaves[0].0, cell(joined))]);
        }
    }

    fn publish(&self, leaves: &[(&[u8], Entry)]) {
        let end = self.chunk.end.as_deref();
        if leaves.len() <= CHUNK_LEAVES_MAX {
            self.root.cells[self.cell].chunk.store(Arc::new(Chunk::new(leaves, end)));
            return;
        }
        // Keys that come in order fill the lower part; it need not be left half empty.
        let at_end = end.is_none() && self.index + 2 >= leaves.len() - 1;
        let middle = if at_end { leaves.len() * 15 / 16 } else { leaves.len() / 2 };
        let (lower, upper) = leaves.split_at(middle);
        let cut = upper[0].0;
        let parts =
            [(lower[0].0, cell(Chunk::new(lower, Some(cut)))), (cut, cell(Chunk::new(upper, end)))];
        self.replace_cells(self.cell..self.cell + 1, &parts);
    }

    fn replace_cells(&self, range: std::ops::Range<usize>, by: &[(&[u8], Arc<Cell>)]) {
        let mut cells = self.root.cells.clone();
        let mut starts: Vec<&[u8]> = self.root.separators.iter().collect();
        cells.splice(range.clone(), by.iter().map(|(_, cell)| cell.clone()));
        starts.splice(range, by.iter().map(|(start, _)| *start));
        let root = Root { separators: Separators::new(&starts), cells };
        self.directory.root.store(Arc::new(root));
    }
}
