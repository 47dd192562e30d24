//! An atomic read-modify-write.
//!
//! 1. If the key's newest record is mutable, the operator changes it in place.
//!    If it is cached, nobody can change it, and the operator makes a new value of it.
//! 2. Otherwise the record is sealed (where somebody might still change it), the operator makes a
//!    new value of the old one, and a new record is linked, if no other was meanwhile.
//! 3. If the old value is on disk it is read unprotected, and if the hot log has no record of the
//!    key, from the cold log (Algorithm 1 of the F2 paper); then the record is appended only if the
//!    part of the chain that is new since has no record of the key (*conditional insert*, [O4]).
//!
//! Whatever fails begins anew, so the operator may be asked several times.

use std::sync::atomic::Ordering::Acquire;

use engine::{Change, Operator, Result, SeqNo};

use crate::address::LogAddress;
use crate::hash_index::Slot;
use crate::hybrid_log::PageFull;
use crate::key_hash::KeyHash;
use crate::ops::Found;
use crate::ops::look_up::{Beyond, LookUp};
use crate::record::{InPlace, Live, Read, Shape};
use crate::store::Shared;

/// How an attempt ended.
enum Attempt {
    Done,
    /// Another write of the chain came first.
    Lost,
    /// Memory does not know the old value.
    Beyond(Beyond),
    /// The new value cannot be held.
    TooLong(engine::Error),
}

type Tried = std::result::Result<Attempt, PageFull>;

/// An attempt that wants the old value from disk, and when it began.
pub(crate) struct WantsOld {
    beyond: Beyond,
    /// Where `SAFE_READ_ONLY` was.
    start: LogAddress,
}

impl WantsOld {
    /// The look-up that finds it. A copy of it would be cut off at once.
    pub(crate) fn look_up(&self, hash: KeyHash) -> LookUp {
        LookUp::new(hash, self.beyond, false)
    }
}

impl Shared {
    /// Replaces the key's value by what `operator` makes of it.
    pub(crate) fn rmw(&self, key: &[u8], operator: &mut dyn Operator, seqno: SeqNo) -> Result<()> {
        self.check_rmw(key)?;
        if seqno <= self.persisted() {
            return Ok(());
        }
        let hash = self.hash(key);
        let mut value = Vec::new();
        while let Some(wanted) = self.rmw_in_memory(hash, key, operator, &mut value)? {
            let present = wanted.look_up(hash).run(self, key, &mut value)?;
            let old = present.then_some(value.as_slice());
            if self.rmw_with_old(hash, key, operator, &wanted, old)? {
                break;
            }
        }
        Ok(())
    }

    /// Whether a read-modify-write of `key` may begin.
    pub(crate) fn check_rmw(&self, key: &[u8]) -> Result<()> {
        self.health.check_writable()?;
        self.check_record(key, &[])
    }

    /// Does all of it if memory knows the old value. [O4]
    pub(crate) fn rmw_in_memory(
        &self,
        hash: KeyHash,
        key: &[u8],
        operator: &mut dyn Operator,
        value: &mut Vec<u8>,
    ) -> Result<Option<WantsOld>> {
        loop {
            let start = self.log.safe_read_only();
            let attempt = || self.try_rmw_in_memory(hash, key, operator, value);
            match self.with_room(None, attempt)? {
                Attempt::Done => return Ok(None),
                Attempt::Lost => {}
                Attempt::Beyond(beyond) => return Ok(Some(WantsOld { beyond, start })),
                Attempt::TooLong(error) => return Err(error),
            }
        }
    }

    /// Goes on with the old value, if the key has one. `false`: another write came first, so that it
    /// begins anew.
    pub(crate) fn rmw_with_old(
        &self,
        hash: KeyHash,
        key: &[u8],
        operator: &mut dyn Operator,
        wanted: &WantsOld,
        old: Option<&[u8]>,
    ) -> Result<bool> {
        if old.is_some() {
            self.note_disk_read(hash, wanted.beyond.chain.log_head);
        }
        let change = operator.update(old);
        if change == Change::Keep {
            return Ok(true);
        }
        if old.is_none() && matches!(change, Change::Put(_)) {
            self.wait_for_compaction()?;
        }
        match self.with_room(None, || self.insert_if_none(hash, key, wanted, &change))? {
            Attempt::Done => Ok(true),
            Attempt::TooLong(error) => Err(error),
            Attempt::Lost | Attempt::Beyond(_) => Ok(false),
        }
    }

    fn try_rmw_in_memory(
        &self,
        hash: KeyHash,
        key: &[u8],
        operator: &mut dyn Operator,
        value: &mut Vec<u8>,
    ) -> Tried {
        let (mutable, safe) = (self.log.mutable_from(), self.log.safe_read_only());
        let truncations = self.truncations.load(Acquire);
        // Not made yet: an operator that changes nothing leaves nothing behind.
        let found = self.index.find(hash);
        let seen = self.cache.seen(found, truncations);
        let beyond = |on_disk| Ok(Attempt::Beyond(Beyond { chain: seen.note(), on_disk }));
        let Some(slot) = found else { return beyond(LogAddress::NONE) };
        let head = seen.log_head;
        if let Some(record) = self.cache.find(slot.address(), key) {
            let change = self.update_of(record, operator, value);
            return self.append(slot, hash, key, &change, |now| now == head);
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
        self.append(slot, hash, key, &change, |now| now == head)
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

    /// *Conditional insert*: appends what `change` says, unless a record of the key was linked
    /// since the attempt began that wanted the old value.
    fn insert_if_none(
        &self,
        hash: KeyHash,
        key: &[u8],
        wanted: &WantsOld,
        change: &Change,
    ) -> Tried {
        let slot = self.index.find_or_create(hash);
        let found = self.walk(slot.address(), wanted.beyond.chain.log_head.plus(1), key);
        // [O4]: a record that came since may have gone again. One that goes from now on stays on its
        // chain while we are protected, so the link fails.
        if self.log.begin() > wanted.start {
            return Ok(Attempt::Lost);
        }
        match found {
            Found::Nothing => self.append(slot, hash, key, change, |_| false),
            Found::Here(..) | Found::OnDisk(_) => Ok(Attempt::Lost),
        }
    }

    /// Appends what `change` says and links it in place of what `slot` was read with.
    fn append<'a>(
        &'a self,
        slot: Slot<'a>,
        hash: KeyHash,
        key: &[u8],
        change: &Change,
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
        let head = self.cache.log_head(slot.address());
        let at = self.log.try_allocate(shape.bytes() as u64)?;
        self.log.note_append(head, self.log.mutable_from());
        self.log.live(at).write(head, key, value);
        match self.link(slot, hash, at, may) {
            Ok(()) => Ok(Attempt::Done),
            Err(()) => {
                self.log.live(at).invalidate();
                Ok(Attempt::Lost)
            }
        }
    }
}
