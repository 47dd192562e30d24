//! A clock of the cache: its pieces, and the hand that moves round them.

use std::collections::HashMap;

use super::{Cached, Key, Measured};

/// Bits of a place in a mark; above them it has the clock's index.
const PLACE_BITS: u32 = 48;

/// See the file's head.
#[derive(Debug)]
pub(super) struct Clock {
    index: usize,
    places: HashMap<Key, usize>,
    slots: Vec<Option<Slot>>,
    /// Slots whose pieces were evicted.
    free: Vec<usize>,
    hand: usize,
    bytes: u64,
}

/// A piece in a clock.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) key: Key,
    pub(super) cached: Cached,
    has_second_chance: bool,
}

impl Clock {
    /// An empty one, the `index`th of the cache's.
    pub(super) fn new(index: usize) -> Self {
        let (places, slots, free) = Default::default();
        Self { index, places, slots, free, hand: 0, bytes: 0 }
    }

    /// Returns the index of the clock that a mark is about.
    pub(super) fn index_in(mark: u64) -> usize {
        (mark >> PLACE_BITS) as usize
    }

    /// Returns the piece at the place that a mark names.
    pub(super) fn at(&self, mark: u64) -> Option<Cached> {
        let place = mark ^ (self.index as u64) << PLACE_BITS;
        let slot = self.slots.get(usize::try_from(place).ok()?)?.as_ref()?;
        Some(slot.cached.clone())
    }

    /// Puts another copy at the place that a mark names, if `old` is still there; returns the copy
    /// that is left over.
    pub(super) fn replace(&mut self, mark: u64, old: &Cached, new: Cached) -> Option<Cached> {
        let place = mark ^ (self.index as u64) << PLACE_BITS;
        let slot = usize::try_from(place).ok().and_then(|place| self.slots.get_mut(place));
        match slot.and_then(Option::as_mut).filter(|slot| slot.cached.is(old)) {
            Some(slot) => {
                new.mark(mark);
                self.bytes = (self.bytes + new.bytes()).saturating_sub(old.bytes());
                Some(std::mem::replace(&mut slot.cached, new))
            }
            None => Some(new),
        }
    }

    /// Bytes of its pieces.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether it has `key`.
    pub(super) fn has(&self, key: &Key) -> bool {
        self.places.contains_key(key)
    }

    /// Returns its piece of `key`, which gets a second chance.
    pub(super) fn lookup(&mut self, key: &Key) -> Option<Cached> {
        let place = *self.places.get(key)?;
        let slot = self.slots.get_mut(place)?.as_mut()?;
        slot.has_second_chance = true;
        Some(slot.cached.clone())
    }

    /// Adds a slot, unless the key has one: in the place of an evicted one, so that the hand has
    /// just passed.
    pub(super) fn add(&mut self, key: Key, cached: Cached) -> bool {
        self.put(Slot { key, cached, has_second_chance: false }).is_none()
    }

    /// Adds a slot that comes from another clock; returns it if the key has one.
    pub(super) fn put(&mut self, slot: Slot) -> Option<Slot> {
        let key = slot.key;
        if self.places.contains_key(&key) {
            return Some(slot);
        }
        self.bytes += slot.cached.bytes();
        let place = self.free.pop().unwrap_or(self.slots.len());
        slot.cached.mark((self.index as u64) << PLACE_BITS | place as u64);
        let slot = Some(slot);
        match self.slots.get_mut(place) {
            Some(free) => *free = slot,
            None => self.slots.push(slot),
        }
        self.places.insert(key, place);
        None
    }

    /// Removes and returns all slots that do not stay.
    pub(super) fn take_others(&mut self, stays: impl Fn(&Key) -> bool) -> Vec<Slot> {
        let mut taken = Vec::new();
        for (place, slot) in self.slots.iter_mut().enumerate() {
            let Some(slot) = slot.take_if(|slot| !stays(&slot.key)) else { continue };
            self.places.remove(&slot.key);
            self.free.push(place);
            self.bytes -= slot.cached.bytes();
            taken.push(slot);
        }
        taken
    }

    /// Evicts the first slot from the hand on that has no second chance.
    pub(super) fn evict(&mut self) -> Option<Slot> {
        // After one round no slot has a second chance any more.
        for _ in 0..2 * self.slots.len() {
            if self.hand >= self.slots.len() {
                self.hand = 0;
            }
            let place = self.hand;
            self.hand += 1;
            let Some(place_of) = self.slots.get_mut(place) else { continue };
            match place_of {
                Some(slot) if slot.has_second_chance => slot.has_second_chance = false,
                Some(_) => {
                    let given_up = place_of.take()?;
                    self.places.remove(&given_up.key);
                    self.free.push(place);
                    self.bytes -= given_up.cached.bytes();
                    return Some(given_up);
                }
                None => {}
            }
        }
        None
    }
}
