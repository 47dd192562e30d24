//! Notes: their content, when they are dropped, and their memory.

use std::sync::Arc;

use codec::SeqNo;

use super::{NOTE_BYTES, RecentWrites, SHARDS, Watch, WriteConflict};
use crate::KeyRange;
use crate::Sequence;

const SPACE: u32 = 7;
const PLENTY: u64 = 1 << 20;

struct Host {
    sequence: Arc<Sequence>,
    recent: Arc<RecentWrites>,
}

impl Host {
    fn new(bytes_max: u64) -> Self {
        let sequence = Arc::new(Sequence::new());
        Self { sequence, recent: Arc::new(RecentWrites::new(bytes_max)) }
    }

    /// As a writer does it.
    fn write(&self, space: u32, key: &[u8]) -> SeqNo {
        let ticket = self.sequence.begin();
        if self.recent.is_watched() {
            self.recent.note(space, key, ticket.seqno());
        }
        ticket.seqno()
    }

    fn watch(&self) -> (Watch, SeqNo) {
        let watch = self.recent.watch(&self.sequence);
        (watch, self.sequence.pin().seqno())
    }

    fn range(&self, space: u32, range: KeyRange, moment: SeqNo) -> Result<(), WriteConflict> {
        self.recent.check_range(space, &range, moment)
    }
}

fn written(key: &[u8]) -> Result<(), WriteConflict> {
    Err(WriteConflict::Written { key: key.to_vec() })
}

#[test]
fn writes_since_a_moment_are_told_and_earlier_ones_are_not() {
    let host = Host::new(PLENTY);
    let (_first, _) = host.watch();
    host.write(SPACE, b"before");
    let (_second, moment) = host.watch();
    let recent = &host.recent;
    assert_eq!(recent.check_key(SPACE, b"before", moment), Ok(()));
    assert_eq!(host.range(SPACE, KeyRange::all(), moment), Ok(()));
    host.write(SPACE, b"d");
    assert_eq!(recent.check_key(SPACE, b"d", moment), written(b"d"));
    assert_eq!(recent.check_key(SPACE, b"e", moment), Ok(()));
    assert_eq!(recent.check_key(SPACE + 1, b"d", moment), Ok(()), "another keyspace's");
    assert_eq!(host.range(SPACE, KeyRange::of(&b"a"[..]..=&b"d"[..]), moment), written(b"d"));
    assert_eq!(host.range(SPACE, KeyRange::of(&b"a"[..]..&b"d"[..]), moment), Ok(()));
    assert_eq!(host.range(SPACE, KeyRange::prefix(b"e"), moment), Ok(()));
    assert_eq!(host.range(SPACE + 1, KeyRange::all(), moment), Ok(()));
    for empty in [KeyRange::of(&b"z"[..]..&b"a"[..]), KeyRange::of(&b"d"[..]..&b"d"[..])] {
        assert_eq!(host.range(SPACE, empty, moment), Ok(()));
    }
}

#[test]
fn without_a_watch_nothing_is_noted_and_with_the_last_one_all_goes() {
    let host = Host::new(PLENTY);
    host.write(SPACE, b"k");
    assert_eq!(host.recent.noted(), 0);
    let (first, _) = host.watch();
    let (second, moment) = host.watch();
    host.write(SPACE, b"k");
    drop(first);
    assert_eq!(host.recent.check_key(SPACE, b"k", moment), written(b"k"));
    assert!(host.recent.bytes() > 0);
    drop(second.end());
    assert_eq!((host.recent.noted(), host.recent.bytes()), (1, 0));
    host.write(SPACE, b"k");
    assert_eq!(host.recent.noted(), 1);
}

/// Watches that overlap, so that there is always one: notes go as the oldest ends.
#[test]
fn what_no_watch_needs_goes_with_later_notes() {
    let host = Host::new(PLENTY);
    let (mut watch, mut bytes_max) = (host.watch().0, 0);
    for round in 0..1000_u64 {
        for index in 0..32_u64 {
            host.write(SPACE, &(round * 32 + index).to_be_bytes());
        }
        watch = host.watch().0;
        bytes_max = bytes_max.max(host.recent.bytes());
    }
    drop(watch);
    let round_bytes = 32 * (NOTE_BYTES as u64 + 8);
    assert!(bytes_max < 8 * round_bytes, "{bytes_max} bytes of notes");
}

