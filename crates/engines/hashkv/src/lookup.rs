//! The lookup of a key, which is pending once it needs a piece of the index, or the blocks of a
//! value.
//!
//! 1. The index is looked up. While that lookup is pending, so is this one, with the same reads.
//! 2. A small value is in the index. Otherwise the index has a handle. The record is in a write
//!    buffer, or the lookup is pending, with the reads of the record (`values/pending_record.rs`).
//! 3. If no segment has the record, a newer write has superseded it since step 1, and a job has
//!    dropped it. Then the lookup begins again. A snapshot keeps the records that it sees, so this
//!    does not happen to a lookup at a pin.

use std::sync::Arc;

use codec::SeqNo;
use engine::{
    At, EachLookup, Error, LookedUp, Lookup, PendingLookup, Progress, ReadRequest, Result,
};

use crate::index_value::{Handle, IndexValue};
use crate::key_index::of_index;
use crate::store::Shared;
use crate::values::pending_record::{PendingRecord, RecordProgress};
use crate::values::read::missing;

/// A lookup that waits for the device.
struct Pending {
    shared: Arc<Shared>,
    key: Vec<u8>,
    moment: ReadAt,
    /// The lookup of the index, if it was pending.
    index: Option<Box<dyn PendingLookup>>,
    /// The value that it waits for, once the index has returned a handle.
    value: Option<PendingRecord>,
    /// The handle whose record was nowhere before.
    missed: Option<Handle>,
    /// Whether the value is cached.
    is_cached: bool,
}

/// The moment whose value a lookup returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadAt {
    Newest,
    ForUpdate,
    Pin,
}

/// The value that the index has led to.
#[expect(clippy::large_enum_variant, reason = "it moves into the box of the lookup")]
enum Resolved {
    /// It replaced the content of the caller's buffer.
    Found,
    Waits(PendingRecord),
}

impl ReadAt {
    fn of(at: At<'_>) -> Self {
        match at {
            At::Newest => Self::Newest,
            At::ForUpdate => Self::ForUpdate,
            At::Pin(_) => Self::Pin,
        }
    }
}

impl Shared {
    /// Looks a key up. Never waits for the device.
    pub(crate) fn lookup(
        self: &Arc<Self>,
        key: &[u8],
        at: At<'_>,
        into: &mut Vec<u8>,
    ) -> Result<Lookup> {
        let moment = ReadAt::of(at);
        let mut missed = None;
        loop {
            let (index, value) = match self.index.lookup(key, at, into).map_err(of_index)? {
                Lookup::Absent => return Ok(Lookup::Absent),
                Lookup::Found => match self.resolve(key, into)? {
                    Resolved::Found => return Ok(Lookup::Found),
                    Resolved::Waits(pending) if pending.reads().is_empty() => {
                        self.note_miss(&mut missed, (pending.handle(), None), moment)?;
                        continue;
                    }
                    Resolved::Waits(pending) => (None, Some(pending)),
                },
                Lookup::Pending(index) => (Some(index), None),
            };
            return Ok(Lookup::Pending(self.pending(key, index, value, moment)));
        }
    }

    /// Notes that the record of a handle is nowhere, or that the places which may have it are
    /// damaged.
    ///
    /// # Errors
    /// A snapshot sees the record, or the index has returned the same handle before: damage.
    fn note_miss(
        &self,
        missed: &mut Option<Handle>,
        (handle, damage): (Handle, Option<Error>),
        at: ReadAt,
    ) -> Result<()> {
        let is_again = missed.replace(handle) == Some(handle);
        match is_again || at == ReadAt::Pin {
            true => Err(damage.unwrap_or_else(|| self.values.damage_of(handle, missing(handle)))),
            false => Ok(()),
        }
    }

