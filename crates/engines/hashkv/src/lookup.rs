//! The lookup of a key, which is pending once it needs a piece of the index, or the blocks of a
//! value.
//!
//! 1. The index is looked up. While that lookup is pending, so is this one, with the same reads.
//! 2. A small value is in the index. Otherwise the index has a handle. The record is in a write
//!    buffer, or the lookup is pending, with the read of the record's blocks.

use std::sync::Arc;

use codec::SeqNo;
use engine::{At, EachLookup, LookedUp, Lookup, PendingLookup, Progress, ReadRequest, Result};

use crate::index_value::{Handle, IndexValue};
use crate::store::Shared;
use crate::values::read::Span;

/// A lookup that waits for the device.
struct Pending {
    shared: Arc<Shared>,
    key: Vec<u8>,
    /// The lookup of the index, if it was pending.
    index: Option<Box<dyn PendingLookup>>,
    /// The value that it waits for, once the index has returned a handle.
    value: Option<Wanted>,
    is_update: bool,
}

/// A value that a lookup waits for.
struct Wanted {
    handle: Handle,
    span: Span,
    read: [ReadRequest; 1],
}

/// The value that the index has led to.
enum Resolved {
    /// It replaced the content of the caller's buffer.
    Found,
    Waits(Wanted),
}

impl Shared {
    /// Looks a key up. Never waits for the device.
    pub(crate) fn lookup(
        self: &Arc<Self>,
        key: &[u8],
        at: At<'_>,
        into: &mut Vec<u8>,
    ) -> Result<Lookup> {
        let is_update = matches!(at, At::ForUpdate);
        let (index, value) = match self.index.lookup(key, at, into)? {
            Lookup::Absent => return Ok(Lookup::Absent),
            Lookup::Found => match self.resolve(key, into)? {
                Resolved::Found => return Ok(Lookup::Found),
                Resolved::Waits(wanted) => (None, Some(wanted)),
            },
            Lookup::Pending(index) => (Some(index), None),
        };
        Ok(Lookup::Pending(self.pending(key, index, value, is_update)))
    }

    /// Looks many keys up.
    pub(crate) fn lookup_many(
        self: &Arc<Self>,
        keys: &[&[u8]],
        at: At<'_>,
        each: &mut EachLookup<'_>,
    ) -> Result<()> {
        let is_update = matches!(at, At::ForUpdate);
        let mut value = Vec::new();
        self.index.lookup_many(keys, at, &mut |number, found| {
            let key = *keys.get(number).unwrap_or(&&[][..]);
            let (index, wanted) = match found {
                LookedUp::Absent => return each(number, LookedUp::Absent),
                LookedUp::Found(found) => {
                    value.clear();
                    value.extend_from_slice(found);
                    match self.resolve(key, &mut value)? {
                        Resolved::Found => return each(number, LookedUp::Found(&value)),
                        Resolved::Waits(wanted) => (None, Some(wanted)),
                    }
                }
                LookedUp::Pending(index) => (Some(index), None),
            };
            each(number, LookedUp::Pending(self.pending(key, index, wanted, is_update)))
        })
    }

    fn pending(
        self: &Arc<Self>,
        key: &[u8],
        index: Option<Box<dyn PendingLookup>>,
        value: Option<Wanted>,
        is_update: bool,
    ) -> Box<dyn PendingLookup> {
        let shared = Arc::clone(self);
        Box::new(Pending { shared, key: key.to_vec(), index, value, is_update })
    }

    /// Replaces a value of the index by the key's value, or returns where that is.
    fn resolve(&self, key: &[u8], into: &mut Vec<u8>) -> Result<Resolved> {
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
        if self.values.try_read(key, handle, &mut take)?.is_some() {
            return Ok(Resolved::Found);
        }
        let span = self.values.span(handle)?;
        let read = [span.request(&self.source)];
        Ok(Resolved::Waits(Wanted { handle, span, read }))
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

impl PendingLookup for Pending {
    fn key(&self) -> &[u8] {
        &self.key
    }

    fn reads(&self) -> &[ReadRequest] {
        match (&self.value, &self.index) {
            (Some(wanted), _) => &wanted.read,
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
        let Self { shared, key, index, value, .. } = self;
        if let Some(Wanted { handle, span, .. }) = value {
            let blocks = bytes?;
            shared.health.check_open()?;
            let record = shared.values.record_in(span, blocks, key, *handle)?;
            into.clear();
            into.extend_from_slice(record.value);
            return Ok(Progress::Found);
        }
        let Some(index) = index else { return Ok(Progress::Absent) };
        Ok(match index.resume(read, bytes, into)? {
            Progress::Found => match shared.resolve(key, into)? {
                Resolved::Found => Progress::Found,
                Resolved::Waits(wanted) => {
                    *value = Some(wanted);
                    Progress::NextRound
                }
            },
            progress => progress,
        })
    }

    fn is_newest(&self) -> bool {
        if !self.is_update {
            return false;
        }
        match (&self.index, &self.value) {
            (Some(index), _) => index.is_newest(),
            (None, Some(wanted)) => self.shared.has_still(&self.key, wanted.handle.number),
            (None, None) => false,
        }
    }
}
