//! Digests by themselves: what they say of a chunk, and what they take.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::MemoryBudget;
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};

use super::{Digests, PAGE_BYTES_MIN};
use crate::address::LogAddress;
use crate::cold_index::chunk::{ADDRESS_UNIT, Entry, Name};

const BYTES_MAX: u64 = 4 << 20;

fn digests(memory: &Arc<MemoryBudget>) -> Digests {
    let digests = Digests::new(BYTES_MAX, memory);
    assert!(digests.step_bytes() >= PAGE_BYTES_MIN && digests.step_bytes() <= BYTES_MAX / 64);
    digests
}

fn no_limit() -> Arc<MemoryBudget> {
    Arc::new(MemoryBudget::new(u64::MAX))
}

/// Entries as a chunk has them: in the order of their tags.
fn some_entries(random: &mut impl Rng, most: usize) -> Vec<Entry> {
    let bits = random.random_range(5..44);
    let base = random.random_range(0..1_u64 << 43);
    let mut tags: Vec<u32> =
        (0..random.random_range(0..=most)).map(|_| random.random_range(0..1 << 20)).collect();
    tags.sort_unstable();
    let address = |random: &mut dyn Rng| {
        let unit = (base + (random.next_u64() & ((1 << bits) - 1))) % (1 << 44);
        LogAddress::new(unit.max(1) * ADDRESS_UNIT)
    };
    tags.into_iter().map(|tag| Entry::new(tag, address(random))).collect()
}

/// What a digest of these entries has to say of a tag: exactly what ends alike, in order.
fn expected(entries: &[Entry], tag: u32) -> Vec<LogAddress> {
    let same = entries.iter().filter(|entry| entry.tag() & 0xff == tag & 0xff);
    same.map(|entry| entry.address()).collect()
}

fn name(number: usize) -> Name {
    Name { level: 14, number }
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
        // The slots of numbers beyond what there is memory for are not what this is about.
        let number = number % 5_000;
        digests.keep(name(number), chunk, &entries);
        for entry in &entries {
            let found = find(&digests, number, chunk, entry.tag()).expect("it was kept");
            assert!(found.contains(&entry.address()));
            assert_eq!(found, expected(&entries, entry.tag()));
        }
        let other = random.random_range(0..1 << 20);
        assert_eq!(find(&digests, number, chunk, other), Some(expected(&entries, other)));
        assert_eq!(find(&digests, number, chunk.plus(16), other), None, "another chunk");
        let before = Name { level: 13, number };
        assert!(!digests.find(before, chunk, other, &mut Vec::new()), "another level");
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
            let found = find(&digests, number, chunk, 77);
            let is_kept = allowed >= digests.step_bytes();
            assert_eq!(found, is_kept.then(|| expected(&entries, 77)));
        }
        let slot_bytes = digests.figures().slot_bytes;
        assert!(memory.used() <= allowed + slot_bytes);
    }
    drop(digests);
    assert_eq!(memory.used(), 0);
}
