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

use engine::{Change, Operator, Result, SeqNo};

use crate::address::LogAddress;
use crate::hash_index::Slot;
use crate::hybrid_log::PageFull;
use crate::key_hash::KeyHash;
use crate::ops::Found;
use crate::record::{InPlace, Live, Read, Shape};
use crate::store::Shared;

/// How an attempt ended.
enum Attempt {
    Done,
    /// Another write of the chain came first.
    Lost,
    /// The old value, if any, is on disk, in a chain whose newest record is `head`.
    OnDisk {
        head: LogAddress,
        from: LogAddress,
    },
    /// Nothing in memory, and the chain ends there, in a chain whose newest record is `head`.
    Nothing {
        head: LogAddress,
    },
    /// The new value cannot be held.
    TooLong(engine::Error),
}

type Tried = std::result::Result<Attempt, PageFull>;

impl Shared {
    /// Replaces the key's value by what `operator` makes of it.
    pub(crate) fn rmw(&self, key: &[u8], operator: &mut dyn Operator, seqno: SeqNo) -> Result<()> {
        self.health.check_writable()?;
        self.check_record(key, &[])?;
        if seqno <= self.persisted() {
            return Ok(());
        }
        let hash = self.hash(key);
        let mut value = Vec::new();
        loop {
            let start = self.log.safe_read_only();
            let tried =
                self.with_room(None, || self.rmw_in_memory(hash, key, operator, &mut value))?;
            let (head, on_disk) = match tried {
                Attempt::Done => return Ok(()),
                Attempt::Lost => continue,
                Attempt::TooLong(error) => return Err(error),
                Attempt::Nothing { head } => (head, LogAddress::NONE),
                Attempt::OnDisk { head, from } => (head, from),
            };
            let stored = self.search_disk(on_disk, LogAddress::NONE, key, |stored| {
                value.clear();
                value.extend_from_slice(stored.unwrap_or_default());
                stored.is_some()
            })?;
            let present = match (stored, &self.cold) {
                // A tombstone says that there is none, whatever the cold log has.
                (Some(present), _) => present,
                (None, Some(cold)) => cold.get(self.index.position(hash), key, &mut value)?,
                (None, None) => false,
            };
            let change = operator.update(present.then_some(&value));
            if change == Change::Keep {
                return Ok(());
            }
            if !present && matches!(change, Change::Put(_)) {
                self.wait_for_compaction()?;
            }
            let tried =
                self.with_room(None, || self.insert_if_none(hash, key, head, start, &change))?;
            match tried {
                Attempt::Done => return Ok(()),
                Attempt::TooLong(error) => return Err(error),
                Attempt::Lost | Attempt::Nothing { .. } | Attempt::OnDisk { .. } => {}
            }
        }
    }

    fn rmw_in_memory(
        &self,
        hash: KeyHash,
        key: &[u8],
        operator: &mut dyn Operator,
        value: &mut Vec<u8>,
    ) -> Tried {
        let (mutable, safe) = (self.log.read_only(), self.log.safe_read_only());
        // Not made yet: an operator that changes nothing leaves nothing behind.
        let Some(slot) = self.index.find(hash) else {
            return Ok(Attempt::Nothing { head: LogAddress::NONE });
        };
        let head = self.cache.log_head(slot.address());
        if let Some(record) = self.cache.find(slot.address(), key) {
            let change = self.update_of(record, operator, value);
            return self.append(slot, hash, key, &change, |now| now == head);
        }
        let (record, at) = match self.walk(head, LogAddress::NONE, key) {
            Found::Here(record, at) => (record, at),
            Found::OnDisk(from) => return Ok(Attempt::OnDisk { head, from }),
            Found::Nothing => return Ok(Attempt::Nothing { head }),
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
    /// since the chain's newest was `since` and `SAFE_READ_ONLY` was at `start`.
    fn insert_if_none(
        &self,
        hash: KeyHash,
        key: &[u8],
        since: LogAddress,
        start: LogAddress,
        change: &Change,
    ) -> Tried {
        let slot = self.index.find_or_create(hash);
        let found = self.walk(slot.address(), since.plus(1), key);
        // [O4]: a record that came since may have gone again. One that goes from now on stays on its
        // chain while we are protected, so the link fails.
        if self.log.begin() > start {
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
        let at = self.log.try_allocate(shape.bytes() as u64)?;
        self.log.live(at).write(self.cache.log_head(slot.address()), key, value);
        match self.link(slot, hash, at, may) {
            Ok(()) => Ok(Attempt::Done),
            Err(()) => {
                self.log.live(at).invalidate();
                Ok(Attempt::Lost)
            }
        }
    }
}
