//! The places of the victims' bytes in the space, while the space changes.
//!
//! # Invariants
//! - T1. A victim map is as long as the space. Bytes of it that are no hole are at the same offset
//!   in the space, at the same address, in a victim.
//! - T2. No more than a bounded number of changes is noted, however long one writer keeps its lock.

use crate::data::Geometry;
use crate::log::Change;
use crate::{Extent, FlexSnapshot, FlexTree, Mapping};

/// A tree of the victims' extents.
#[derive(Debug)]
pub(in crate::space) struct VictimMap {
    tree: FlexTree,
    /// How many there were when it was made.
    extents: u64,
}

impl VictimMap {
    /// Returns the extents of a state that are in `victims`, which are sorted; none if they are
    /// more than `extents_max`.
    pub(super) fn of(
        state: &FlexSnapshot,
        geometry: Geometry,
        victims: &[u32],
        extents_max: u64,
    ) -> Option<Self> {
        let mut count = 0;
        // Extents stay apart, since they are read and copied one by one.
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

    /// Returns how many extents of victims there were when it was made.
    pub(super) fn extents(&self) -> u64 {
        self.extents
    }

    /// Makes a change of the space to the victim map, too.
    pub(super) fn follow(&mut self, note: Note) {
        let Note { offset, removed, length } = note;
        let done = if removed == length {
            self.tree.punch(offset, length)
        } else {
            let collapsed = self.tree.collapse_range(offset, removed);
            collapsed.and_then(|()| self.tree.insert_range(offset, length, Extent::HOLE))
        };
        done.expect("what was done to the space can be done to its victim_map");
    }
}

/// The part of a change that a victim map needs: `length` bytes replaced `removed` ones. They are
/// in no victim: they are new, or a hole, or were relocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::space) struct Note {
    offset: u64,
    removed: u64,
    length: u64,
}

impl Note {
    /// Returns none if the change does not concern the victim map.
    pub(super) fn of(change: &Change) -> Option<Self> {
        let (offset, removed, length) = match change {
            Change::Splice { offset, removed, pieces, .. } => {
                let length = pieces.iter().map(|piece| u64::from(piece.length)).sum();
                (*offset, *removed, length)
            }
            Change::Hole { offset, removed, length } => (*offset, *removed, *length),
            Change::Relocate { offset, piece } => {
                let length = u64::from(piece.length);
                (*offset, length, length)
            }
            Change::SetTag { .. } => return None,
        };
        Some(Self { offset, removed, length })
    }
}

/// Adds bytes of one extent, or those of a hole, which may be longer than one operation adds.
fn append(tree: &mut FlexTree, length: u64, extent: Extent) {
    let mut left = length;
    while left > 0 {
        let part = left.min(<FlexTree>::GROWTH_MAX);
        tree.append(part, extent).expect("a victim_map is no longer than its space");
        left -= part;
    }
}

/// The work that writers do for the present collection.
#[derive(Debug, Default)]
pub(in crate::space) enum Tracking {
    /// None runs.
    #[default]
    Off,
    /// Its victim map is being made: changes are noted, at most `count_max`.
    Noting { noted: Vec<Note>, count_max: usize },
    /// There were more: the victim map that is being made is of no use.
    Outrun,
    /// Its victim map follows each change.
    Following(VictimMap),
}

impl Tracking {
    /// Notes changes from here on, at most `count_max` (T2).
    pub(super) fn begin(&mut self, count_max: usize) {
        *self = Self::Noting { noted: Vec::new(), count_max };
    }

    pub(super) fn end(&mut self) {
        *self = Self::Off;
    }

    /// A change was made.
    pub(in crate::space) fn note(&mut self, change: &Change) {
        match self {
            Self::Off | Self::Outrun => {}
            Self::Noting { noted, count_max } => match Note::of(change) {
                Some(_) if noted.len() >= *count_max => *self = Self::Outrun,
                note => noted.extend(note),
            },
            Self::Following(victim_map) => {
                if let Some(note) = Note::of(change) {
                    victim_map.follow(note);
                }
            }
        }
    }

    /// Returns the noted changes; none if they were too many.
    pub(super) fn take_noted(&mut self) -> Option<Vec<Note>> {
        match self {
            Self::Outrun => None,
            Self::Noting { noted, .. } => Some(std::mem::take(noted)),
            Self::Off | Self::Following(_) => Some(Vec::new()),
        }
    }

    pub(super) fn follow(&mut self, victim_map: VictimMap) {
        *self = Self::Following(victim_map);
    }

    /// Returns the first pieces of victims that are left, at most `count`.
    pub(super) fn next(&self, count: usize) -> Vec<Mapping> {
        let Self::Following(victim_map) = self else { return Vec::new() };
        let pieces = victim_map.tree.query(0..victim_map.tree.len());
        pieces.filter(|piece| !piece.extent.is_hole()).take(count).collect()
    }

    /// Bytes of victims that stay where they are.
    pub(super) fn forget(&mut self, offset: u64, length: u64) {
        if let Self::Following(victim_map) = self {
            victim_map.tree.punch(offset, length).expect("the victim_map has these bytes");
        }
    }
}