    /// Looks many keys up.
    pub(crate) fn lookup_many(
        self: &Arc<Self>,
        keys: &[&[u8]],
        at: At<'_>,
        each: &mut EachLookup<'_>,
    ) -> Result<()> {
        let moment = ReadAt::of(at);
        let (mut value, mut own) = (Vec::new(), None);
        let mut found = |number: usize, found: LookedUp<'_>| {
            let key = *keys.get(number).unwrap_or(&&[][..]);
            let (index, wanted) = match found {
                LookedUp::Absent => return each(number, LookedUp::Absent),
                LookedUp::Found(found) => {
                    value.clear();
                    value.extend_from_slice(found);
                    match self.resolve(key, &mut value)? {
                        Resolved::Found => return each(number, LookedUp::Found(&value)),
                        Resolved::Waits(pending) if pending.reads().is_empty() => {
                            return match self.lookup(key, at, &mut value)? {
                                Lookup::Absent => each(number, LookedUp::Absent),
                                Lookup::Found => each(number, LookedUp::Found(&value)),
                                Lookup::Pending(pending) => {
                                    each(number, LookedUp::Pending(pending))
                                }
                            };
                        }
                        Resolved::Waits(pending) => (None, Some(pending)),
                    }
                }
                LookedUp::Pending(index) => (Some(index), None),
            };
            each(number, LookedUp::Pending(self.pending(key, index, wanted, moment)))
        };
        let done = self.index.lookup_many(keys, at, &mut |number, pair| {
            found(number, pair).inspect_err(|error| own = Some(error.clone()))
        });
        // The index passes an error of `each` on.
        done.map_err(|error| own.unwrap_or_else(|| of_index(error)))
    }

    fn pending(
        self: &Arc<Self>,
        key: &[u8],
        index: Option<Box<dyn PendingLookup>>,
        value: Option<PendingRecord>,
        moment: ReadAt,
    ) -> Box<dyn PendingLookup> {
        let shared = Arc::clone(self);
        // A value that a snapshot sees may be older than one that is cached.
        let (key, missed, is_cached) = (key.to_vec(), None, moment != ReadAt::Pin);
        Box::new(Pending { shared, key, moment, index, value, missed, is_cached })
    }

    /// Replaces a value of the index by the key's value, or returns where that is.
    fn resolve(self: &Arc<Self>, key: &[u8], into: &mut Vec<u8>) -> Result<Resolved> {
        let handle = match self.decode(into)? {
            IndexValue::Inline(value) => {
                let bytes = value.len();
                into.truncate(bytes);
                return Ok(Resolved::Found);
            }
            IndexValue::Handle(handle) => handle,
        };
        let mut take = |value: &[u8]| {
            into.clear();
            into.extend_from_slice(value);
        };
        if self.values.try_read(key, handle, &mut take)?.is_some()
            || self.cached.get(key, handle.number, into)
        {
            return Ok(Resolved::Found);
        }
        self.begin_record(key, handle).map(Resolved::Waits)
    }

    /// Returns the lookup of a record that a scan at a snapshot sees and that is not in memory. Its
    /// value is not cached.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn value_at_pin(
        self: &Arc<Self>,
        key: &[u8],
        handle: Handle,
    ) -> Result<Box<dyn PendingLookup>> {
        let pending = self.begin_record(key, handle)?;
        if pending.reads().is_empty() {
            return Err(self.values.damage_of(handle, missing(handle)));
        }
        let (shared, key, moment) = (Arc::clone(self), key.to_vec(), ReadAt::Pin);
        let (index, value, missed, is_cached) = (None, Some(pending), None, false);
        Ok(Box::new(Pending { shared, key, moment, index, value, missed, is_cached }))
    }

    /// Begins to read a record that is not in memory.
    ///
    /// # Errors
    /// Damage.
    fn begin_record(self: &Arc<Self>, key: &[u8], handle: Handle) -> Result<PendingRecord> {
        let pending = self.values.begin_read(key, handle, &self.source)?;
        if pending.searches_footers() {
            self.load_directory(key);
        }
        Ok(pending)
    }

    /// Decodes a value of the index.
    pub(crate) fn decode<'v>(&self, value: &'v [u8]) -> Result<IndexValue<'v>> {
        IndexValue::decode(value).map_err(|damage| damage.at(crate::INDEX_DIR, 0).into())
    }

    /// Returns whether the index still has the handle of this write, as far as memory says.
    fn has_still(&self, key: &[u8], number: SeqNo) -> bool {
        let mut value = Vec::new();
        let found = self.index.lookup(key, At::Newest, &mut value);
        matches!(found, Ok(Lookup::Found))
            && matches!(
                IndexValue::decode(&value),
                Ok(IndexValue::Handle(handle)) if handle.number == number
            )
    }
}

impl Pending {
    /// Begins again at the index, after the record of a handle was nowhere.
    fn restart(&mut self, missed: (Handle, Option<Error>), into: &mut Vec<u8>) -> Result<Progress> {
        self.shared.note_miss(&mut self.missed, missed, self.moment)?;
        let at = match self.moment {
            ReadAt::ForUpdate => At::ForUpdate,
            ReadAt::Newest | ReadAt::Pin => At::Newest,
        };
        (self.index, self.value) = (None, None);
        match self.shared.index.lookup(&self.key, at, into).map_err(of_index)? {
            Lookup::Absent => Ok(Progress::Absent),
            Lookup::Found => self.found_in_index(into),
            Lookup::Pending(index) => {
                self.index = Some(index);
                Ok(Progress::NextRound)
            }
        }
    }

    /// Continues with a value of the index.
    fn found_in_index(&mut self, into: &mut Vec<u8>) -> Result<Progress> {
        match self.shared.resolve(&self.key, into)? {
            Resolved::Found => Ok(Progress::Found),
            Resolved::Waits(pending) if pending.reads().is_empty() => {
                self.restart((pending.handle(), None), into)
            }
            Resolved::Waits(pending) => {
                self.value = Some(pending);
                Ok(Progress::NextRound)
            }
        }
    }
}

impl PendingLookup for Pending {
    fn key(&self) -> &[u8] {
        &self.key
    }

    fn reads(&self) -> &[ReadRequest] {
        match (&self.value, &self.index) {
            (Some(pending), _) => pending.reads(),
            (None, Some(index)) => index.reads(),
            (None, None) => &[],
        }
    }

    fn resume(
        &mut self,
        read: usize,
        bytes: Result<&[u8]>,
        into: &mut Vec<u8>,
    ) -> Result<Progress> {
        let Self { shared, key, index, value, is_cached, .. } = self;
        if let Some(pending) = value {
            shared.health.check_open()?;
            let progress =
                pending.resume(&shared.values, key, (read, bytes), &shared.source, into)?;
            return match progress {
                RecordProgress::Value(number) => {
                    if *is_cached {
                        shared.cache_value(key, number, into);
                    }
                    Ok(Progress::Found)
                }
                RecordProgress::Waiting => Ok(Progress::Waiting),
                RecordProgress::NextRound => Ok(Progress::NextRound),
                RecordProgress::Gone => {
                    let missed = (pending.handle(), pending.take_damage());
                    self.restart(missed, into)
                }
            };
        }
        let Some(index) = index else { return Ok(Progress::Absent) };
        match index.resume(read, bytes, into).map_err(of_index)? {
            Progress::Found => self.found_in_index(into),
            progress => Ok(progress),
        }
    }

    fn is_newest(&self) -> bool {
        if self.moment != ReadAt::ForUpdate {
            return false;
        }
        match (&self.index, &self.value) {
            (Some(index), _) => index.is_newest(),
            (None, Some(pending)) => self.shared.has_still(&self.key, pending.handle().number),
            (None, None) => false,
        }
    }
}
