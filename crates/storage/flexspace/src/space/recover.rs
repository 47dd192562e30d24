//! The stored state of a space: the tree of the last checkpoint, and the later changes of the logs.
//! Nothing is changed.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use codec::{Corruption, Reader, Writer};
use device::{Device, File, Mode};

use super::Error;
use super::write::change_tree;
use crate::data::{DATA, Geometry};
use crate::log::{self, Record, Replayed};
use crate::nodes::{NodeFile, Root, TREE};
use crate::shift_tree::{NodeId, RestoreError};
use crate::{FlexSnapshot, FlexTree};

/// The superblock's name: the file that makes a directory a space.
pub const SUPERBLOCK: &str = engine::Superblock::NAME;
pub(super) const SUPERBLOCK_KIND: [u8; 8] = *b"flexspac";

/// The content of the superblock: see `docs/formats/flexspace.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Committed {
    pub(super) segment_bytes: u32,
    pub(super) slot_bytes: u32,
    pub(super) life: u64,
    pub(super) log: u64,
    pub(super) len: u64,
    pub(super) root: Root,
}

impl Committed {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut out = Writer::new(&mut bytes);
        out.put_u32(self.segment_bytes);
        out.put_u32(self.slot_bytes);
        out.put_u64(self.life);
        out.put_u64(self.log);
        out.put_u64(self.len);
        out.put_u64(self.root.id);
        out.put_u32(self.root.slot);
        out.put_u32(self.root.checksum);
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Corruption> {
        let mut fields = Reader::new(bytes);
        let committed = Self {
            segment_bytes: fields.take_u32()?,
            slot_bytes: fields.take_u32()?,
            life: fields.take_u64()?,
            log: fields.take_u64()?,
            len: fields.take_u64()?,
            root: Root {
                id: fields.take_u64()?,
                slot: fields.take_u32()?,
                checksum: fields.take_u32()?,
            },
        };
        fields.finish()?;
        Ok(committed)
    }
}

/// A space in the state that an opening found.
#[derive(Debug)]
pub(super) struct Recovered {
    pub(super) geometry: Geometry,
    pub(super) slot_bytes: u32,
    pub(super) life: u64,
    pub(super) tree: FlexTree,
    pub(super) nodes: NodeFile,
    pub(super) data: Arc<dyn File>,
    pub(super) generations: Vec<u64>,
    /// Live bytes of each segment.
    pub(super) live: Vec<u64>,
    pub(super) replayed: Replayed,
}

/// Returns an empty tree for segments of this geometry.
pub(super) fn empty_tree(geometry: Geometry) -> FlexTree {
    FlexTree::with_join_window(join_window(geometry))
}

fn join_window(geometry: Geometry) -> u64 {
    u64::from(geometry.extent_bytes_max())
}

/// Reads the files to which the superblock's payload leads.
///
/// # Errors
/// [`Error::Corruption`], [`Error::Device`].
pub(super) fn recover(device: &dyn Device, committed: &Committed) -> Result<Recovered, Error> {
    let damaged = |what: &str| Error::from(Corruption::new(what, 0).at(SUPERBLOCK, 0));
    let geometry =
        Geometry::new(committed.segment_bytes).ok_or_else(|| damaged("segments of such a size"))?;
    let data = device.open_blocks(DATA, Mode::Write)?;
    let file = device.open(TREE, Mode::Write)?;
    if committed.slot_bytes < NodeFile::slot_bytes_for(&*file) {
        let what = "the device writes larger units than the one that the space was made on";
        return Err(Error::Options(what.to_owned()));
    }
    let mut nodes = NodeFile::new(file, committed.slot_bytes);
    nodes.found(committed.root);
    nodes.read_ahead()?;
    let window = join_window(geometry);
    let root = NodeId(committed.root.id);
    let tree = FlexTree::restore(window, root, committed.len, |id| nodes.load(id));
    let mut tree = tree.map_err(|error| match error {
        RestoreError::Load(error) => error,
        other => Corruption::new(other.to_string(), 0).at(TREE, 0).into(),
    })?;
    nodes.loaded()?;
    let mut generations = Vec::new();
    // A segment has its room before a record of it is in the log.
    let segment_count = data.len()? / u64::from(committed.segment_bytes);
    let log = (committed.life, committed.log);
    let replayed = log::replay(device, log, geometry, &mut |record| match record {
        Record::Segment { segment, .. } if u64::from(segment) >= segment_count => {
            Err(Corruption::new("a segment behind the end of the data", 0))
        }
        Record::Segment { segment, generation } => {
            set_generation(&mut generations, segment, generation);
            Ok(())
        }
        Record::Change(change) => change_tree(&mut tree, &change).map_err(|error| {
            Corruption::new(format!("a record that cannot have been: {error}"), 0)
        }),
    })?;
    let live = live_bytes(&tree.snapshot(), geometry, &generations)?;
    generations.resize(live.len().max(generations.len()), 0);
    let (slot_bytes, life) = (committed.slot_bytes, committed.life);
    Ok(Recovered { geometry, slot_bytes, life, tree, nodes, data, generations, live, replayed })
}

/// Of a segment's generations the last one counts.
fn set_generation(generations: &mut Vec<u64>, segment: u32, generation: u64) {
    let index = segment as usize;
    if generations.len() <= index {
        generations.resize(index + 1, 0);
    }
    if let Some(slot) = generations.get_mut(index) {
        *slot = generation;
    }
}

/// Counts the bytes to which the tree refers, and refuses addresses in no segment.
pub(super) fn live_bytes(
    tree: &FlexSnapshot,
    geometry: Geometry,
    generations: &[u64],
) -> Result<Vec<u64>, Error> {
    let mut live = vec![0; generations.len()];
    for piece in tree.query(0..tree.len()) {
        let Some(address) = piece.extent.address() else { continue };
        let (segment, _) = geometry.place(address);
        let length = u64::from(piece.length);
        let known = generations.get(segment as usize).is_some_and(|generation| *generation > 0);
        match live.get_mut(segment as usize) {
            Some(bytes) if known && geometry.is_extent(address, length) => *bytes += length,
            _ => {
                let what = format!("the extent at offset {} lies in no segment", piece.offset);
                return Err(Corruption::new(what, 0).at(TREE, 0).into());
            }
        }
    }
    Ok(live)
}
