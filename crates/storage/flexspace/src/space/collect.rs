//! The collector: empties the emptiest segments by moving their live bytes (Flex 4.2).
//! The reasons are in `docs/design/flexspace.md`.
//!
//! 1. Choose victims for whose bytes there is room (`plan.rs`), and take a snapshot. From here on
//!    changes are noted.
//! 2. Walk the snapshot: bytes in victims are added to a *victim map*: a tree of the length of the
//!    space, in which all other bytes are a hole. The changes noted meanwhile are made to it, too;
//!    then every later change is made to it immediately. So the victim map always says where in the
//!    space the victims' bytes are. If more changes were made than are noted, as by a writer that
//!    keeps its lock for long, writers wait for another walk.
//! 3. Copy them to segments of the reserve, in the order of the space, without any lock.
//! 4. Under the writers' lock, some hundred extents at a time: remap the extents that the
//!    victim map still has.
//! 5. Commit: the victims are free, once no snapshot reaches them.

mod plan;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
mod victim_map;
mod windows;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use workers::{Class, Group, StopToken, Stopped};

use super::{Error, FlexSpace, Shared, Snapshot, Writer};
use crate::data::{Geometry, SegmentView, SegmentWriter, SegmentWrites};
use crate::log::{Change, Piece};
use crate::{FlexSnapshot, Mapping};
pub(super) use plan::plan;
use plan::{fewer, packed};
pub(super) use victim_map::Tracking;
use victim_map::VictimMap;
use windows::Windows;

/// Extents that are remapped before writers may proceed.
const REMAPS_PER_TURN: usize = if cfg!(shuttle) { 2 } else { 256 };

/// Changes that are noted while the victim map is made, below which it is brought to the present
/// under the writers' lock.
const NOTED_FEW: usize = if cfg!(shuttle) { 2 } else { 256 };

/// The urgency with which dead bytes are worth a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    AtEase,
    BesideWrites,
    Thorough,
}

/// The work that a collection did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Collected {
    /// Segments that were emptied.
    pub segments: u64,
    /// Bytes that were copied for it.
    pub moved_bytes: u64,
    /// Extents that were remapped.
    pub remapped: u64,
    /// The first failure to read a victim, if there was one: unreadable bytes stay where they are,
    /// and their segment is left alone until the space is opened again.
    pub damage: Option<Error>,
}

/// The copies of a victim's bytes: old address, length and new address.
type Moves = BTreeMap<u64, (u32, u64)>;

impl FlexSpace {
    /// Moves the live bytes of the emptiest segments together, if that is worth it, or if room is
    /// short for the callers' next segments, or for a change that was refused as
    /// [`Error::Uncollected`]. Writers wait for it only for moments, readers never; victims are
    /// free when it returns, unless snapshots reach them. Returns the work that was done; nothing,
    /// if nothing was worth it.
    ///
    /// # Errors
    /// As [`Self::sync`]. If the read of a victim fails with a retryable error, the call changes
    /// nothing.
    pub fn collect(&self) -> Result<Collected, Error> {
        self.shared.collect(Pace::AtEase, &|| false)
    }

    /// Does the same while writes are so frequent that they empty segments. A collection then moves
    /// fewer bytes for the room that it wins, because it leaves more dead bytes: up to two fifths
    /// of the bytes in closed segments instead of a quarter. If room is short, it is as urgent as
    /// otherwise.
    ///
    /// # Errors
    /// As [`Self::collect`].
    pub fn collect_beside_writes(&self) -> Result<Collected, Error> {
        self.shared.collect(Pace::BesideWrites, &|| false)
    }

    /// The same on demand: moves live bytes together as long as that frees a segment, whatever the
    /// share of dead bytes in the space. A segment is moved if at least one part in 32 of it is
    /// dead. One call takes at most 64 segments.
    ///
    /// # Errors
    /// As [`Self::collect`].
    pub fn collect_all(&self) -> Result<Collected, Error> {
        self.shared.collect(Pace::Thorough, &|| false)
    }

    /// Has the collector run in `group`, every `interval`, as long as the space is open.
    ///
    /// # Errors
    /// The group is stopping.
    pub fn collect_in(&self, group: &Group, interval: Duration) -> Result<(), Stopped> {
        let shared = std::sync::Arc::downgrade(&self.shared);
        group.every(Class::Collect, "flexspace collect", interval, move |stop: &StopToken| {
            if let Some(shared) = shared.upgrade() {
                // A write that fails makes the space read-only, and the next writer gets the error.
                // A reader of unreadable bytes gets the error of that read.
                let collect = || shared.collect(Pace::AtEase, &|| stop.is_stopping());
                while collect().is_ok_and(|done| done.segments > 0) {}
            }
        })
    }
}

