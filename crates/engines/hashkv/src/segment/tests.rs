//! Tests of records and footers.

use codec::SeqNo;

use super::footer::{self, Entry, PAGE_ENTRIES, footer_bytes};
use super::record::{
    BLOCK_BYTES, Found, Kind, Record, Walk, decode, place, record_bytes, value_bytes,
};
use crate::key_hash::{KeyHash, Secret};

const STORE: u64 = 7;

fn record<'a>(number: u64, kind: Kind, key: &'a [u8], value: &'a [u8]) -> Record<'a> {
    Record { kind, number: SeqNo::new(number), key, value }
}

fn hash(key: &[u8]) -> KeyHash {
    Secret([1, 2]).hash(key)
}

/// Returns a segment of these records, each at the beginning of a block if it says so.
fn segment(number: u64, records: &[(bool, Record<'_>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (at_block, record) in records {
        if *at_block {
            bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES), 0);
        }
        record.encode(place(number, bytes.len() as u64, STORE), &mut bytes);
    }
    bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES), 0);
    bytes
}

#[test]
fn a_record_has_the_documented_bytes() {
    let mut bytes = Vec::new();
    let put = record(300, Kind::Value, b"k", b"warm");
    put.encode(place(5, 4096, STORE), &mut bytes);
    assert_eq!(bytes.len(), put.bytes());
    // `docs/formats/hashkv-segment.md`.
    assert_eq!(bytes[..16], *b"\x01\x2c\x01\0\0\0\0\0\0\x01\x04kwarm");
    assert_eq!(decode(&bytes, place(5, 4096, STORE)), Ok(put));
}

/// A record that is written over another one has the bytes that it has elsewhere.
#[test]
fn a_record_is_written_over_one_of_the_same_key_and_length() {
    let at = place(5, 4096, STORE);
    let encoded = |record: &Record<'_>| {
        let mut bytes = Vec::new();
        record.encode(at, &mut bytes);
        bytes
    };
    for len in [0, 1, 127, 128, 5000] {
        let earlier = record(300, Kind::Value, b"key", &vec![1; len]).bytes();
        let mut there = encoded(&record(300, Kind::Value, b"key", &vec![1; len]));
        let (value, longer) = (vec![2; len], vec![2; len + 1]);
        let others = [
            record(301, Kind::Value, b"kez", &value),
            record(301, Kind::Value, b"key", &longer),
            record(301, Kind::Value, b"ke", &longer),
            record(301, Kind::Tombstone, b"key", &[]),
        ];
        let before = there.clone();
        assert!(others.iter().all(|other| !other.encode_over(at, &mut there)), "{len}");
        assert_eq!(there, before);
        let later = record(1 << 40, Kind::Value, b"key", &value);
        assert!(later.encode_over(at, &mut there));
        assert_eq!((there.len(), &there), (earlier, &encoded(&later)));
    }
}

#[test]
fn a_record_is_of_its_place_alone() {
    let mut bytes = Vec::new();
    record(1, Kind::Value, b"k", b"v").encode(place(5, 0, STORE), &mut bytes);
    for other in [place(6, 0, STORE), place(5, 4096, STORE), place(5, 0, STORE + 1)] {
        assert!(decode(&bytes, other).is_err(), "{other:?}");
    }
    for at in 0..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 0x40;
        assert!(decode(&bad, place(5, 0, STORE)).is_err(), "byte {at}");
        assert!(decode(&bytes[..at], place(5, 0, STORE)).is_err(), "{at} bytes");
    }
}

#[test]
fn a_walk_passes_over_paddings_and_ends_at_zeros() {
    let long = vec![b'x'; 5000];
    let records = [
        (false, record(1, Kind::Value, b"a", b"1")),
        (false, record(2, Kind::Tombstone, b"b", b"")),
        (true, record(3, Kind::Value, b"c", &long)),
        (false, record(4, Kind::InlineMarker, b"d", b"")),
        (true, record(5, Kind::Value, b"", b"")),
    ];
    let mut bytes = segment(9, &records);
    bytes.resize(bytes.len() + BLOCK_BYTES, 0);
    let mut walk = Walk::new(&bytes, 9, STORE);
    for (_, expected) in &records {
        let found = walk.next();
        assert!(matches!(&found, Ok(Found::Record(_, record)) if record == expected), "{found:?}");
    }
    assert_eq!(walk.next(), Ok(Found::End));
    assert_eq!(walk.next(), Ok(Found::End));
}

