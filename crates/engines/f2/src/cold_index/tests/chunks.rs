//! The bytes of a chunk.

use proptest::collection::vec;
use proptest::prelude::*;

use super::at;
use crate::address::LogAddress;
use crate::cold_index::chunk::{Chunk, Entry, Name, Prefix, encode, record_bytes};
use crate::cold_index::{BASE_BITS, LEVEL_MAX};
use crate::position::Position;
use crate::record::{Live, stamp};
use sync::atomic::{AtomicU64, Ordering};

proptest! {
    #[test]
    fn a_chunk_is_read_as_it_was_written(
        position in any::<u64>(),
        level in 0..=LEVEL_MAX,
        mut parts in vec((0_u32..8, 1_u64..1 << 44), 0..40),
    ) {
        parts.sort_by_key(|(tag, _)| *tag);
        let name = Prefix::of(Position::of_number(position)).name(level);
        let first = name.first();
        let entries: Vec<Entry> =
            parts.iter().map(|(tag, address)| Entry::new(first.tag() | tag, at(*address))).collect();
        let mut value = Vec::new();
        encode(&entries, &mut value);
        let key = name.word().to_le_bytes();
        let chunk = Chunk::decode(&key, Some(&value)).expect("it is sound");
        prop_assert_eq!(chunk.name, name);
        prop_assert_eq!(chunk.entries().collect::<Vec<_>>(), entries);
        for wanted in 0..8 {
            let mut found = Vec::new();
            chunk.addresses(first.tag() | wanted, &mut found);
            let same = parts.iter().filter(|(tag, _)| *tag == wanted).map(|(_, to)| at(*to));
            prop_assert_eq!(found, same.collect::<Vec<LogAddress>>());
        }
    }

    #[test]
    fn any_bytes_are_decoded_without_a_panic(key in vec(any::<u8>(), 0..9), value in vec(any::<u8>(), 0..64)) {
        let _ = Chunk::decode(&key, Some(&value));
    }

    #[test]
    fn positions_of_one_chunk_lie_together(number in any::<u64>(), level in 0..=LEVEL_MAX) {
        let prefix = Prefix::of(Position::of_number(number));
        let name = prefix.name(level);
        let (first, last) = (name.first(), prefix.last_of_chunk(level));
        prop_assert!(first <= prefix && prefix <= last);
        prop_assert_eq!((first.name(level), last.name(level)), (name, name));
        if let Some(next) = last.next() {
            prop_assert_ne!(next.name(level), name);
            prop_assert_eq!(next.name(level).first(), next);
        }
        if level > 0 {
            let parent = prefix.name(level - 1).number;
            let behind = parent + (1 << (BASE_BITS + level - 1));
            prop_assert!([parent, behind].contains(&name.number));
        }
    }
}

#[test]
fn what_is_no_chunk_is_refused() {
    let name = Name { level: 1, number: 3 };
    let key = name.word().to_le_bytes();
    let value = |entries: &[Entry]| {
        let mut value = Vec::new();
        encode(entries, &mut value);
        value
    };
    let refused = |key: &[u8], value: Option<&[u8]>, what: &str| {
        let damage = Chunk::decode(key, value).expect_err(what);
        assert_eq!(damage.0, what);
    };
    refused(&key[..7], Some(&[]), "a chunk's name has another length");
    let beyond = Name { level: 1, number: 1 << (BASE_BITS + 1) };
    refused(&beyond.word().to_le_bytes(), Some(&[]), "a chunk's name makes no sense");
    refused(&key, None, "a chunk is a tombstone");
    refused(&key, Some(&[0; 9]), "a chunk's entries are cut short");
    let upper = value(&[Entry::new(1 << 19, at(1))]);
    refused(&key, Some(&upper), "a chunk has an entry of another chunk");
    let turned = value(&[Entry::new(5, at(1)), Entry::new(4, at(2))]);
    refused(&key, Some(&turned), "a chunk's entries are not in order");
    let nowhere = value(&[Entry::new(5, LogAddress::NONE)]);
    refused(&key, Some(&nowhere), "an entry of a chunk leads nowhere");
    assert!(Chunk::decode(&key, Some(&[])).is_ok());
}

#[test]
fn the_documented_example_is_what_is_written() {
    let at_record = LogAddress::new(0x1234_0000);
    let name = Prefix::of(Position::of_number(0x5a1c_0ffe << 32)).name(2);
    let entries = [Entry::new(0xc0ffe, LogAddress::new(0x7700)), Entry::new(0xc0ffe, at(0x10))];
    let mut value = Vec::new();
    encode(&entries, &mut value);
    let words: Vec<_> = (0..record_bytes(2) / 8).map(|_| AtomicU64::new(u64::MAX)).collect();
    Live::new(&words).write(LogAddress::NONE, &name.word().to_le_bytes(), Some(&value));
    let mut bytes: Vec<u8> =
        words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
    assert_eq!(stamp(&mut bytes, 0x5a17, at_record), bytes.len());
    let hex: Vec<String> = bytes
        .chunks(8)
        .map(|word| word.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" "))
        .collect();
    let page = include_str!("../../../../../../docs/formats/f2-chunks.md");
    for word in &hex {
        assert!(page.contains(word.as_str()), "the page lacks {word}:\n{}", hex.join("\n"));
    }
}
