//! Entries that the index keeps, and entries that it drops.

use super::*;

fn of_bytes(bytes: u64) -> LookupIndex {
    LookupIndex::of_bytes(bytes, &Arc::new(MemoryBudget::new(1 << 20)))
}

fn hint(seqno: u64, memtable: u64) -> Option<Hint> {
    Some(Hint { seqno: SeqNo::new(seqno), memtable })
}

#[test]
fn the_largest_number_stays() {
    let index = of_bytes(1 << 12);
    index.put(5, SeqNo::new(8), 2);
    index.put(5, SeqNo::new(7), 1);
    assert_eq!(index.get(5), hint(8, 2));
    index.put(5, SeqNo::new(9), 1);
    assert_eq!(index.get(5), hint(9, 1));
    assert_eq!(index.get(6), None);
}

#[test]
fn only_the_write_that_was_merged_is_led_on() {
    let index = of_bytes(1 << 12);
    index.put(5, SeqNo::new(8), 2);
    index.lead(5, SeqNo::new(7), 9);
    assert_eq!(index.get(5), hint(8, 2));
    index.lead(5, SeqNo::new(8), 9);
    assert_eq!(index.get(5), hint(8, 9));
    index.lead(6, SeqNo::new(8), 9);
    assert_eq!(index.get(6), None, "nothing comes back");
}

#[test]
fn a_full_bucket_gives_up_the_oldest() {
    let index = of_bytes(size_of::<Mutex<[Entry; WAYS]>>() as u64);
    for hash in 1..=WAYS as u64 + 2 {
        index.put(hash, SeqNo::new(100 - hash), 1);
    }
    assert_eq!(index.bytes(), size_of::<Mutex<[Entry; WAYS]>>() as u64);
    let kept = (1..=WAYS as u64 + 2).filter(|hash| index.get(*hash).is_some()).count();
    assert_eq!(kept, WAYS);
    assert!(index.get(WAYS as u64 + 2).is_some(), "the new one is there");
}

#[test]
fn without_memory_it_knows_nothing() {
    let index = of_bytes(10);
    index.put(5, SeqNo::new(8), 2);
    assert_eq!((index.get(5), index.bytes()), (None, 0));
}
