//! Tests of the judgement of a group.

use codec::SeqNo;
use engine::Result;

use super::{Entries, Judgement, judge};
use crate::key_hash::{KeyHash, Secret};
use crate::segment::footer::{ENTRY_BYTES, Entry};
use crate::segment::record::Kind::{self, InlineMarker, Tombstone, Value};

struct Listed(std::vec::IntoIter<Entry>);

impl Entries for Listed {
    fn next(&mut self) -> Result<Option<Entry>> {
        Ok(self.0.next())
    }
}

fn hash(key: u8) -> KeyHash {
    Secret([1, 2]).hash(&[key])
}

/// A record of a key, of 100 bytes with its entry.
type Record = (u8, u64, Kind);

/// Judges segments of these records. The snapshots see the versions of these numbers.
fn judged(segments: &[&[Record]], durable: u64, pins: &[u64]) -> Judgement {
    let entries = |records: &&[Record]| {
        let entry = |(offset, (key, number, kind)): (u32, &Record)| Entry {
            hash: hash(*key),
            number: SeqNo::new(*number),
            offset,
            bytes: 100 - ENTRY_BYTES as u32,
            kind: *kind,
        };
        let mut entries: Vec<Entry> = (0..).zip(records.iter()).map(entry).collect();
        entries.sort_unstable();
        Box::new(Listed(entries.into_iter())) as Box<dyn Entries>
    };
    let mut sources: Vec<_> = segments.iter().map(entries).collect();
    let is_seen = |older: SeqNo, newer: SeqNo| {
        pins.iter().any(|pin| (older.get()..newer.get()).contains(pin))
    };
    judge(&mut sources, SeqNo::new(durable), &is_seen).expect("nothing is read")
}

/// The live, dead, pending and held records of each segment.
fn counts(judgement: &Judgement) -> Vec<[u64; 4]> {
    let count = |judged: &super::Judged| {
        [judged.live_bytes, judged.dead_bytes, judged.pending_bytes, judged.held_bytes]
            .map(|bytes| bytes / 100)
    };
    judgement.segments.iter().map(count).collect()
}

#[test]
fn a_record_is_dead_once_its_successor_is_durable() {
    let segments: [&[Record]; 2] = [&[(1, 1, Value), (2, 2, Value)], &[(1, 3, Value)]];
    assert_eq!(counts(&judged(&segments, 3, &[])), [[1, 1, 0, 0], [1, 0, 0, 0]]);
    let early = judged(&segments, 2, &[]);
    assert_eq!(counts(&early), [[1, 0, 1, 0], [1, 0, 0, 0]]);
    assert_eq!(early.pending_until, SeqNo::new(3));
}

/// Each version has the next newer one as its successor, not the newest: a snapshot between the two
/// newest keeps only one.
#[test]
fn a_snapshot_holds_the_version_that_it_sees() {
    let segments: [&[Record]; 1] = [&[(1, 1, Value), (1, 4, Value), (1, 8, Value)]];
    for (pin, expected) in [(1, [1, 1, 0, 1]), (3, [1, 1, 0, 1]), (5, [1, 1, 0, 1])] {
        assert_eq!(counts(&judged(&segments, 9, &[pin])), [expected], "pin {pin}");
    }
    assert_eq!(counts(&judged(&segments, 9, &[9])), [[1, 2, 0, 0]]);
    assert_eq!(counts(&judged(&segments, 9, &[2, 7])), [[1, 0, 0, 2]]);
    // The newest record is above the durable number.
    assert_eq!(counts(&judged(&segments, 5, &[])), [[1, 1, 1, 0]]);
}

#[test]
fn a_marker_goes_with_the_last_older_record() {
    for kind in [Tombstone, InlineMarker] {
        let segments: [&[Record]; 3] = [&[(1, 1, Value)], &[(1, 2, Value)], &[(1, 3, kind)]];
        let judgement = judged(&segments, 3, &[]);
        assert_eq!(counts(&judgement), [[0, 1, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0]]);
        assert!(!judgement.markers_without(2, |gone| gone == 2).has(0));
        assert!(!judgement.markers_without(2, |gone| gone >= 1).has(0));
        assert!(judgement.markers_without(2, |_| true).has(0));
        assert_eq!(judgement.lone_marker_bytes(|gone| gone < 2), 100);
        assert_eq!(judgement.lone_marker_bytes(|gone| gone == 1), 0);
        // It is not durable, or an older record is held.
        assert!(!judged(&segments, 2, &[]).markers_without(2, |_| true).has(0));
        assert!(!judged(&segments, 3, &[2]).markers_without(2, |_| true).has(0));
    }
    // A marker without any older record.
    let segments: [&[Record]; 1] = [&[(1, 3, Tombstone)]];
    assert_eq!(counts(&judged(&segments, 3, &[])), [[0, 1, 0, 0]]);
    // It goes once it is durable.
    let judgement = judged(&segments, 2, &[]);
    assert_eq!(counts(&judgement), [[0, 0, 1, 0]]);
    assert_eq!(judgement.pending_until, SeqNo::new(3));
}

/// No handle leads to a marker, so no snapshot holds one.
#[test]
fn a_marker_that_is_superseded_is_dead() {
    let segments: [&[Record]; 1] = [&[(1, 3, Tombstone), (1, 5, Value)]];
    assert_eq!(counts(&judged(&segments, 5, &[4])), [[1, 1, 0, 0]]);
    assert_eq!(counts(&judged(&segments, 4, &[])), [[1, 0, 1, 0]]);
}

/// A replay appends a record again. A handle of each may be in the index.
#[test]
fn equal_records_live_and_die_together() {
    let segments: [&[Record]; 2] = [&[(1, 3, Value)], &[(1, 3, Value)]];
    assert_eq!(counts(&judged(&segments, 3, &[])), [[1, 0, 0, 0], [1, 0, 0, 0]]);
    let segments: [&[Record]; 3] = [&[(1, 3, Value)], &[(1, 3, Value)], &[(1, 4, Value)]];
    let judgement = judged(&segments, 4, &[]);
    assert_eq!(counts(&judgement), [[0, 1, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0]]);
}
