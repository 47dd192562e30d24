//! The merges of a batch, made into puts and deletes with all of its keys locked.
//!
//! A merge builds on the result of earlier steps for the key, or on the key's present value. If a
//! key has several merges, only the last one is written.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use engine::{Change, Op, check_value};

use crate::batch::{Batch, Step};
use crate::error::Result;
use crate::expiry::ClockReading;
use crate::keyspace::Keyspace;
use crate::keyspace_entry::KeyspaceInstance;
use crate::old_values::OldValues;

impl Batch {
    /// Adds a merge, like [`Keyspace::merge`]: its operator is called when the batch is written. It
    /// gets the value that earlier steps have given the key, or else the key's value at that time.
    /// Values that are on disk are read before the batch's keys are locked, and the operator may be
    /// called several times: the last result counts.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use thermocline::{Batch, Change, Db, KeyspaceOptions, MergeName, MergeOperators, Options};
    /// let append: MergeName = "append".parse()?;
    /// let merge_operators = MergeOperators::new().with(append, |_, value, operand| {
    ///     Ok(Change::Put([value.unwrap_or_default(), operand].concat()))
    /// });
    /// let db = Db::open(dir.path(), Options { merge_operators, ..Options::default() })?;
    /// let options = KeyspaceOptions { merge: Some(append), ..Default::default() };
    /// let log = db.keyspace("log", options)?;
    /// let mut batch = Batch::new();
    /// batch.merge(&log, b"ada", b"in,").merge(&log, b"ada", b"out,").put(&log, b"alan", b"");
    /// db.write(&batch)?;
    /// assert_eq!(log.get(b"ada")?.as_deref(), Some(&b"in,out,"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [`crate::Db::write`] refuses it as [`Keyspace::merge`] does, and then nothing of the batch
    /// is written.
    pub fn merge(&mut self, keyspace: &Keyspace, key: &[u8], operand: &[u8]) -> &mut Self {
        self.push_merge(keyspace, key.to_vec(), operand.to_vec())
    }
}

/// The state in which a step has left a key.
enum Left {
    /// The key was not read yet.
    Unknown,
    /// The value that the step of this index has put.
    By(usize),
    Nothing,
}

/// The result of a merge.
pub(crate) enum Made {
    /// Nothing is to be written for it.
    Nothing,
    Put(Vec<u8>),
    Delete,
}

/// The states of merged keys after the steps so far, by the entries' lock ids.
type Keys<'a> = BTreeMap<(u32, &'a [u8]), Left>;

/// Returns the results of the merges among `steps`, by the steps' indexes; all of their keys are
/// locked. If `values` has missing ones afterwards, nothing is to be made of the results.
///
/// # Errors
/// As [`Keyspace::merge`]; the engine's.
pub(crate) fn resolve(
    steps: &[Step],
    instances: &[Arc<KeyspaceInstance>],
    moment: ClockReading,
    values: &mut OldValues,
) -> Result<Vec<Made>> {
    let merges = steps.iter().filter(|step| step.operand().is_some());
    let mut keys: Keys<'_> = merges.map(|step| (step.place(), Left::Unknown)).collect();
    let mut made: Vec<Made> = steps.iter().map(|_| Made::Nothing).collect();
    for (index, (step, instance)) in steps.iter().zip(instances).enumerate() {
        let Some(operand) = step.operand() else {
            note(&mut keys, index, step, moment);
            continue;
        };
        let (_, key) = step.place();
        let left = keys.get_mut(&step.place()).expect("every merge has its place");
        let (mut read, mut before) = (Vec::new(), None);
        let old = match left {
            Left::Nothing => None,
            Left::By(by) => {
                before = Some(*by);
                put_by(*by, steps, &made, moment)
            }
            Left::Unknown => match values.get(instance, step.place(), &mut read)? {
                Some(is_there) => is_there.then_some(read.as_slice()),
                // All missing values are read together.
                None => continue,
            },
        };
        let was_there = old.is_some();
        match step.keyspace.merging()?.of_stored(moment, key, old, operand)? {
            Change::Put(stored) => {
                check_value(&stored)?;
                (*left, made[index]) = (Left::By(index), Made::Put(stored));
            }
            Change::Delete if was_there => (*left, made[index]) = (Left::Nothing, Made::Delete),
            Change::Delete | Change::Keep => continue,
        }
        // If that was a merge too, this one is in its place.
        if let Some(before) = before {
            made[before] = Made::Nothing;
        }
    }
    Ok(made)
}

/// Notes the state in which a step other than a merge leaves keys.
fn note<'a>(keys: &mut Keys<'a>, index: usize, step: &'a Step, moment: ClockReading) {
    let (lock_id, key) = step.place();
    match step.op(moment) {
        Op::DeleteRange { start, end } => {
            let is_below = |key: &[u8]| end.is_none_or(|end| key < end);
            let from = keys.range_mut((Bound::Included((lock_id, start)), Bound::Unbounded));
            from.take_while(|((id, key), _)| *id == lock_id && is_below(key))
                .for_each(|(_, left)| *left = Left::Nothing);
        }
        op => {
            if let Some(left) = keys.get_mut(&(lock_id, key)) {
                *left = if op.value().is_some() { Left::By(index) } else { Left::Nothing };
            }
        }
    }
}

/// Returns the value that the step of this index has put.
fn put_by<'a>(
    index: usize,
    steps: &'a [Step],
    made: &'a [Made],
    moment: ClockReading,
) -> Option<&'a [u8]> {
    match made.get(index) {
        Some(Made::Put(stored)) => Some(stored),
        _ => steps.get(index).and_then(|step| step.op(moment).value()),
    }
}

/// Counts the merges among `steps`, and the bytes that they made.
pub(crate) fn note_made(steps: &[Step], instances: &[Arc<KeyspaceInstance>], made: &[Made]) {
    for ((step, instance), made) in steps.iter().zip(instances).zip(made) {
        let (_, key) = step.place();
        if let Some(operand) = step.operand() {
            instance.updates.note_merge(key, operand);
        }
        if let Made::Put(value) = made {
            instance.updates.note_put(key, value.len());
        }
    }
}

/// Returns the steps in the form in which they are written, each with its engine.
pub(crate) fn made_steps<'a>(
    steps: &'a [Step],
    instances: &'a [Arc<KeyspaceInstance>],
    made: &'a [Made],
    moment: ClockReading,
) -> Vec<(&'a KeyspaceInstance, Op<'a>)> {
    let each = steps.iter().zip(instances).zip(made);
    let written = each.filter_map(|((step, instance), made)| {
        let (_, key) = step.place();
        let op = match made {
            Made::Put(value) => Op::Put { key, value },
            Made::Delete => Op::Delete { key },
            Made::Nothing if step.operand().is_some() => return None,
            Made::Nothing => step.op(moment),
        };
        Some((&**instance, op))
    });
    written.collect()
}
