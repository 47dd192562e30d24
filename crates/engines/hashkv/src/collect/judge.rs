//! The judgement of a group: which of its records are live, and which can be dropped.
//!
//! The entries of all segments of the group are merged by hash and number. A record with a newer
//! one of the same key is *superseded*. It is *dead* if the write of the newer one is durable in
//! the index, and if no snapshot sees the older one. So no handle that a reader can get leads to
//! it, also after a crash and before the replay. Until then it is *pending*, or *held* by a
//! snapshot.
//!
//! A tombstone or an inline marker is dead too once it is superseded, or once it is durable and the
//! only record of its key. Until then it stays, or goes together with all older records: without it
//! an older value would count as live.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use codec::SeqNo;
use engine::Result;

use crate::segment::footer::{ENTRY_BYTES, Entry};
use crate::segment::record::Kind;

/// The entries of one segment, in the order of a footer.
pub(crate) trait Entries {
    /// Returns the next entry.
    ///
    /// # Errors
    /// The device's; damage.
    fn next(&mut self) -> Result<Option<Entry>>;
}

/// A set of entries of one footer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bits(Vec<u64>);

/// The records of one segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Judged {
    /// The entries that can be dropped, by their places in the footer.
    pub(super) dead: Bits,
    /// Bytes of records, and of their entries in the footer.
    pub(super) live_bytes: u64,
    pub(super) live_records: u64,
    pub(super) dead_bytes: u64,
    pub(super) pending_bytes: u64,
    pub(super) held_bytes: u64,
}

/// A tombstone or an inline marker that is the newest record of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Marker {
    source: usize,
    /// Its place in the footer.
    entry: usize,
    bytes: u64,
    /// The segments that have older records of the key.
    older: Vec<usize>,
}

/// The judgement of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Judgement {
    /// In the order of the sources.
    pub(super) segments: Vec<Judged>,
    /// Pending records are dead or held once the index is durable up to this number.
    pub(super) pending_until: SeqNo,
    markers: Vec<Marker>,
}

/// The state of a superseded record.
enum Superseded {
    Dead,
    Pending,
    Held,
}

impl Bits {
    fn insert(&mut self, at: usize) {
        let word = at / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        if let Some(word) = self.0.get_mut(word) {
            *word |= 1 << (at % 64);
        }
    }

    /// Returns whether an entry is in the set.
    pub(super) fn has(&self, at: usize) -> bool {
        self.0.get(at / 64).is_some_and(|word| word & (1 << (at % 64)) != 0)
    }
}

impl Judgement {
    /// Returns the newest tombstones and inline markers of a segment that can be dropped with the
    /// segments for which `is_gone` is true. No other segment has an older record of their keys.
    pub(super) fn markers_without(&self, source: usize, is_gone: impl Fn(usize) -> bool) -> Bits {
        let mut dropped = Bits::default();
        for marker in self.markers.iter().filter(|marker| marker.source == source) {
            if marker.older.iter().all(|older| is_gone(*older)) {
                dropped.insert(marker.entry);
            }
        }
        dropped
    }

    /// Returns the bytes of tombstones and inline markers that become the only records of their
    /// keys without the segments for which `is_gone` is true.
    pub(super) fn lone_marker_bytes(&self, is_gone: impl Fn(usize) -> bool) -> u64 {
        let is_lone = |marker: &&Marker| {
            !is_gone(marker.source) && marker.older.iter().all(|older| is_gone(*older))
        };
        self.markers.iter().filter(is_lone).map(|marker| marker.bytes).sum()
    }
}

