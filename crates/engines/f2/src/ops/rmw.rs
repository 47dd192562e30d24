//! An atomic read-modify-write.
//!
//! 1. If the key's newest record is mutable, the operator changes it in place. If it is cached, no
//!    thread can change it, and the operator makes a new value of it.
//! 2. Otherwise the record is sealed (if a thread might still change it), the operator makes a new
//!    value of the old one, and a new record is linked, if no other was meanwhile.
//! 3. If the old value is on disk it is read unprotected, and if the hot log has no record of the
//!    key, from the cold log (Algorithm 1 of the F2 paper). Then the record is appended only if the
//!    part of the chain that is new since has no record of the key (*conditional insert*, [O4]).
//!
//! An attempt that fails begins again, so the operator may be called several times. So does one
//! whose new value is longer than the room that was reserved for it.
//!
//! A host that orders the writes of a key itself looks the old value up
//! ([`engine::At::ForUpdate`]), excludes other writes of the key, and checks the same of the chain
//! before it writes ([`Shared::is_unwritten_since`]).

use std::sync::Arc;

use engine::{
    Change, Demand, Operator, Reservation, Result, SeqNo, Updated, VALUE_BYTES_GUESSED, Wait,
};

use crate::address::LogAddress;
use crate::hash_index::Slot;
use crate::hybrid_log::PageFull;
use crate::key_hash::KeyHash;
use crate::ops::Found;
use crate::ops::disk_lookup::{Beyond, DiskLookup, Progress};
use crate::planted::{Planted, mutant};
use crate::record::{InPlace, Live, Read, Shape};
use crate::scratch::Scratch;
use crate::store::Shared;

/// The end of an attempt.
enum Attempt {
    Done,
    /// Another write of the chain came first.
    Lost,
    /// Memory does not have the old value.
    Beyond(Beyond),
    /// The new value has this many bytes, for which there is no room.
    NeedsRoom(u64),
    /// The new value cannot be held.
    TooLong(engine::Error),
}

type Tried = std::result::Result<Attempt, PageFull>;

/// The progress of a read-modify-write.
pub(crate) enum Advanced {
    Done,
    /// The device has to be read for the old value; nothing has changed.
    NeedsRead(ReadForUpdate),
    /// The new value has this many bytes, for which there is no room; nothing has changed.
    NeedsRoom(u64),
}

/// The same of a part in memory.
enum InMemory {
    Done,
    Beyond(ReadForUpdate),
    NeedsRoom(u64),
}

/// The end of an update with an old value that was looked up.
pub(crate) enum AfterLookup {
    Done,
    /// Another write came first: the update begins again.
    Lost,
    /// The new value has this many bytes, for which there is no room; nothing has changed.
    NeedsRoom(u64),
}

/// A read-modify-write that needs the old value from disk, and the moment at which it began.
pub(crate) struct ReadForUpdate {
    pub(crate) beyond: Beyond,
    /// The value of `SAFE_READ_ONLY` then.
    pub(crate) start: LogAddress,
}

impl ReadForUpdate {
    /// The lookup that finds it. A copy of it would be cut off immediately.
    pub(crate) fn lookup(&self, hash: KeyHash) -> DiskLookup {
        DiskLookup::new(hash, self.beyond, false)
    }
}

impl Shared {
    /// Replaces the key's value by the result of `operator`, in a store that numbers its writes
    /// itself and whose keys are not locked. An old value that was read from the device is replaced
    /// only if no other write of the key came first. Waits for room and for the device.
    pub(crate) fn rmw(self: &Arc<Self>, key: &[u8], operator: &mut dyn Operator) -> Result<()> {
        let hash = self.hash(key);
        let mut value = Scratch::take();
        let mut bytes_max = VALUE_BYTES_GUESSED;
        loop {
            let room = self.room_to_update(key, bytes_max)?;
            let number = self.host.sequence.begin();
            let advanced = self.rmw_up_to_device(key, operator, &mut value, &room)?;
            // Nothing is held during a read of the device.
            drop((number, room));
            let needed = match advanced {
                Advanced::Done => return Ok(()),
                Advanced::NeedsRoom(bytes) => {
                    bytes_max = bytes_max.max(bytes);
                    continue;
                }
                Advanced::NeedsRead(needed) => needed,
            };
            let lookup = self.begin_pending(needed.lookup(hash), None, key, &mut value)?;
            let is_found = self.lookups.pool.complete(lookup, &mut value)?;
            let old = is_found.then_some(value.as_slice());
            let room = self.room_to_update(key, bytes_max)?;
            let _number = self.host.sequence.begin();
            match self.update_after_lookup(hash, key, operator, &needed, old, &room)? {
                AfterLookup::Done => return Ok(()),
                AfterLookup::Lost => {}
                AfterLookup::NeedsRoom(bytes) => bytes_max = bytes_max.max(bytes),
            }
        }
    }