#[test]
fn a_walk_continues_behind_a_block_that_was_never_written() {
    let bytes = segment(
        9,
        &[
            (false, record(1, Kind::Value, b"a", b"1")),
            (true, record(2, Kind::Value, b"b", b"2")),
            (true, record(3, Kind::Value, b"c", b"3")),
        ],
    );
    let mut torn = bytes.clone();
    torn[BLOCK_BYTES..2 * BLOCK_BYTES].fill(0);
    let mut walk = Walk::new(&torn, 9, STORE);
    assert!(matches!(walk.next(), Ok(Found::Record(0, _))));
    assert_eq!(walk.next(), Ok(Found::End));
    assert!(walk.skip_to_next_block());
    let found = walk.next();
    assert!(matches!(found, Ok(Found::Record(at, record)) if at == 8192 && record.key == b"c"));
    assert_eq!(walk.next(), Ok(Found::End));
    assert!(!walk.skip_to_next_block());
    // A padding has zeros alone.
    let mut bad = bytes;
    bad[BLOCK_BYTES - 1] = 1;
    let mut walk = Walk::new(&bad, 9, STORE);
    assert!(walk.next().is_ok() && walk.next().is_err());
}

fn entries(count: usize) -> Vec<Entry> {
    let entry = |at: usize| Entry {
        hash: hash(&at.to_le_bytes()),
        number: SeqNo::new(at as u64),
        offset: at as u32,
        bytes: 20,
        kind: Kind::Value,
    };
    let mut entries: Vec<_> = (0..count).map(entry).collect();
    entries.sort_unstable();
    entries
}

#[test]
fn a_footer_comes_back_as_it_went() {
    for count in [0, 1, PAGE_ENTRIES, PAGE_ENTRIES + 1, 3 * PAGE_ENTRIES] {
        let entries = entries(count);
        let bytes = footer::encode(&entries, 4, 8192, STORE);
        assert_eq!(bytes.len(), footer_bytes(count));
        assert_eq!(footer::decode(&bytes, count, 4, 8192, STORE), Ok(entries), "{count}");
        // Of another segment, place or count.
        assert_eq!(footer::decode(&bytes, count, 5, 8192, STORE).is_ok(), count == 0);
        assert_eq!(footer::decode(&bytes, count, 4, 4096, STORE).is_ok(), count == 0);
        assert!(footer::decode(&bytes, count + PAGE_ENTRIES, 4, 8192, STORE).is_err());
    }
}

#[test]
fn damage_of_a_footer_has_its_place() {
    let count = PAGE_ENTRIES + 7;
    let bytes = footer::encode(&entries(count), 4, 8192, STORE);
    for at in [0, 100, BLOCK_BYTES - 1, BLOCK_BYTES, bytes.len() - 1] {
        let mut bad = bytes.clone();
        bad[at] ^= 1;
        let damage = footer::decode(&bad, count, 4, 8192, STORE).expect_err("a flipped bit");
        assert_eq!(damage.offset, 8192 + (at / BLOCK_BYTES * BLOCK_BYTES) as u64);
    }
    // Sound pages with entries out of order.
    let mut swapped = entries(2);
    swapped.reverse();
    let bytes = footer::encode(&swapped, 4, 0, STORE);
    assert!(footer::decode(&bytes, 2, 4, 0, STORE).is_err());
}

#[test]
fn the_bytes_of_a_value_follow_from_those_of_its_record() {
    for value in [0, 1, 126, 127, 128, 129, 16_383, 16_384, 2_097_151, 2_097_152] {
        for key in [0, 1, 127, 128, 60_000] {
            assert_eq!(value_bytes(key, record_bytes(key, value)), value, "beside {key} bytes");
        }
    }
}