/// Judges all records of a group. Every write up to `durable` is durable in the index, and
/// `is_seen` returns whether a snapshot sees a record that a newer one has superseded.
///
/// # Errors
/// Those of the sources.
pub(super) fn judge(
    sources: &mut [Box<dyn Entries + '_>],
    durable: SeqNo,
    is_seen: &dyn Fn(SeqNo, SeqNo) -> bool,
) -> Result<Judgement> {
    let segments = vec![Judged::default(); sources.len()];
    let mut judgement = Judgement { segments, ..Judgement::default() };
    let mut places = vec![0; sources.len()];
    let mut heap = BinaryHeap::new();
    for (source, entries) in sources.iter_mut().enumerate() {
        heap.extend(entries.next()?.map(|entry| Reverse((entry, source))));
    }
    // The records of one key, from the oldest on.
    let mut versions: Vec<Version> = Vec::new();
    while let Some(Reverse((entry, source))) = heap.pop() {
        if versions.last().is_some_and(|last| last.entry.hash != entry.hash) {
            judgement.note_key(&versions, durable, is_seen);
            versions.clear();
        }
        if let Some(place) = places.get_mut(source) {
            versions.push(Version { entry, source, place: *place });
            *place += 1;
        }
        if let Some(entries) = sources.get_mut(source) {
            heap.extend(entries.next()?.map(|entry| Reverse((entry, source))));
        }
    }
    judgement.note_key(&versions, durable, is_seen);
    Ok(judgement)
}

/// A record of a key.
#[derive(Clone, Copy)]
struct Version {
    entry: Entry,
    source: usize,
    /// Its place in the footer.
    place: usize,
}

impl Judgement {
    /// Judges the records of one key, from the oldest on.
    fn note_key(
        &mut self,
        versions: &[Version],
        durable: SeqNo,
        is_seen: &dyn Fn(SeqNo, SeqNo) -> bool,
    ) {
        let mut all_dead = true;
        for (at, version) in versions.iter().enumerate() {
            let Version { entry, source, place } = *version;
            let later = versions.get(at + 1..).unwrap_or_default();
            // A write that was replayed has equal records. A handle of each may be in the index.
            let newer = later.iter().find(|later| later.entry.number > entry.number);
            let bytes = u64::from(entry.bytes) + ENTRY_BYTES as u64;
            let Some(newer) = newer.map(|newer| newer.entry.number) else {
                let may_go = entry.kind != Kind::Value && entry.number <= durable && all_dead;
                if may_go && at > 0 {
                    let older = versions.get(..at).unwrap_or_default();
                    let older = older.iter().map(|older| older.source).collect();
                    self.markers.push(Marker { source, entry: place, bytes, older });
                }
                // A lone marker goes once it is durable.
                let is_pending = entry.kind != Kind::Value && entry.number > durable && at == 0;
                if is_pending {
                    self.pending_until = self.pending_until.max(entry.number);
                    self.count(source).pending_bytes += bytes;
                    continue;
                }
                let judged = self.count(source);
                if may_go && at == 0 {
                    judged.dead.insert(place);
                    judged.dead_bytes += bytes;
                } else {
                    judged.live_bytes += bytes;
                    judged.live_records += 1;
                }
                continue;
            };
            match superseded(&entry, newer, durable, is_seen) {
                Superseded::Dead => {
                    let judged = self.count(source);
                    judged.dead.insert(place);
                    judged.dead_bytes += bytes;
                }
                Superseded::Pending => {
                    self.pending_until = self.pending_until.max(newer);
                    self.count(source).pending_bytes += bytes;
                    all_dead = false;
                }
                Superseded::Held => {
                    self.count(source).held_bytes += bytes;
                    all_dead = false;
                }
            }
        }
    }

    fn count(&mut self, source: usize) -> &mut Judged {
        &mut self.segments[source]
    }
}

fn superseded(
    entry: &Entry,
    newer: SeqNo,
    durable: SeqNo,
    is_seen: &dyn Fn(SeqNo, SeqNo) -> bool,
) -> Superseded {
    if newer > durable {
        Superseded::Pending
    } else if entry.kind == Kind::Value && is_seen(entry.number, newer) {
        Superseded::Held
    } else {
        Superseded::Dead
    }
}

#[cfg(test)]
mod tests;