    /// Reserves room for a new value of the key.
    fn room_to_update(&self, key: &[u8], bytes_max: u64) -> Result<Reservation<'_>> {
        self.check_rmw(key)?;
        let room = self.reserve(&Demand::Update { key, bytes_max }, Wait::Yes)?;
        Ok(room.unwrap_or_else(Reservation::uncounted))
    }

    /// Replaces the value if memory knows the old one, and there is room.
    pub(crate) fn try_update(
        &self,
        key: &[u8],
        operator: &mut dyn Operator,
        seqno: SeqNo,
        room: &Reservation<'_>,
    ) -> Result<Updated> {
        self.check_rmw(key)?;
        if seqno <= self.checkpoints.persisted() {
            return Ok(Updated::Done);
        }
        Ok(match self.rmw_up_to_device(key, operator, &mut Scratch::take(), room)? {
            Advanced::Done => Updated::Done,
            Advanced::NeedsRead(..) => Updated::NeedsRead,
            Advanced::NeedsRoom(bytes) => Updated::NeedsRoom { bytes },
        })
    }

    /// Does a read-modify-write up to its end, or up to the lookup of the old value that needs a
    /// read.
    pub(crate) fn rmw_up_to_device(
        &self,
        key: &[u8],
        operator: &mut dyn Operator,
        value: &mut Vec<u8>,
        room: &Reservation<'_>,
    ) -> Result<Advanced> {
        let hash = self.hash(key);
        let mut lost = 0;
        loop {
            let needed = match self.rmw_in_memory(hash, key, operator, value, room, &mut lost)? {
                InMemory::Done => return Ok(Advanced::Done),
                InMemory::NeedsRoom(bytes) => return Ok(Advanced::NeedsRoom(bytes)),
                InMemory::Beyond(needed) => needed,
            };
            let mut lookup = needed.lookup(hash);
            let old = match lookup.start(self, key, value)? {
                Progress::Read => return Ok(Advanced::NeedsRead(needed)),
                Progress::Value => Some(value.as_slice()),
                Progress::Absent => None,
            };
            match self.update_after_lookup(hash, key, operator, &needed, old, room)? {
                AfterLookup::Done => return Ok(Advanced::Done),
                AfterLookup::NeedsRoom(bytes) => return Ok(Advanced::NeedsRoom(bytes)),
                AfterLookup::Lost if has_used_up(room, &mut lost) => {
                    return Ok(Advanced::NeedsRoom(VALUE_BYTES_GUESSED));
                }
                AfterLookup::Lost => {}
            }
        }
    }

    /// Counts an old value that was read from disk.
    pub(crate) fn note_read_for_update(&self, hash: KeyHash, needed: &ReadForUpdate) {
        self.note_disk_read(hash, needed.beyond.chain.log_head);
    }

    /// Returns whether the key was not written since it was looked up. The caller keeps writes of
    /// the key out, and is not protected. [O4]
    pub(crate) fn is_unwritten_since(
        &self,
        hash: KeyHash,
        key: &[u8],
        needed: &ReadForUpdate,
    ) -> bool {
        let _guard = self.epochs.protect();
        let head = self.hot.index.find(hash).map_or(LogAddress::NONE, |slot| slot.address());
        self.has_nothing_since(head, key, needed)
    }

    /// Whether a read-modify-write of `key` may begin.
    pub(crate) fn check_rmw(&self, key: &[u8]) -> Result<()> {
        self.health.check_writable()?;
        self.wake_upkeep();
        self.check_record(key, &[])
    }

    /// Does all of it if memory has the old value. [O4]
    fn rmw_in_memory(
        &self,
        hash: KeyHash,
        key: &[u8],
        operator: &mut dyn Operator,
        value: &mut Vec<u8>,
        room: &Reservation<'_>,
        lost: &mut u32,
    ) -> Result<InMemory> {
        loop {
            let start = self.hot.log.safe_read_only();
            let attempt = || self.try_rmw_in_memory(hash, key, operator, value, room);
            match self.with_room(room, attempt)? {
                Attempt::Done => return Ok(InMemory::Done),
                Attempt::Lost if has_used_up(room, lost) => {
                    return Ok(InMemory::NeedsRoom(VALUE_BYTES_GUESSED));
                }
                Attempt::Lost => {}
                Attempt::Beyond(beyond) => {
                    return Ok(InMemory::Beyond(ReadForUpdate { beyond, start }));
                }
                Attempt::NeedsRoom(bytes) => return Ok(InMemory::NeedsRoom(bytes)),
                Attempt::TooLong(error) => return Err(error),
            }
        }
    }

    /// Continues with the old value, if the key has one.
    pub(crate) fn update_after_lookup(
        &self,
        hash: KeyHash,
        key: &[u8],
        operator: &mut dyn Operator,
        needed: &ReadForUpdate,
        old: Option<&[u8]>,
        room: &Reservation<'_>,
    ) -> Result<AfterLookup> {
        if old.is_some() {
            self.note_read_for_update(hash, needed);
        }
        let change = operator.update(old);
        if change == Change::Keep {
            return Ok(AfterLookup::Done);
        }
        // The level may have changed since room was reserved.
        if old.is_none() && matches!(change, Change::Put(_)) {
            self.check_new_value()?;
        }
        match self.with_room(room, || self.insert_if_none(hash, key, needed, &change, room))? {
            Attempt::Done => Ok(AfterLookup::Done),
            Attempt::TooLong(error) => Err(error),
            Attempt::NeedsRoom(bytes) => Ok(AfterLookup::NeedsRoom(bytes)),
            Attempt::Lost | Attempt::Beyond(_) => Ok(AfterLookup::Lost),
        }
    }

    fn try_rmw_in_memory(
        &self,
        hash: KeyHash,
        key: &[u8],
        operator: &mut dyn Operator,
        value: &mut Vec<u8>,
        room: &Reservation<'_>,
    ) -> Tried {
        let (mutable, safe) = (self.hot.log.mutable_from(), self.hot.log.safe_read_only());
        let truncations = self.hot.truncations();
        // Not made yet: an operator that changes nothing leaves nothing behind.
        let found = self.hot.index.find(hash);
        let seen = self.cache.seen(found, truncations);
        let beyond = |on_disk| Ok(Attempt::Beyond(Beyond { chain: seen.note(), on_disk }));
        let Some(slot) = found else { return beyond(LogAddress::NONE) };
        let head = seen.log_head;
        if let Some(record) = self.cache.find(slot.address(), key) {
            let change = self.update_of(record, operator, value);
            return self.append((slot, hash), key, &change, room, |now| now == head);
        }
        let (record, at) = match self.walk(head, LogAddress::NONE, key) {
            Found::Here(record, at) => (record, at),
            Found::OnDisk(from) => return beyond(from),
            Found::Nothing => return beyond(LogAddress::NONE),
        };
        if at >= mutable && record.rmw_in_place(operator, value) == InPlace::Done {
            return Ok(Attempt::Done);
        }
        if at >= safe {
            record.seal();
        }
        let change = self.update_of(record, operator, value);
        self.append((slot, hash), key, &change, room, |now| now == head)
    }

    fn update_of(
        &self,
        record: Live<'_>,
        operator: &mut dyn Operator,
        value: &mut Vec<u8>,
    ) -> Change {
        match record.read(value) {
            Read::Value => operator.update(Some(value)),
            Read::Tombstone => operator.update(None),
        }
    }

    /// *Conditional insert*: appends `change`, unless a record of the key was linked since the
    /// attempt that needed the old value began.
    fn insert_if_none(
        &self,
        hash: KeyHash,
        key: &[u8],
        needed: &ReadForUpdate,
        change: &Change,
        room: &Reservation<'_>,
    ) -> Tried {
        let slot = self.hot.index.find_or_create(hash);
        if !self.has_nothing_since(slot.address(), key, needed) {
            return Ok(Attempt::Lost);
        }
        self.append((slot, hash), key, change, room, |_| false)
    }

    /// Returns whether the chain that begins at `head` has no record of the key that was linked
    /// since. The caller is protected since before it read `head`. [O4]
    fn has_nothing_since(&self, head: LogAddress, key: &[u8], needed: &ReadForUpdate) -> bool {
        let until = needed.beyond.chain.log_head.plus(1);
        let walk = || self.walk(head, until, key);
        let found = mutant!(Planted::NewPartUnsearched, walk(), Found::Nothing);
        // A record that was linked since may have left the log again. One that leaves from now on
        // stays on its chain while we are protected, so that a link from `head` would fail.
        let is_whole = self.hot.log.begin() <= needed.start;
        mutant!(Planted::BeginUnlookedAt, is_whole, true) && matches!(found, Found::Nothing)
    }

    /// Appends `change` and links it in place of the address that `slot` was read with.
    fn append<'a>(
        &'a self,
        (slot, hash): (Slot<'a>, KeyHash),
        key: &[u8],
        change: &Change,
        room: &Reservation<'_>,
        may: impl Fn(LogAddress) -> bool,
    ) -> Tried {
        let value = match change {
            Change::Keep => return Ok(Attempt::Done),
            Change::Delete => None,
            Change::Put(value) => Some(value.as_slice()),
        };
        if let Err(error) = self.check_record(key, value.unwrap_or_default()) {
            return Ok(Attempt::TooLong(error));
        }
        let shape = Shape { key_bytes: key.len(), value_bytes: value.map_or(0, <[u8]>::len) };
        if !self.hot.log.covers(room, shape.bytes() as u64) {
            return Ok(Attempt::NeedsRoom(shape.value_bytes as u64));
        }
        let head = self.cache.log_head(slot.address());
        let at = self.hot.log.try_allocate(shape.bytes() as u64)?;
        self.hot.log.note_append(head, self.hot.log.mutable_from());
        self.hot.log.live(at).write(head, key, value);
        match self.link(slot, hash, at, may) {
            Ok(()) => Ok(Attempt::Done),
            Err(()) => {
                self.hot.log.live(at).invalidate();
                Ok(Attempt::Lost)
            }
        }
    }
}

/// Counts a race that an update has lost. Returns whether its reservation has no more room for the
/// record: that has room for two attempts.
fn has_used_up(room: &Reservation<'_>, lost: &mut u32) -> bool {
    *lost += 1;
    *lost >= 2 && room.bytes() > 0
}
