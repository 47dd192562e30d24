//! Where in the space the victims' bytes are, while the space changes.
//!
//! # Invariants
//! - T1. A trail is as long as the space. What in it is no hole lies at the same offset in the space,
//!   at the same address, in a victim.

use crate::data::Geometry;
use crate::log::Change;
use crate::{Extent, FlexSnapshot, FlexTree, Mapping};

/// A tree of the victims' extents.
#[derive(Debug)]
pub(in crate::space) struct Trail {
    tree: FlexTree,
    /// How many there were when it was made.
    extents: u64,
}

impl Trail {
    /// What of a state lies in `victims`, which are sorted; none if it is more than so many extents.
    pub(super) fn of(
        state: &FlexSnapshot,
        geometry: Geometry,
        victims: &[u32],
        extents_max: u64,
    ) -> Option<Self> {
        let mut count = 0;
        // Extents are kept apart, as they are read and copied.
        let mut tree = FlexTree::with_join_window(1);
        let mut hole = 0;
        for piece in state.query(0..state.len()) {
            let segment = piece.extent.address().map(|address| geometry.place(address).0);
            let is_victim = segment.is_some_and(|segment| victims.binary_search(&segment).is_ok());
            let length = u64::from(piece.length);
            if is_victim {
                append(&mut tree, std::mem::take(&mut hole), Extent::HOLE);
                append(&mut tree, length, piece.extent.with_tag(0));
                count += 1;
                if count > extents_max {
                    return None;
                }
            } else {
                hole += length;
            }
        }
        append(&mut tree, hole, Extent::HOLE);
        Some(Self { tree, extents: count })
    }

    /// How many extents of victims there were when it was made.
    pub(super) fn extents(&self) -> u64 {
        self.extents
    }

    /// Does to the trail what was done to the space: new bytes lie in no victim, and what was
    /// relocated does not any more.
    pub(super) fn follow(&mut self, change: &Change) {
        let done = match change {
            Change::Splice { offset, removed, pieces, .. } => {
                let length = pieces.iter().map(|piece| u64::from(piece.length)).sum();
                let collapsed = self.tree.collapse_range(*offset, *removed);
                collapsed.and_then(|()| self.tree.insert_range(*offset, length, Extent::HOLE))
            }
            Change::Hole { offset, removed, length } => {
                let collapsed = self.tree.collapse_range(*offset, *removed);
                collapsed.and_then(|()| self.tree.insert_range(*offset, *length, Extent::HOLE))
            }
            Change::Relocate { offset, piece } => self.tree.punch(*offset, u64::from(piece.length)),
            Change::SetTag { .. } => Ok(()),
        };
        done.expect("what was done to the space can be done to its trail");
    }
}

fn append(tree: &mut FlexTree, length: u64, extent: Extent) {
    // Holes may be longer than one operation adds, but no space is.
    tree.append(length, extent).expect("a trail is no longer than its space");
}

/// What a writer does for the collection that runs.
#[derive(Debug, Default)]
pub(in crate::space) enum Tracking {
    /// None runs.
    #[default]
    Off,
    /// Its trail is being made: changes are noted.
    Noting(Vec<Change>),
    /// Its trail follows each change.
    Following(Trail),
}

impl Tracking {
    pub(super) fn begin(&mut self) {
        *self = Self::Noting(Vec::new());
    }

    pub(super) fn end(&mut self) {
        *self = Self::Off;
    }

    /// A change was made.
    pub(in crate::space) fn note(&mut self, change: &Change) {
        match self {
            Self::Off => {}
            Self::Noting(noted) => noted.push(change.clone()),
            Self::Following(trail) => trail.follow(change),
        }
    }

    pub(super) fn take_noted(&mut self) -> Vec<Change> {
        match self {
            Self::Noting(noted) => std::mem::take(noted),
            _ => Vec::new(),
        }
    }

    pub(super) fn follow(&mut self, trail: Trail) {
        *self = Self::Following(trail);
    }

    /// The first pieces of victims that are left, at most `count`.
    pub(super) fn next(&self, count: usize) -> Vec<Mapping> {
        let Self::Following(trail) = self else { return Vec::new() };
        let pieces = trail.tree.query(0..trail.tree.len());
        pieces.filter(|piece| !piece.extent.is_hole()).take(count).collect()
    }

    /// Bytes of victims that stay where they are.
    pub(super) fn forget(&mut self, offset: u64, length: u64) {
        if let Self::Following(trail) = self {
            trail.tree.punch(offset, length).expect("the trail has these bytes");
        }
    }
}
