//! Digests by themselves: the addresses that they return for a chunk, and the memory that they
//! take.

use std::collections::BTreeMap;
use std::sync::Arc;

use memory_budget::MemoryBudget;
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};

use super::packed::{HEAD_WORDS, Head};
use super::{Digests, PAGE_BYTES_MIN};
use crate::address::LogAddress;
use crate::cold_index::LEVEL_MAX;
use crate::cold_index::chunk::{ADDRESS_UNIT, Entry, Name, TAG_BITS};

const BYTES_MAX: u64 = 4 << 20;

fn digests(memory: &Arc<MemoryBudget>) -> Digests {
    let digests = Digests::new(BYTES_MAX, memory);
    assert!(digests.step_bytes() >= PAGE_BYTES_MIN && digests.step_bytes() <= BYTES_MAX / 64);
    digests
}

fn no_limit() -> Arc<MemoryBudget> {
    Arc::new(MemoryBudget::new(u64::MAX))
}

/// Some tag of a chunk of [`LEVEL`], whose first bits the level has lent.
fn some_tag(random: &mut dyn Rng) -> u32 {
    0b101 << (TAG_BITS - LEVEL) | random.next_u32() & ((1 << (TAG_BITS - LEVEL)) - 1)
}

/// Entries as a chunk has them: in the order of their tags. The addresses may be multiples of more
/// than a unit.
fn some_entries(random: &mut impl Rng, most: usize) -> Vec<Entry> {
    let bits = random.random_range(5..44);
    let base = random.random_range(0..1_u64 << 43);
    let mut tags: Vec<u32> = (0..random.random_range(0..=most)).map(|_| some_tag(random)).collect();
    tags.sort_unstable();
    let zeros = random.random_range(0..6) * random.random_range(0..=1);
    let address = |random: &mut dyn Rng| {
        let unit = (base + (random.next_u64() & ((1 << bits) - 1))) % (1 << 44);
        LogAddress::new((unit >> zeros << zeros).max(1 << zeros) * ADDRESS_UNIT)
    };
    tags.into_iter().map(|tag| Entry::new(tag, address(random))).collect()
}

/// Returns the addresses that a digest of these entries has to return for a tag: exactly the
/// entries with the same first eight bits, without the bits that the level has lent, in order.
fn expected(entries: &[Entry], tag: u32) -> Vec<LogAddress> {
    let kept = |tag: u32| tag >> (TAG_BITS - LEVEL - 8);
    let same = entries.iter().filter(|entry| kept(entry.tag()) == kept(tag));
    same.map(|entry| entry.address()).collect()
}

const LEVEL: u32 = 7;

fn name(number: usize) -> Name {
    Name { level: LEVEL, number }
}

fn find(digests: &Digests, number: usize, chunk: LogAddress, tag: u32) -> Option<Vec<LogAddress>> {
    let mut found = Vec::new();
    digests.find(name(number), chunk, tag, &mut found).then_some(found)
}

#[test]
fn a_digest_names_what_its_chunk_does_in_its_order() {
    let memory = no_limit();
    let digests = digests(&memory);
    digests.resize(BYTES_MAX);
    let mut random = SmallRng::seed_from_u64(1);
    for round in 1..2_000_u64 {
        let entries = some_entries(&mut random, 60);
        let (number, chunk) = (random.random_range(0..1 << 26), LogAddress::new(round * 16));
        // This test is not about the slots of numbers for which there is no memory.
        let number = number % 5_000;
        digests.keep(name(number), chunk, &entries);
        for entry in &entries {
            let found = find(&digests, number, chunk, entry.tag()).expect("it was kept");
            assert!(found.contains(&entry.address()));
            assert_eq!(found, expected(&entries, entry.tag()));
        }
        let other = some_tag(&mut random);
        assert_eq!(find(&digests, number, chunk, other), Some(expected(&entries, other)));
        assert_eq!(find(&digests, number, chunk.plus(16), other), None, "another chunk");
        let before = Name { level: LEVEL - 1, number };
        assert!(!digests.find(before, chunk, other, &mut Vec::new()), "another level");
    }
}

/// Long chunks, whose groups take several words, and at the highest level, which leaves few bits of
/// a tag.
#[test]
fn chunks_of_any_length_and_level_are_reported() {
    let mut random = SmallRng::seed_from_u64(4);
    for level in [0, 5, 12, 13, LEVEL_MAX] {
        for count in [0, 1, 2, 3, 60, 64, 500] {
            let left = TAG_BITS - level;
            let mut tags: Vec<u32> =
                (0..count).map(|_| random.random_range(0..1 << left)).collect();
            tags.sort_unstable();
            let address = |at: usize| LogAddress::new((at as u64 + 1) * 1_000 * ADDRESS_UNIT);
            let entries: Vec<Entry> =
                tags.iter().enumerate().map(|(at, tag)| Entry::new(*tag, address(at))).collect();
            let head = Head::of(9, level, address(7), &entries).expect("it can be told");
            let mut words = Vec::new();
            head.pack(&entries, &mut words);
            assert_eq!(Head::decode(head.encode()), head);
            assert_eq!(head.words(), HEAD_WORDS + words.len());
            let kept = |tag: u32| tag >> left.saturating_sub(8);
            for tag in tags.iter().copied().chain([0, 1, (1 << left) - 1]) {
                let mut found = Vec::new();
                head.addresses(tag, |word| words[word], &mut found);
                let same = entries.iter().filter(|entry| kept(entry.tag()) == kept(tag));
                assert_eq!(found, same.map(|entry| entry.address()).collect::<Vec<_>>());
            }
        }
    }
}

