//! Leaves by number, at addresses that never move.
//!
//! Segments double in size and are made on demand, so that a small map is small and a leaf is found
//! by arithmetic alone. A leaf is never freed before the map: its number is used again, and its
//! revision shows a reader that it now holds another range.

use std::sync::OnceLock;

use sync::locks::{Mutex, RwLock};

use super::leaf::Leaf;

/// Leaves in the first segment; a power of two.
const FIRST_SEGMENT_LEAVES: u32 = 8;
/// Enough segments for every `u32`.
const SEGMENTS: usize = 30;

/// A leaf's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LeafId(pub(super) u32);

/// All leaves of a map, in use or free.
#[derive(Debug)]
pub(super) struct Slab {
    segments: [OnceLock<Box<[RwLock<Leaf>]>>; SEGMENTS],
    free: Mutex<Free>,
}

#[derive(Debug, Default)]
struct Free {
    reusable: Vec<LeafId>,
    next: u32,
}

impl Slab {
    pub(super) fn new() -> Self {
        Self { segments: [const { OnceLock::new() }; SEGMENTS], free: Mutex::default() }
    }

    /// Leaf `id`.
    pub(super) fn get(&self, id: LeafId) -> &RwLock<Leaf> {
        let (segment, index) = place(id);
        let leaves = self.segments[segment].get_or_init(|| {
            (0..FIRST_SEGMENT_LEAVES << segment).map(|_| RwLock::new(Leaf::default())).collect()
        });
        &leaves[index]
    }

    /// Returns a leaf that is not in use.
    pub(super) fn allocate(&self) -> LeafId {
        let mut free = self.free.lock();
        if let Some(id) = free.reusable.pop() {
            return id;
        }
        let id = LeafId(free.next);
        free.next = free.next.checked_add(1).expect("fewer than 2^32 leaves fit any memory");
        id
    }

    /// Takes back a leaf that the directory no longer names.
    pub(super) fn release(&self, id: LeafId) {
        self.free.lock().reusable.push(id);
    }

    /// Bytes of the segments made so far.
    pub(super) fn memory(&self) -> usize {
        let leaves: usize =
            self.segments.iter().filter_map(OnceLock::get).map(|segment| segment.len()).sum();
        leaves * size_of::<RwLock<Leaf>>()
    }
}

fn place(id: LeafId) -> (usize, usize) {
    let position = u64::from(id.0) + u64::from(FIRST_SEGMENT_LEAVES);
    let segment = position.ilog2() - FIRST_SEGMENT_LEAVES.ilog2();
    let start = u64::from(FIRST_SEGMENT_LEAVES) << segment;
    (segment as usize, (position - start) as usize)
}