impl Shared {
    fn collect(
        self: &std::sync::Arc<Self>,
        pace: Pace,
        is_stopping: &dyn Fn() -> bool,
    ) -> Result<Collected, Error> {
        let _one = self.collector.lock();
        if !self.log.has_begun() && plan(&self.view(&self.writer.lock(), pace)).is_empty() {
            // If this opening has changed nothing yet, it begins no life for this.
            return Ok(Collected::default());
        }
        let (view, victims, snapshot) = {
            // Segments that are free without any work are no reason to work.
            if self.commit()? {
                self.shorten_log(false)?;
            }
            let mut writer = self.writer_for_change()?;
            writer.segments.forget_met_demand();
            let victims = self.victims_with_room(&mut writer, pace)?;
            if victims.is_empty() || is_stopping() {
                return Ok(Collected::default());
            }
            let count_max = usize::try_from(self.options.collected_extents_max);
            writer.tracking.begin(count_max.unwrap_or(usize::MAX).max(NOTED_FEW));
            (writer.segments.view(self.ballast.is_device_full()), victims, self.snapshot())
        };
        let _end = EndTracking(self);
        let tree = snapshot.tree();
        let extents_max = self.options.collected_extents_max;
        let victim_map = VictimMap::of(tree, self.data.geometry, &victims, extents_max);
        let (victims, victim_map) = match victim_map {
            Some(victim_map) => (victims, victim_map),
            None => {
                let extents = extents_of(tree, self.data.geometry, &victims);
                let victims = fewer(&view, &victims, &extents, extents_max);
                let victim_map = VictimMap::of(tree, self.data.geometry, &victims, u64::MAX);
                (victims, victim_map.expect("however many extents there are"))
            }
        };
        if !self.has_room_to_relocate(victim_map.extents())? {
            return Ok(Collected::default());
        }
        self.collect_victims(&victims, victim_map, snapshot, is_stopping)
    }

    fn view(&self, writer: &Writer, pace: Pace) -> SegmentView {
        let view = writer.segments.view(self.ballast.is_device_full());
        let is_beside_writes = pace == Pace::BesideWrites;
        let is_thorough = pace == Pace::Thorough;
        SegmentView { is_beside_writes, is_thorough, ..view }
    }

    /// Plans victims, and secures room for their copies. If the device has too little room for all
    /// copies, which can happen below the capacity too, the plan gets fewer victims.
    fn victims_with_room(&self, writer: &mut Writer, pace: Pace) -> Result<Vec<u32>, Error> {
        let view = self.view(writer, pace);
        let victims = plan(&view);
        let count = packed(&view, &victims);
        let wanted: Vec<u32> = writer.segments.next_ones(count).collect();
        let mut room = 0;
        for &segment in &wanted {
            if !self.has_room_to_copy(writer, segment)? {
                break;
            }
            room += 1;
        }
        if room == count {
            return Ok(victims);
        }
        let victims = plan(&SegmentView { room, ..view });
        if victims.is_empty() {
            // The room is for the log, or for another caller that needs it.
            self.give_up_room(writer, &wanted[..room as usize])?;
        }
        Ok(victims)
    }

    fn collect_victims(
        self: &std::sync::Arc<Self>,
        victims: &[u32],
        mut victim_map: VictimMap,
        snapshot: Snapshot,
        is_stopping: &dyn Fn() -> bool,
    ) -> Result<Collected, Error> {
        let geometry = self.data.geometry;
        loop {
            let mut writer = self.writer_for_change()?;
            let Some(noted) = writer.tracking.take_noted() else {
                let now = self.state.read().tree.snapshot();
                let victim_map = VictimMap::of(&now, geometry, victims, u64::MAX);
                writer.tracking.follow(victim_map.expect("however many extents there are"));
                break;
            };
            if noted.len() <= NOTED_FEW {
                noted.into_iter().for_each(|note| victim_map.follow(note));
                writer.tracking.follow(victim_map);
                break;
            }
            drop(writer);
            noted.into_iter().for_each(|note| victim_map.follow(note));
        }
        let in_victims = |piece: &Mapping| {
            let address = piece.extent.address();
            address.is_some_and(|at| victims.binary_search(&geometry.place(at).0).is_ok())
        };
        let mut copy = Copying {
            shared: self,
            open: None,
            full: Vec::new(),
            moves: Moves::new(),
            unreadable: BTreeSet::new(),
            damage: None,
            windows: Windows::default(),
            writes: SegmentWrites::new(self.directory.device.clone()),
        };
        let mut copied = Ok(());
        for piece in snapshot.tree().query(0..snapshot.len()).filter(in_victims) {
            copied = copy.copy(&piece);
            if copied.is_err() || is_stopping() {
                break;
            }
        }
        copied = copied.and_then(|()| copy.finish());
        // After an error some writes may be in flight, and others may begin these segments.
        copied = self.health.stop_on(copy.writes.end()).and(copied);
        let Copying { full, moves, unreadable, damage, .. } = copy;
        drop(snapshot);
        // Without room for all of them, the copied extents are still worth it.
        let remapped = match copied {
            Ok(()) | Err(Error::Uncollected | Error::NoSpace { .. }) => self.remap_all(&moves),
            Err(error) => Err(error),
        };
        let mut writer = self.writer.lock();
        full.iter().for_each(|segment| writer.segments.close(*segment));
        unreadable.iter().for_each(|segment| writer.segments.found_unreadable(*segment));
        // Room that was there for the plan may have been taken since.
        let emptied = victims.iter().filter(|victim| writer.segments.is_emptied(**victim));
        let segments = emptied.count() as u64;
        drop(writer);
        let remapped = remapped?;
        if self.commit()? {
            self.shorten_log(false)?;
        }
        let moved_bytes = moves.values().map(|(length, _)| u64::from(*length)).sum();
        Ok(Collected { segments, moved_bytes, remapped, damage })
    }

