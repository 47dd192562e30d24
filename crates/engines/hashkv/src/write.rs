//! Writing: records to groups, then handles to the index, under one number.
//!
//! 1. A write reserves memory of the write buffers and of the index before the host journals it
//!    (`admission.rs`).
//! 2. Only the last of several steps on one key counts, and is the only one that is appended:
//!    records with equal key and number are equal.
//! 3. A put of at least [`Options::separation_bytes`] appends its value. A smaller put appends an
//!    inline marker, and a delete a tombstone, if the group may have a record of the key
//!    ([`crate::values::key_filter`]): the group has the history of its keys.
//! 4. A put of one step, in a store with a journal, may replace the earlier record of its key in
//!    the buffer ([`crate::values::open_segment`]). A write of several steps does not: if the index
//!    refused it, readers would see a part of it.
//! 5. The index gets the handles, the small values and the deletes. They count from then on, all
//!    together.
//!
//! [`Options::separation_bytes`]: crate::Options::separation_bytes

use std::sync::Arc;

use codec::SeqNo;
use engine::{Error, Op, Reservation, Result, last_of_each_key};

use crate::admission::has_value_of_its_own;
use crate::index_value::{HANDLE_BYTES_MAX, INLINE};
use crate::key_hash::KeyHash;
use crate::key_index::of_index;
use crate::segment::record::{Kind, Record};
use crate::store::Shared;

/// The index values of one write, in one buffer.
#[derive(Default)]
struct IndexValues<'a> {
    bytes: Vec<u8>,
    /// Each key, and the end of its index value; `None` for a delete.
    steps: Vec<(&'a [u8], Option<usize>)>,
}

impl Shared {
    /// Applies the steps of one write.
    pub(crate) fn apply(
        self: &Arc<Self>,
        ops: &[Op<'_>],
        seqno: SeqNo,
        room: &mut Reservation<'_>,
    ) -> Result<()> {
        self.health.check_writable()?;
        ops.iter().try_for_each(Op::check)?;
        check_ranges(ops)?;
        if ops.is_empty() || self.index.was_applied(seqno).map_err(of_index)? {
            return Ok(());
        }
        let mut values = IndexValues::default();
        let is_seen = |older, newer| self.host.sequence.is_seen(older, newer);
        let may_replace = ops.len() == 1 && self.values.may_replace();
        let replaced = may_replace.then_some(&is_seen as &dyn Fn(SeqNo, SeqNo) -> bool);
        for op in last_of_each_key(ops) {
            self.append(op, seqno, replaced, &mut values, room);
        }
        let steps = values.ops();
        let mut uncounted = Reservation::uncounted();
        let applied = self.index.apply(&steps, seqno, room.inner().unwrap_or(&mut uncounted));
        // Without its handle the record would later count as the newest of its key.
        let applied = applied.map_err(|error| self.values.failures.placed(error));
        applied.inspect_err(|error| self.health.fail(error))?;
        let deletes = steps.iter().filter(|step| matches!(step, Op::Delete { .. })).count();
        self.idle.note_deletes(deletes as u64, seqno);
        self.wake_looks();
        self.flush_if_due();
        Ok(())
    }

    /// Appends the record of one step, and adds its index value. If `is_seen` is there, the record
    /// may replace an earlier one in the buffer.
    fn append<'a>(
        self: &Arc<Self>,
        op: &Op<'a>,
        number: SeqNo,
        is_seen: Option<&dyn Fn(SeqNo, SeqNo) -> bool>,
        values: &mut IndexValues<'a>,
        room: &mut Reservation<'_>,
    ) {
        let key = op.key();
        let separation = self.options.separation_bytes;
        let (kind, value) = match op.value() {
            Some(value) if has_value_of_its_own(key, value, separation) => (Kind::Value, value),
            Some(_) => (Kind::InlineMarker, &[][..]),
            None => (Kind::Tombstone, &[][..]),
        };
        let record = Record { kind, number, key, value };
        let hash = self.values.hash(key);
        let is_needed = kind == Kind::Value || self.needs_marker(hash);
        let handle = is_needed.then(|| self.values.append(&record, hash, is_seen, room));
        values.steps.push(match op.value() {
            None => (key, None),
            Some(value) => {
                match handle.filter(|_| kind == Kind::Value) {
                    Some(handle) => {
                        values.bytes.reserve(HANDLE_BYTES_MAX);
                        handle.encode(&mut values.bytes);
                    }
                    None => {
                        values.bytes.reserve(value.len() + 1);
                        values.bytes.extend_from_slice(value);
                        values.bytes.push(INLINE);
                    }
                }
                (key, Some(values.bytes.len()))
            }
        });
    }

    /// Returns whether a delete or a small pair has to leave a marker in its group.
    fn needs_marker(self: &Arc<Self>, hash: KeyHash) -> bool {
        let marks = self.values.marks(hash);
        if marks.wants_filter && !self.load_filter(hash) {
            self.values.group(hash.position()).state.lock().keys.ask_again();
        }
        marks.is_needed
    }
}

impl<'a> IndexValues<'a> {
    /// Returns the steps of the index.
    fn ops(&self) -> Vec<Op<'_>> {
        let mut begin = 0;
        let op = |(key, end): &(&'a [u8], Option<usize>)| match end {
            None => Op::Delete { key },
            Some(end) => {
                let value = self.bytes.get(begin..*end).unwrap_or_default();
                begin = *end;
                Op::Put { key, value }
            }
        };
        self.steps.iter().map(op).collect()
    }
}

/// Refuses range deletes: a range names no hash, so no group could learn of it.
///
/// # Errors
/// [`Error::NoRangeDeletes`].
pub(crate) fn check_ranges(ops: &[Op<'_>]) -> Result<()> {
    let engine = crate::driver::CAPABILITIES.name;
    match ops.iter().any(Op::is_range) {
        true => Err(Error::NoRangeDeletes { engine }),
        false => Ok(()),
    }
}