#[test]
fn a_key_that_is_written_again_and_again_has_one_note() {
    let host = Host::new(PLENTY);
    let (_watch, moment) = host.watch();
    for _ in 0..1000 {
        host.write(SPACE, b"hot");
    }
    assert_eq!(host.recent.bytes(), NOTE_BYTES as u64 + 3);
    let (_later, later) = host.watch();
    assert_eq!(host.recent.check_key(SPACE, b"hot", later), Ok(()));
    assert_eq!(host.recent.check_key(SPACE, b"hot", moment), written(b"hot"));
}

#[test]
fn a_watch_that_is_too_long_knows_nothing() {
    let bytes_max = (4 * SHARDS * (NOTE_BYTES + 8)) as u64;
    let host = Host::new(bytes_max);
    let (_watch, moment) = host.watch();
    for index in 0..10_000_u64 {
        host.write(SPACE, &index.to_be_bytes());
        // Renewed all the while, so that its note is never the oldest for long.
        host.write(SPACE, b"hot");
        assert!(host.recent.bytes() <= bytes_max);
    }
    assert_eq!(host.recent.check_key(SPACE, b"never", moment), Err(WriteConflict::Forgotten));
    let range = host.range(SPACE, KeyRange::prefix(b"never"), moment);
    assert_eq!(range, Err(WriteConflict::Forgotten));
    assert_eq!(host.recent.check_key(SPACE, b"hot", moment), written(b"hot"));
    let (_later, later) = host.watch();
    assert_eq!(host.recent.check_key(SPACE, b"never", later), Ok(()));
    host.write(SPACE, b"late");
    assert_eq!(host.recent.check_key(SPACE, b"late", later), written(b"late"));
}

#[test]
fn ranges_that_were_deleted_are_told_to_who_has_read_in_them() {
    let host = Host::new(PLENTY);
    let (_first, early) = host.watch();
    let delete = |space: u32, start: &[u8], end: Option<&[u8]>| {
        let ticket = host.sequence.begin();
        host.recent.note_range(space, start, end, ticket.seqno());
    };
    delete(SPACE, b"a", Some(b"c"));
    let (second, moment) = host.watch();
    delete(SPACE, b"f", Some(b"k"));
    delete(SPACE + 1, b"", None);
    let check = |key: &[u8], moment| host.recent.check_key(SPACE, key, moment);
    assert_eq!((check(b"b", early), check(b"b", moment)), (written(b"b"), Ok(())));
    assert_eq!((check(b"f", moment), check(b"k", moment)), (written(b"f"), Ok(())));
    assert_eq!(check(b"e", early), Ok(()));
    let range = |range: std::ops::Range<&[u8]>| host.range(SPACE, KeyRange::of(range), moment);
    assert_eq!(range(b"a"..b"f"), Ok(()));
    assert_eq!(range(b"a"..b"f\0"), written(b"f"));
    assert_eq!(range(b"j"..b"z"), written(b"j"));
    assert_eq!(range(b"k"..b"z"), Ok(()));
    assert_eq!(host.range(SPACE, KeyRange::all(), moment), written(b"f"));
    delete(SPACE, b"x", None);
    assert_eq!((check(b"y", moment), check(b"w", moment)), (written(b"y"), Ok(())));
    drop((second, _first));
    assert_eq!(host.recent.bytes(), 0, "notes go with the last watch");
    let (_third, early) = host.watch();
    assert_eq!(host.range(SPACE, KeyRange::all(), early), Ok(()));
}

#[test]
fn ranges_that_were_forgotten_are_told_as_that() {
    let host = Host::new(2000 * SHARDS as u64);
    let (_watch, moment) = host.watch();
    for number in 0..100_u8 {
        let ticket = host.sequence.begin();
        host.recent.note_range(SPACE, &[number, 1], Some(&[number, 2]), ticket.seqno());
    }
    assert!(host.recent.bytes() <= 2000);
    assert_eq!(host.recent.check_key(SPACE, &[1], moment), Err(WriteConflict::Forgotten));
    assert_eq!(host.recent.check_key(SPACE, &[99, 1], moment), written(&[99, 1]));
}
