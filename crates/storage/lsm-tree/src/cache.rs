//! A cache of pieces of tables, as tables see it.

use std::fmt::Debug;
use std::sync::Arc;

use memory_budget::MemoryBudget;

use crate::table::{Block, Held, Metadata};
use crate::walk_lengths::WalkLengths;

/// Number that marks metadata, in the place of a fragment's number.
const METADATA: u32 = u32::MAX;

/// A cached piece.
#[derive(Clone, Debug)]
pub enum Cached {
    /// A data block.
    Block(Arc<Block>),
    /// A table's metadata.
    Metadata(Arc<Metadata>),
}

/// The key of a piece: a table and a place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    table: u64,
    fragment: u32,
    offset: u64,
}

impl Key {
    /// Returns the key of a data block.
    #[inline]
    pub fn block(table: u64, fragment: u32, offset: u64) -> Self {
        Self { table, fragment, offset }
    }

    /// Returns the key of a table's metadata.
    #[inline]
    pub fn metadata(table: u64) -> Self {
        Self { table, fragment: METADATA, offset: 0 }
    }

    /// Returns whether the piece is metadata.
    #[inline]
    pub fn is_metadata(&self) -> bool {
        self.fragment == METADATA
    }

    /// Returns a hash.
    #[inline]
    pub fn hash(&self) -> u64 {
        let mut bytes = [0; 20];
        let (table, rest) = bytes.split_at_mut(8);
        let (fragment, offset) = rest.split_at_mut(4);
        table.copy_from_slice(&self.table.to_le_bytes());
        fragment.copy_from_slice(&self.fragment.to_le_bytes());
        offset.copy_from_slice(&self.offset.to_le_bytes());
        codec::hash64(0, &bytes)
    }
}

/// A cache of pieces of all tables of a store.
pub trait PieceCache: Send + Sync + Debug {
    /// Returns the piece of `key`, if it is cached.
    fn get(&self, key: &Key) -> Option<Cached>;

    /// Returns whether it has `key`. Does not count as a lookup.
    fn has(&self, key: &Key) -> bool;

    /// Returns memory for a piece of `len` bytes that was read, with any content.
    fn memory(&self, len: usize) -> Held;

    /// Keeps a piece that was read, and may evict others for it.
    fn insert(&self, key: Key, cached: Cached);

    /// Notes that blocks were read for walks.
    fn note_walked(&self, blocks: u64);

    /// Returns the lengths of walks over the tables of the store.
    fn walk_lengths(&self) -> &WalkLengths;

    /// Returns the budget that counts the memory of walks over tables.
    fn budget(&self) -> &Arc<MemoryBudget>;
}

/// A cache that keeps nothing: for work that reads each piece once.
#[derive(Clone, Debug)]
pub struct NoCache {
    budget: Arc<MemoryBudget>,
    walk_lengths: Arc<WalkLengths>,
}

impl NoCache {
    /// Returns it, with the budget of the walks.
    pub fn new(budget: &Arc<MemoryBudget>) -> Arc<Self> {
        Arc::new(Self { budget: Arc::clone(budget), walk_lengths: Arc::default() })
    }
}

impl PieceCache for NoCache {
    fn get(&self, _: &Key) -> Option<Cached> {
        None
    }

    fn has(&self, _: &Key) -> bool {
        false
    }

    fn memory(&self, len: usize) -> Held {
        Held::from(vec![0; len])
    }

    fn insert(&self, _: Key, _: Cached) {}

    fn note_walked(&self, _: u64) {}

    fn walk_lengths(&self) -> &WalkLengths {
        &self.walk_lengths
    }

    fn budget(&self) -> &Arc<MemoryBudget> {
        &self.budget
    }
}