    /// Remaps the extents that the victim map has and that were copied, and returns their number.
    fn remap_all(&self, moves: &Moves) -> Result<u64, Error> {
        let mut count = 0;
        loop {
            let mut writer = self.writer_for_change()?;
            // Extents that were remapped or forgotten are a hole of the victim map, so this loop
            // ends.
            let found = writer.tracking.next(REMAPS_PER_TURN);
            if found.is_empty() {
                return Ok(count);
            }
            for piece in found {
                count += self.remap(&mut writer, moves, &piece)?;
            }
        }
    }

    /// Remaps a piece that the victim map has, in the pieces in which it was copied.
    fn remap(&self, writer: &mut Writer, moves: &Moves, piece: &Mapping) -> Result<u64, Error> {
        let Some(first) = piece.extent.address() else { return Ok(0) };
        let (mut done, length) = (0, u64::from(piece.length));
        let mut count = 0;
        while done < length {
            let old = first + done;
            let moved = moves.range(..=old).next_back();
            let moved = moved.filter(|(begin, (moved, _))| old < **begin + u64::from(*moved));
            let Some((begin, (moved, to))) = moved else {
                // Not copied: the next one that was, or the end.
                let next = moves.range(old..).next().map_or(length, |(next, _)| next - first);
                writer.tracking.forget(piece.offset + done, next.min(length) - done);
                done = next.min(length);
                continue;
            };
            let part = (begin + u64::from(*moved) - old).min(length - done);
            let offset = piece.offset + done;
            let new = Piece { address: to + (old - begin), length: part as u32 };
            self.apply(writer, &Change::Relocate { offset, piece: new })?;
            done += part;
            count += 1;
        }
        Ok(count)
    }
}

/// Returns for each victim how many extents of a state are in it.
fn extents_of(state: &FlexSnapshot, geometry: Geometry, victims: &[u32]) -> Vec<u64> {
    let mut counts = vec![0; victims.len()];
    for piece in state.query(0..state.len()) {
        let segment = piece.extent.address().map(|address| geometry.place(address).0);
        if let Some(index) = segment.and_then(|segment| victims.binary_search(&segment).ok()) {
            counts[index] += 1;
        }
    }
    counts
}

/// Ends the following of changes, also if the collection panics.
struct EndTracking<'a>(&'a Shared);

impl Drop for EndTracking<'_> {
    fn drop(&mut self) {
        self.0.writer.lock().tracking.end();
    }
}

/// Victims' bytes on their way to other segments.
struct Copying<'a> {
    shared: &'a Shared,
    open: Option<SegmentWriter>,
    /// Segments that were begun, all of which are closed when the copies are remapped: before that,
    /// they would seem to have no live bytes.
    full: Vec<u32>,
    moves: Moves,
    /// Victims with bytes that could not be read, and the first failure.
    unreadable: BTreeSet<u32>,
    damage: Option<Error>,
    windows: Windows,
    writes: SegmentWrites,
}

impl Copying<'_> {
    fn copy(&mut self, piece: &Mapping) -> Result<(), Error> {
        let Some(address) = piece.extent.address() else { return Ok(()) };
        let mut bytes = vec![0; piece.length as usize];
        let data = &self.shared.data;
        if let Err(error) = self.windows.read(data, address, &mut bytes) {
            // The next opening's life may fill segments.
            self.shared.health.check_open()?;
            if error.is_retryable() {
                // The segments are intact, and a later collection reads them.
                return Err(error);
            }
            // Extents that were not copied are not remapped, so they stay; the others are worth it.
            self.unreadable.insert(data.geometry.place(address).0);
            self.damage.get_or_insert(error);
            return Ok(());
        }
        if !self.open.as_ref().is_some_and(|open| open.has_room(data, bytes.len())) {
            self.finish()?;
            let mut writer = self.shared.writer_for_change()?;
            // Others may have begun the segments whose room was secured.
            let next = writer.segments.next_free(true).ok_or(Error::Uncollected)?;
            if !self.shared.has_room_to_copy(&mut writer, next)? {
                return Err(Error::Uncollected);
            }
            let next = self.shared.begin_segment(&mut writer, true)?;
            self.full.push(next.segment);
            self.open = Some(next);
        }
        let open = self.open.as_mut().expect("a segment was begun");
        self.moves.insert(address, (piece.length, open.push(data, &bytes)));
        self.shared.health.check_writable()?;
        self.shared.health.stop_on(open.begin_full(data, &mut self.writes))
    }

    /// Writes the segment that is being filled.
    fn finish(&mut self) -> Result<(), Error> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        self.shared.health.check_writable()?;
        let written = open.write_new(&self.shared.data, &mut self.writes);
        self.shared.health.stop_on(written)
    }
}
