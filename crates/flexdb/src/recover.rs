//! Making the sparse index anew from the space (Flex 5.4), where none is stored (`stored_index`).
//!
//! 1. The extents' tags say where intervals begin, without any I/O. Neighbours are taken as one while
//!    they are small together: what becomes too large is split when it is next changed.
//! 2. The key of each one's first pair is read (X2): many at once, on the pool and on the caller's
//!    thread.
//! 3. The tree is filled from its end.
//!
//! An interval whose first pair cannot be read belongs to the one before it: whoever asks for a key of
//! either is told of the damage, and all others can be read. The same holds for one that begins below
//! others before it: all from the one that has its first key on are one, and damaged. Where that is more than
//! the length of an interval can say it is several, all of them damaged: the keys belong to the last one,
//! but for a few to which nothing but zeros may be added between its bound and theirs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use codec::{Corruption, Reader};
use engine::{Error, Result};
use flexspace::space::Snapshot;
use parking_lot::Mutex;
use workers::{Class, Group};

use crate::error::{DATA, from_space};
use crate::index::{self, Head, Index, Interval, Lie, START};
use crate::pair::{HEAD_BYTES_MAX, PairHead, StoreHeader};
use crate::tally::Tally;

/// Bytes that are read of an interval: its first pair's head, and most keys.
const FIRST_BYTES: usize = 128;
/// Intervals that a task reads at a time.
const CHUNK: usize = 64;
/// Tasks beside the caller.
const TASKS: usize = 7;

/// An interval as the tags show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Where it begins in the space.
    pub(crate) offset: u64,
    pub(crate) length: u64,
    lie: Lie,
}

/// The index to what a space has behind its header; intervals of at least `step` bytes each, where
/// there are as many.
pub(crate) fn index(
    space: &Snapshot,
    step: u64,
    group: &Group,
    heads: &Arc<Tally>,
) -> Result<Index> {
    let candidates = candidates(space, step);
    let keys = first_keys(space, &candidates, group)?;
    let mut found: Vec<(Candidate, Vec<u8>)> = Vec::with_capacity(candidates.len());
    for (candidate, key) in candidates.into_iter().zip(keys) {
        let Some((before, _)) = found.last_mut() else {
            // All keys may lie before those of the next one.
            found.push((candidate, key.unwrap_or_default()));
            continue;
        };
        let Ok(key) = key else {
            before.take_in(&candidate);
            continue;
        };
        if found.last().is_some_and(|(_, first)| *first < key) {
            found.push((candidate, key));
            continue;
        }
        // From where its first key belongs to where it lies, nobody knows what there is.
        let behind = found.partition_point(|(_, first)| *first <= key);
        let others = found.split_off(behind.max(1));
        if let Some((damaged, _)) = found.last_mut() {
            others.iter().for_each(|(other, _)| damaged.take_in(other));
            damaged.take_in(&candidate);
            damaged.lie.is_out_of_order = true;
        }
    }
    let mut index = Index::default();
    let mut found = found.into_iter().peekable();
    while let Some((mut candidate, first)) = found.next() {
        // Each of its parts has a bound of its own, below that of the next interval.
        while candidate.parts() > 1
            && let Some((next, _)) =
                found.next_if(|(_, next)| *next <= bound_of_part(&first, candidate.parts() - 1))
        {
            candidate.take_in(&next);
        }
        push(&mut index, &candidate, &first, heads);
    }
    Ok(index)
}

/// The bound of a part of what is damaged: no key but a few lies between it and the first part's.
fn bound_of_part(first: &[u8], part: u64) -> Vec<u8> {
    let mut bound = first.to_vec();
    bound.resize(first.len() + part as usize, 0);
    bound
}

impl Candidate {
    /// Takes in what lies behind it.
    fn take_in(&mut self, next: &Self) {
        self.length += next.length;
        self.lie = self.lie.with(&next.lie);
    }

    /// In how many intervals it lies: one, but for damage of more than 4 GiB.
    fn parts(&self) -> u64 {
        self.length.div_ceil(u64::from(u32::MAX)).max(1)
    }
}

fn push(index: &mut Index, found: &Candidate, first: &[u8], heads: &Arc<Tally>) {
    let parts = found.parts();
    // None of several may be taken for sound because it can be read.
    let is_out_of_order = found.lie.is_out_of_order || parts > 1;
    let lie = Lie { is_out_of_order, ..found.lie };
    let mut left = found.length;
    for part in 0..parts {
        let length = left.div_ceil(parts - part);
        left -= length;
        let bound = bound_of_part(first, part);
        let head = Head::new(&bound, &bound, lie, heads);
        index::append(index, length as u32, Interval::new(head));
    }
}