/// Bits of an entry for 1.2 GB of records of 128 bytes, and of others.
#[test]
fn an_entry_takes_about_thirty_bits() {
    const ENTRIES: usize = 24;
    let mut random = SmallRng::seed_from_u64(5);
    for (record_bytes, bits_most) in [(128, 32), (112, 35)] {
        let records = 1_200_000_000 / record_bytes;
        let mut words = 0;
        for _ in 0..1_000 {
            let mut tags: Vec<u32> = (0..ENTRIES).map(|_| some_tag(&mut random)).collect();
            tags.sort_unstable();
            let mut entry = |tag| {
                let at = random.random_range(1..records) * record_bytes;
                Entry::new(tag, LogAddress::new(at))
            };
            let entries: Vec<Entry> = tags.into_iter().map(&mut entry).collect();
            let head = Head::of(0, LEVEL, LogAddress::new(16), &entries).expect("it can be told");
            words += head.words() - HEAD_WORDS;
        }
        let bits = words * 64 / ENTRIES / 1_000;
        assert!(bits <= bits_most, "{bits} bits an entry of records of {record_bytes} bytes");
    }
}

/// Chunks that are replaced all the time, within memory for all of them, for some and for few.
#[test]
fn what_is_replaced_makes_room_and_no_more_than_is_allowed_is_taken() {
    const CHUNKS: usize = 3_000;
    for (steps, all_stay) in [(64, true), (4, false), (1, false)] {
        let memory = no_limit();
        let digests = digests(&memory);
        let allowed = steps * digests.step_bytes();
        digests.resize(allowed);
        let mut random = SmallRng::seed_from_u64(2);
        let mut chunks: BTreeMap<usize, (LogAddress, Vec<Entry>)> = BTreeMap::new();
        for version in 1..60_000_u64 {
            let number = random.random_range(0..CHUNKS);
            let chunk = (LogAddress::new(version * 16), some_entries(&mut random, 30));
            digests.keep(name(number), chunk.0, &chunk.1);
            chunks.insert(number, chunk);
            let figures = digests.figures();
            assert_eq!(memory.used(), figures.page_bytes + figures.slot_bytes);
            assert!(figures.page_bytes <= allowed && figures.slot_bytes > 0, "{figures:?}");
            assert!(figures.kept_bytes <= figures.page_bytes, "{figures:?}");
        }
        let mut kept = 0;
        for (number, (chunk, entries)) in &chunks {
            let Some(first) = entries.first() else { continue };
            let found = find(&digests, *number, *chunk, first.tag());
            kept += usize::from(found.is_some());
            if let Some(found) = found {
                assert_eq!(found, expected(entries, first.tag()));
            }
        }
        println!("{steps} steps: {kept} of {} are there", chunks.len());
        let with_entries = chunks.values().filter(|chunk| !chunk.1.is_empty()).count();
        assert!(kept > 0 && (kept == with_entries) == all_stay, "{kept} with {steps} steps");
        let without = chunks.len() - with_entries;
        assert!((kept..=kept + without).contains(&(digests.figures().kept as usize)));
        digests.resize(0);
        assert_eq!((memory.used(), digests.figures().slot_bytes), (0, 0));
        assert_eq!(find(&digests, 0, chunks[&0].0, 0), None);
    }
}

#[test]
fn fewer_may_be_allowed_at_any_time() {
    let memory = no_limit();
    let digests = digests(&memory);
    let mut random = SmallRng::seed_from_u64(3);
    for round in 1..300_u64 {
        let allowed = random.random_range(0..BYTES_MAX);
        digests.resize(allowed);
        for number in 0..200 {
            let entries = some_entries(&mut random, 40);
            let chunk = LogAddress::new((round * 1_000 + number as u64) * 16);
            digests.keep(name(number), chunk, &entries);
            let tag = some_tag(&mut random);
            let found = find(&digests, number, chunk, tag);
            let is_kept = allowed >= digests.step_bytes();
            assert_eq!(found, is_kept.then(|| expected(&entries, tag)));
        }
        let slot_bytes = digests.figures().slot_bytes;
        assert!(memory.used() <= allowed + slot_bytes);
    }
    drop(digests);
    assert_eq!(memory.used(), 0);
}
