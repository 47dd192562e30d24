//! Which segments are free, which are filled, and how many bytes of each are live.
//!
//! ```text
//!   free ──take──> open ──close──> closed ──its last byte goes, and that is durable──> waiting
//!    ^                                                                                    |
//!    |<─────── wanted at once ─────────── no snapshot is of a state that refers to it
//!    └── its room was given back ──────── punching <──────────────────────────────────────┘
//!                                             ^── free when the space was opened
//! ```
//!
//! # Invariants
//! - S1. The live bytes of a segment are the bytes to which the present tree refers in it.
//! - S2. No more than the limit live, so that the collector can always proceed (Flex 4.2): callers
//!   leave `reserved` segments to it.
//! - S3. A free segment that is roomy has room on the device, so beginning it cannot fail for lack
//!   of it.
//! - S4. The states of the space that refer to a segment are among those from its first byte to its
//!   last one. A segment that waits is held by a snapshot of one of these, and by no other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Geometry;

/// The share of the segments beyond the reserve that may live, of 32 (Flex 4.2).
const LIVE_SHARE: u64 = 30;
const SHARES: u64 = 32;
/// Segments that callers may begin while the room of free ones is released.
const FREE_KEPT: u32 = 16;

/// The oldest living snapshot of the states from one to another, if there is one.
pub(crate) type FirstPin<'a> = &'a dyn Fn(u64, u64) -> Option<u64>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Free,
    Open,
    Closed,
    Waiting,
    Punching,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    live: u64,
    phase: Phase,
    /// The first state of the space that refers to it, in this life of the segment (S4).
    first: u64,
    /// If nothing lives in it, the last one.
    last: u64,
}

impl Segment {
    fn new(live: u64, phase: Phase) -> Self {
        // Bytes that the opening found were there before the first state.
        Self { live, phase, first: 0, last: 0 }
    }
}

/// The segments that a plan of the collector examines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SegmentView {
    /// Closed segments with bytes that live, and can be read as far as is known: their number, and
    /// how many bytes.
    pub(crate) closed: Vec<(u32, u64)>,
    /// Segments that a caller may still begin.
    pub(crate) available: u32,
    /// The number of segments for lack of which a caller was refused.
    pub(crate) demand: u32,
    /// Whether the device had no room for a caller, or for work that has to proceed without it.
    pub(crate) is_device_full: bool,
    /// Whether writes are so frequent that they empty segments.
    pub(crate) is_beside_writes: bool,
    /// Whether every dead byte is to be collected, as far as segments become fewer.
    pub(crate) is_thorough: bool,
    /// Segments that are kept for the collector.
    pub(crate) reserved: u32,
    /// How many of those it can begin now.
    pub(crate) room: u32,
    /// Addresses of a segment.
    pub(crate) payload_bytes: u64,
}

/// All segments of a space.
#[derive(Debug)]
pub(crate) struct Segments {
    geometry: Geometry,
    segments: Vec<Segment>,
    free: BTreeSet<u32>,
    /// Those of the free ones that have room on the device.
    roomy: BTreeSet<u32>,
    /// Closed ones without a live byte in the present tree.
    emptied: BTreeSet<u32>,
    /// Emptied segments of durable commits that no snapshot is known to hold.
    waiting: VecDeque<u32>,
    /// Emptied segments that snapshots hold, by the state of the oldest such snapshot.
    held: BTreeMap<u64, Vec<u32>>,
    count_max: u32,
    reserved: u32,
    live: u64,
    /// Those with a block that could not be read: they are no victims as long as something lives in
    /// them.
    unreadable: BTreeSet<u32>,
    /// The most segments that one change wanted, and that were not available since.
    demand: u32,
    /// Number of segments whose room is being released.
    punching: u64,
    /// Free segments that the opening found. They may have room of an earlier life.
    unpunched: BTreeSet<u32>,
}

impl Segments {
    pub(crate) fn new(geometry: Geometry, count_max: u32, reserved: u32) -> Self {
        Self {
            geometry,
            segments: Vec::new(),
            free: BTreeSet::new(),
            roomy: BTreeSet::new(),
            emptied: BTreeSet::new(),
            waiting: VecDeque::new(),
            held: BTreeMap::new(),
            count_max,
            reserved,
            live: 0,
            unreadable: BTreeSet::new(),
            demand: 0,
            punching: 0,
            unpunched: BTreeSet::new(),
        }
    }

    /// Says how many bytes live in each segment, when a space is opened. The file has `count`
    /// segments at least: those behind the last live one may have room.
    pub(crate) fn found(&mut self, live: &[u64], count: usize) {
        self.segments.clear();
        let dead = count.saturating_sub(live.len());
        for (index, bytes) in live.iter().copied().chain(std::iter::repeat_n(0, dead)).enumerate() {
            let phase = if bytes == 0 { Phase::Free } else { Phase::Closed };
            if bytes == 0 {
                self.free.insert(index as u32);
                self.unpunched.insert(index as u32);
            }
            self.segments.push(Segment::new(bytes, phase));
            self.live += bytes;
        }
    }