/// Where intervals begin; of those that are closer than `step` bytes the first.
pub(crate) fn candidates(space: &Snapshot, step: u64) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = Vec::new();
    for extent in space.extents(StoreHeader::BYTES as u64..space.len()) {
        let length = u64::from(extent.length);
        let is_start = extent.extent.tag() == START;
        match found.last_mut() {
            Some(last) if !is_start || last.length + length <= step => {
                last.length += length;
                last.lie.fragments = last.lie.fragments.saturating_add(1);
                last.lie.has_inner_tags |= is_start;
            }
            _ => {
                let lie = Lie { fragments: 1, pairs: Lie::UNKNOWN, ..Lie::default() };
                found.push(Candidate { offset: extent.offset, length, lie });
            }
        }
    }
    found
}

/// What a task took, and the keys that it read.
type Keys = Vec<std::result::Result<Vec<u8>, Corruption>>;

/// What the tasks share.
struct Reading {
    space: Snapshot,
    candidates: Vec<Candidate>,
    next: AtomicUsize,
    done: Mutex<Vec<(usize, Result<Keys>)>>,
}

impl Reading {
    /// Reads chunks until there are no more.
    fn work(&self) {
        loop {
            let begin = self.next.fetch_add(CHUNK, Relaxed);
            let Some(rest) = self.candidates.get(begin..).filter(|rest| !rest.is_empty()) else {
                return;
            };
            let chunk = rest.iter().take(CHUNK);
            let keys = chunk.map(|candidate| first_key(&self.space, candidate)).collect();
            self.done.lock().push((begin, keys));
        }
    }
}

/// The key of each interval's first pair; damage where it cannot be read.
fn first_keys(space: &Snapshot, candidates: &[Candidate], group: &Group) -> Result<Keys> {
    let reading = Arc::new(Reading {
        space: space.clone(),
        candidates: candidates.to_vec(),
        next: AtomicUsize::new(0),
        done: Mutex::default(),
    });
    let chunks = candidates.len().div_ceil(CHUNK);
    for _ in 0..TASKS.min(chunks.saturating_sub(1)) {
        let shared = Arc::clone(&reading);
        // Whatever no task takes, this thread does.
        let _ = group.submit(Class::Flush, "flexdb recover", move |_stop| shared.work());
    }
    reading.work();
    let waited = group.wait_until(|| reading.done.lock().len() == chunks);
    waited.map_err(|_| Error::Closed)?;
    let mut done = std::mem::take(&mut *reading.done.lock());
    done.sort_by_key(|(begin, _)| *begin);
    let mut all = Keys::with_capacity(candidates.len());
    for (_, keys) in done {
        all.extend(keys?);
    }
    Ok(all)
}

/// Damage is no failure, but the storage's is.
fn first_key(
    space: &Snapshot,
    candidate: &Candidate,
) -> Result<std::result::Result<Vec<u8>, Corruption>> {
    match read_first_key(space, candidate) {
        Ok(key) => Ok(Ok(key)),
        Err(Error::Corruption(damage)) => Ok(Err(damage)),
        Err(error) => Err(error),
    }
}

pub(crate) fn read_first_key(space: &Snapshot, candidate: &Candidate) -> Result<Vec<u8>> {
    let found = space.read_extent(candidate.offset, FIRST_BYTES).map_err(from_space)?;
    let mut bytes = found.bytes;
    if bytes.len() < HEAD_BYTES_MAX {
        let len = candidate.length.min(HEAD_BYTES_MAX as u64);
        bytes = space.read(candidate.offset, len).map_err(from_space)?;
    }
    let head = PairHead::take(&mut Reader::new(&bytes));
    let head = head.map_err(|damage| damage.at(DATA, candidate.offset))?;
    let len = head.head_len + head.key_len;
    if bytes.len() < len {
        let len = len as u64;
        if len > candidate.length {
            let what = "a pair that is longer than its interval";
            return Err(Corruption::new(what, candidate.offset).at(DATA, 0).into());
        }
        bytes = space.read(candidate.offset, len).map_err(from_space)?;
    }
    Ok(bytes.get(head.head_len..len).unwrap_or_default().to_vec())
}
