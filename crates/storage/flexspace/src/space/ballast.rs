//! Room that is held on the device, so that necessary work can proceed on a full device.
//!
//! A log that records removals, a checkpoint, an opening and the collector need room before they
//! release any. A file holds it, and becomes shorter if one of them would be refused.
//!
//! # Invariants
//! - B1. A caller's bytes get a segment only if the ballast is as long as [`Ballast::wanted_bytes`]
//!   says, so a device that other users leave alone is never full for those above.
//!
//! # Concurrency
//! The lock of [`device::Ballast`] is held over I/O, and is the last to be taken before that of the
//! state.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use device::Device;

use super::Error;
use crate::data::Geometry;

/// The file's name.
const BALLAST: &str = "ballast";

/// Segments that the collector has room for with the first segment in use.
const SEGMENTS_MIN: u64 = 2;
/// Segments in use, for each of which it has room for one more, up to the reserve. With room for n
/// a collection wins one segment out of n + 1 that hold 31/32 of n between them.
const SEGMENTS_SHARE: u64 = 8;
/// Of the copies' bytes the share that records of their new places may take: those of extents of
/// 200 bytes and more do.
const RELOCATIONS_SHARE: u64 = 8;
/// Most bytes that a segment's record takes in a log.
const RECORD_BYTES: u64 = 16;

/// The file, and the parts of its length.
#[derive(Debug)]
pub(super) struct Ballast {
    room: device::Ballast,
    segment_bytes: u64,
    segments_max: u64,
    slot_bytes: u64,
    log_growth_bytes: u64,
    /// Whether the device had no room, and no caller has been given any since.
    is_device_full: AtomicBool,
    /// Slots of the tree that are free, as of the last checkpoint.
    spare_slots: AtomicU64,
    /// Slots that a cut needs which was not stored.
    owed_slots: AtomicU64,
}

/// Sizes by which a ballast is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measures {
    pub(super) geometry: Geometry,
    pub(super) reserved_segments: u32,
    pub(super) slot_bytes: u32,
    pub(super) log_growth_bytes: u64,
}

impl Ballast {
    /// Returns the ballast that the device holds.
    pub(super) fn found(device: Arc<dyn Device>, of: Measures) -> Result<Self, Error> {
        Ok(Self {
            room: device::Ballast::found(device, BALLAST)?,
            segment_bytes: u64::from(of.geometry.segment_bytes()),
            segments_max: u64::from(of.reserved_segments),
            slot_bytes: u64::from(of.slot_bytes),
            log_growth_bytes: of.log_growth_bytes,
            is_device_full: AtomicBool::new(false),
            spare_slots: AtomicU64::new(0),
            owed_slots: AtomicU64::new(0),
        })
    }

    /// Returns the bytes to be held with `used_segments` segments in use and `new_nodes` nodes of
    /// the tree that are in no checkpoint: room for the collector's copies, and for all others.
    pub(super) fn wanted_bytes(&self, used_segments: u64, new_nodes: u64) -> u64 {
        let bytes = self.copied_bytes(used_segments) + self.others_bytes(used_segments, new_nodes);
        // So that not every new node makes it longer.
        bytes.next_multiple_of(self.segment_bytes / 4)
    }

    fn copied_bytes(&self, used_segments: u64) -> u64 {
        let copies = SEGMENTS_MIN + used_segments / SEGMENTS_SHARE;
        copies.min(self.segments_max) * self.segment_bytes
    }

    /// Returns the part of it that no copy takes: room for two logs, the records of the copies, and
    /// the new nodes.
    pub(super) fn others_bytes(&self, used_segments: u64, new_nodes: u64) -> u64 {
        let logs = 2 * (self.log_growth_bytes + used_segments * RECORD_BYTES);
        let relocations = self.copied_bytes(used_segments) / RELOCATIONS_SHARE;
        // Nearly all are leaves, which take one slot each.
        let slots = new_nodes + new_nodes / 4 + self.owed_slots.load(Relaxed);
        let slots = slots.saturating_sub(self.spare_slots.load(Relaxed));
        logs + relocations + slots * self.slot_bytes
    }

    /// Returns the bytes that it holds.
    pub(super) fn bytes(&self) -> u64 {
        self.room.bytes()
    }

    /// Returns whether the device had no room, and no caller has been given any since.
    pub(super) fn is_device_full(&self) -> bool {
        self.is_device_full.load(Relaxed)
    }

    /// A caller was given room, or there was none.
    pub(super) fn found_device_full(&self, is_full: bool) {
        self.is_device_full.store(is_full, Relaxed);
    }

    /// Notes that a checkpoint is durable, which leaves `spare_slots` slots free.
    pub(super) fn stored(&self, spare_slots: u64) {
        self.spare_slots.store(spare_slots, Relaxed);
        self.owed_slots.store(0, Relaxed);
    }

    /// Notes that a cut which needs `slots` slots was not stored.
    pub(super) fn owes(&self, slots: u64) {
        self.owed_slots.store(slots, Relaxed);
    }

    /// Holds that many bytes at least.
    ///
    /// # Errors
    /// [`device::Error::NoSpace`], which is no failure; it still holds the same number of bytes.
    pub(super) fn hold(&self, bytes: u64) -> Result<(), device::Error> {
        self.room.hold(bytes)
    }

    /// Holds `bytes` bytes, or its present number if there is no room for more; releases bytes only
    /// if it holds much more.
    pub(super) fn fit(&self, bytes: u64) -> Result<(), device::Error> {
        self.room.fit(bytes)
    }

    /// Does work that needs up to `bytes` of room, and releases part of the ballast if there is
    /// none.
    ///
    /// # Errors
    /// The errors of `work`. [`device::Error::NoSpace`] means that the ballast is used up, too.
    pub(super) fn spend<T>(
        &self,
        bytes: u64,
        work: impl FnMut() -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.spend_above(0, bytes, work)
    }

    /// Does the same for `work` that leaves the room free that it has taken, also if it fails.
    /// Afterwards the ballast is as long as before, as far as there is room.
    ///
    /// # Errors
    /// As [`Self::spend`].
    pub(super) fn lend<T>(
        &self,
        bytes: u64,
        work: impl FnMut() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let is_full = |error: &Error| {
            let is_full = error.is_full_device();
            self.is_device_full.fetch_or(is_full, Relaxed);
            is_full
        };
        self.room.lend(bytes, is_full, work)
    }

    /// Restores the ballast to the length at which it held `held` bytes, as far as there is room.
    ///
    /// # Errors
    /// The device's, but not that it is full.
    pub(super) fn take_back(&self, held: u64) -> Result<(), device::Error> {
        self.room.take_back(held.saturating_sub(self.bytes()))
    }

    /// As [`Self::spend`], but it keeps at least `kept` bytes.
    pub(super) fn spend_above<T>(
        &self,
        kept: u64,
        bytes: u64,
        work: impl FnMut() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let held = self.bytes();
        let done = self.room.spend((kept, bytes), Error::is_full_device, work);
        if self.bytes() < held {
            self.is_device_full.store(true, Relaxed);
        }
        done
    }
}
