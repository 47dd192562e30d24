//! Figures about a space.

use super::checkpoint::Checkpointer;
use super::{FlexSpace, Writer};
use crate::log::LogWriter;

/// The composition of a space at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Bytes of the space.
    pub len: u64,
    /// Bytes in segments that it refers to: all but those of holes.
    pub live_bytes: u64,
    /// How many bytes may live.
    pub limit_bytes: u64,
    /// The longest extent.
    pub extent_bytes_max: u32,
    /// Segments of the data file that are in use.
    pub used_segments: u64,
    /// Segments that are free.
    pub free_segments: u64,
    /// Segments that snapshots hold.
    pub held_segments: u64,
    /// Segments that the collector leaves alone until the space is opened again, because a used
    /// block could not be read.
    pub unreadable_segments: u64,
    /// Bytes of room that are held on the device, so that syncs, checkpoints, openings and the
    /// collector can proceed when it is full.
    pub ballast_bytes: u64,
    /// Snapshots that live.
    pub snapshots: u64,
    /// Bytes of the log of this life.
    pub log_bytes: u64,
    /// Bytes of records that are not in the log.
    pub pending_bytes: u64,
    /// Records that were replayed when the space was opened.
    pub replayed_records: u64,
    /// Checkpoints since the space was opened, not counting the one of its opening.
    pub checkpoints: u64,
    /// Slots of the tree file that are in use.
    pub used_slots: u64,
    /// Slots that are free.
    pub free_slots: u64,
}

impl FlexSpace {
    /// Returns how often the space was opened and changed, its making included: the number of the
    /// present life, or of the last one while [`Self::has_begun`] is false. Waits for a writer.
    pub fn life(&self) -> u64 {
        self.shared.writer.lock().life
    }

    /// Returns the bytes of memory of the tree's nodes, those of living snapshots included, and of
    /// their places in the tree file. Waits for no I/O.
    pub fn node_bytes(&self) -> u64 {
        self.shared.state.read().tree.node_bytes() + self.shared.checkpoints.place_bytes()
    }

    /// Returns the bytes in segments that the space refers to ([`Stats::live_bytes`]). Waits for a
    /// writer.
    pub fn live_bytes(&self) -> u64 {
        self.shared.writer.lock().segments.live_bytes()
    }

    /// Segments that the collector leaves alone ([`Stats::unreadable_segments`]). Waits for a
    /// writer.
    pub fn unreadable_segments(&self) -> u64 {
        self.shared.writer.lock().segments.unreadable_count()
    }

    /// Figures about the space. Waits for a checkpoint and for writers.
    pub fn stats(&self) -> Stats {
        let shared = &self.shared;
        let checkpointer = shared.checkpoints.lock();
        let log = shared.log.lock();
        self.stats_of(&checkpointer, log.as_ref(), &shared.writer.lock())
    }

    /// Returns the same, if no thread checkpoints, commits, or changes the space at this moment;
    /// never waits.
    pub fn try_stats(&self) -> Option<Stats> {
        let shared = &self.shared;
        let checkpointer = shared.checkpoints.try_lock()?;
        let log = shared.log.try_lock()?;
        let writer = shared.writer.try_lock()?;
        Some(self.stats_of(&checkpointer, log.as_ref(), &writer))
    }

    fn stats_of(
        &self,
        checkpointer: &Checkpointer,
        log: Option<&LogWriter>,
        writer: &Writer,
    ) -> Stats {
        let shared = &self.shared;
        let (free_segments, held_segments, used_segments) = writer.segments.counts();
        let (used_slots, free_slots) = checkpointer.nodes.slots();
        Stats {
            len: self.len(),
            live_bytes: writer.segments.live_bytes(),
            limit_bytes: writer.segments.limit_bytes(),
            extent_bytes_max: shared.data.geometry.extent_bytes_max(),
            used_segments,
            free_segments,
            held_segments,
            unreadable_segments: writer.segments.unreadable_count(),
            ballast_bytes: shared.ballast.bytes(),
            snapshots: shared.pins.count(),
            log_bytes: log.map_or(0, LogWriter::bytes),
            pending_bytes: writer.pending.len() as u64,
            replayed_records: shared.log.replayed_records(),
            checkpoints: checkpointer.count,
            used_slots,
            free_slots,
        }
    }
}