    /// Returns the bytes that live.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.live
    }

    /// Returns the bytes that may live.
    pub(crate) fn limit_bytes(&self) -> u64 {
        let count = u64::from(self.count_max.saturating_sub(self.reserved));
        count * u64::from(self.geometry.payload_bytes()) / SHARES * LIVE_SHARE
    }

    /// Returns how many segments can be begun, with those of the reserve.
    fn free_count(&self) -> u32 {
        self.free.len() as u32 + self.count_max.saturating_sub(self.segments.len() as u32)
    }

    /// Returns how many of them callers may begin.
    pub(crate) fn available(&self) -> u32 {
        self.free_count().saturating_sub(self.reserved)
    }

    /// Returns how many of those have room on the device for sure.
    pub(crate) fn available_with_room(&self) -> u32 {
        self.available().min(self.roomy.len() as u32)
    }

    /// Notes that a change which needs `count` segments was refused: the collector is to make them
    /// available.
    pub(crate) fn demand(&mut self, count: u32) {
        self.demand = self.demand.max(count);
    }

    /// Forgets a demand that can be met; a later caller is refused again.
    pub(crate) fn forget_met_demand(&mut self) {
        if self.available() >= self.demand {
            self.demand = 0;
        }
    }

    /// Returns the number of a free segment for a caller, or for the collector; none if there is
    /// none. It stays free until [`Self::open`].
    pub(crate) fn next_free(&self, for_collector: bool) -> Option<u32> {
        let available = if for_collector { self.free_count() } else { self.available() };
        if available == 0 {
            return None;
        }
        Some(self.next_ones(1).next().expect("one of them is free"))
    }

    /// Returns the segments that are begun next: first the ones that have room.
    pub(crate) fn next_ones(&self, count: u32) -> impl Iterator<Item = u32> {
        let new = self.segments.len() as u32..self.count_max;
        let others = self.free.iter().filter(|segment| !self.roomy.contains(segment));
        self.roomy.iter().chain(others).copied().chain(new).take(count as usize)
    }

    /// Returns whether the device is known to have room for a free segment (S3).
    pub(crate) fn is_roomy(&self, segment: u32) -> bool {
        self.roomy.contains(&segment)
    }

    /// Says whether a free segment, or a new one, has room on the device.
    pub(crate) fn set_roomy(&mut self, segment: u32, is_roomy: bool) {
        while self.segments.len() <= segment as usize {
            self.free.insert(self.segments.len() as u32);
            self.segments.push(Segment::new(0, Phase::Free));
        }
        debug_assert!(self.free.contains(&segment), "the segment is free");
        if is_roomy {
            self.roomy.insert(segment);
        } else {
            self.roomy.remove(&segment);
        }
    }

    /// Returns whether nothing lives in a segment that was closed.
    pub(crate) fn is_emptied(&self, segment: u32) -> bool {
        let entry = &self.segments[segment as usize];
        entry.phase != Phase::Closed || entry.live == 0
    }

    /// Begins a segment.
    pub(crate) fn open(&mut self, segment: u32) {
        debug_assert!(self.roomy.contains(&segment), "it has room");
        self.free.remove(&segment);
        self.roomy.remove(&segment);
        let entry = &mut self.segments[segment as usize];
        debug_assert_eq!(
            (entry.phase, entry.live),
            (Phase::Free, 0),
            "the segment is free and empty"
        );
        entry.phase = Phase::Open;
        // No state refers to it yet.
        (entry.first, entry.last) = (u64::MAX, 0);
    }

    /// Ends a segment: it is in the file as a whole.
    pub(crate) fn close(&mut self, segment: u32) {
        let entry = &mut self.segments[segment as usize];
        entry.phase = Phase::Closed;
        if entry.live == 0 {
            self.emptied.insert(segment);
        }
    }

    /// Returns whether the present tree has no byte of a segment.
    pub(crate) fn is_dead(&self, segment: u32) -> bool {
        self.segments[segment as usize].live == 0
    }

    /// The tree refers to `length` bytes more at `address`, from that state of the space on.
    pub(crate) fn add(&mut self, address: u64, length: u64, state: u64) {
        let (segment, _) = self.geometry.place(address);
        let entry = &mut self.segments[segment as usize];
        entry.live += length;
        entry.first = entry.first.min(state);
        self.live += length;
        // The collector fills segments before the tree refers to them.
        self.emptied.remove(&segment);
    }

    /// Notes that, after that state of the space, the tree does not refer to `length` bytes at
    /// `address` any more.
    pub(crate) fn subtract(&mut self, address: u64, length: u64, state: u64) {
        let (segment, _) = self.geometry.place(address);
        let entry = &mut self.segments[segment as usize];
        entry.live -= length;
        self.live -= length;
        if entry.live == 0 {
            entry.last = state;
            if entry.phase == Phase::Closed {
                self.emptied.insert(segment);
            }
        }
    }

    /// Returns the segments that a commit which begins now will free, once it is durable.
    pub(crate) fn take_emptied(&mut self) -> BTreeSet<u32> {
        std::mem::take(&mut self.emptied)
    }

    /// A commit is durable that took the last byte of these.
    pub(crate) fn freed(&mut self, segments: BTreeSet<u32>) {
        for segment in segments {
            self.segments[segment as usize].phase = Phase::Waiting;
            self.waiting.push_back(segment);
        }
    }

    /// Examines segments again whose snapshot was dropped.
    fn release(&mut self, first_pin: FirstPin<'_>) {
        let gone = |state: &&u64| first_pin(**state, **state).is_none();
        let gone: Vec<u64> = self.held.keys().filter(gone).copied().collect();
        for state in gone {
            self.waiting.extend(self.held.remove(&state).unwrap_or_default());
        }
    }

    /// Returns a segment that no snapshot can reach (S4), if a waiting one is.
    fn take_reclaimable(&mut self, first_pin: FirstPin<'_>) -> Option<u32> {
        while let Some(segment) = self.waiting.pop_front() {
            let entry = &self.segments[segment as usize];
            match first_pin(entry.first, entry.last) {
                None => return Some(segment),
                Some(state) => self.held.entry(state).or_default().push(segment),
            }
        }
        None
    }

    /// Frees a segment that no snapshot can reach, with its room; says whether there was one.
    pub(crate) fn reclaim(&mut self, first_pin: FirstPin<'_>) -> bool {
        self.release(first_pin);
        let Some(segment) = self.take_reclaimable(first_pin) else { return false };
        self.free_again(segment);
        self.roomy.insert(segment);
        true
    }

    /// Takes up to `count` segments that no snapshot can reach, to release their room.
    pub(crate) fn begin_punching(&mut self, first_pin: FirstPin<'_>, count: usize) -> Vec<u32> {
        self.release(first_pin);
        let mut segments = Vec::new();
        while segments.len() < count
            && let Some(segment) = self.take_reclaimable(first_pin)
        {
            self.segments[segment as usize].phase = Phase::Punching;
            segments.push(segment);
        }
        self.punching += segments.len() as u64;
        segments
    }

    /// Takes up to `count` segments that the opening found free, to release room that they may
    /// have of an earlier life. The caller has made the found state durable. Leaves enough free
    /// segments to callers.
    pub(crate) fn begin_punching_found(&mut self, count: usize) -> Vec<u32> {
        let mut segments = Vec::new();
        while segments.len() < count && self.available() > FREE_KEPT {
            let Some(segment) = self.unpunched.pop_first() else { break };
            // A segment that was begun since, or has room for a caller, is left.
            if !self.roomy.contains(&segment) && self.free.remove(&segment) {
                self.segments[segment as usize].phase = Phase::Punching;
                segments.push(segment);
            }
        }
        self.punching += segments.len() as u64;
        segments
    }

    /// Those are free from now on.
    pub(crate) fn punched(&mut self, segments: &[u32]) {
        self.punching -= segments.len() as u64;
        segments.iter().for_each(|segment| self.free_again(*segment));
    }

    fn free_again(&mut self, segment: u32) {
        self.segments[segment as usize].phase = Phase::Free;
        self.free.insert(segment);
        // It will be written again.
        self.unreadable.remove(&segment);
    }

    /// Something that lives in the segment cannot be read.
    pub(crate) fn found_unreadable(&mut self, segment: u32) {
        self.unreadable.insert(segment);
    }

    /// Returns how many segments the collector leaves alone for that.
    pub(crate) fn unreadable_count(&self) -> u64 {
        self.unreadable.len() as u64
    }

    /// Segments that the tree refers to, or may yet.
    pub(crate) fn in_use(&self) -> impl Iterator<Item = u32> {
        let is_used = |segment: &Segment| segment.phase == Phase::Open || segment.live > 0;
        (0..).zip(&self.segments).filter(move |(_, segment)| is_used(segment)).map(|(n, _)| n)
    }

    /// Live bytes of each segment.
    pub(crate) fn live_of_each(&self) -> Vec<u64> {
        self.segments.iter().map(|segment| segment.live).collect()
    }

    pub(crate) fn view(&self, is_device_full: bool) -> SegmentView {
        let is_closed = |segment: &Segment| segment.phase == Phase::Closed && segment.live > 0;
        let closed = (0..)
            .zip(&self.segments)
            .filter(|(number, segment)| is_closed(segment) && !self.unreadable.contains(number));
        SegmentView {
            closed: closed.map(|(number, segment)| (number, segment.live)).collect(),
            available: self.available(),
            demand: self.demand,
            is_device_full,
            is_beside_writes: false,
            is_thorough: false,
            reserved: self.reserved,
            room: self.free_count().min(self.reserved),
            payload_bytes: u64::from(self.geometry.payload_bytes()),
        }
    }

    /// Segments that are free, waiting, and in use.
    pub(crate) fn counts(&self) -> (u64, u64, u64) {
        let held: usize = self.held.values().map(Vec::len).sum();
        let waiting = (self.waiting.len() + held) as u64 + self.punching;
        let free = self.free.len() as u64;
        (free, waiting, self.segments.len() as u64 - free - waiting)
    }
}
