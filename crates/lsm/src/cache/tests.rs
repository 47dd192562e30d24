//! The cache's size, and what it gives up.

use super::*;
use crate::table::Block;

fn block(bytes: usize) -> Cached {
    let mut content = vec![7; bytes];
    content.extend_from_slice(&0_u32.to_le_bytes());
    content.extend_from_slice(&1_u32.to_le_bytes());
    Cached::Block(Arc::new(Block::decode(content).expect("it has one restart point")))
}

fn cache(limit: u64) -> (Cache, Arc<MemoryBudget>) {
    let budget = Arc::new(MemoryBudget::new(limit));
    (Cache::new(&budget, &options()), budget)
}

fn options() -> Options {
    Options { lookup_index_bytes_max: 0, ..Options::default() }
}

#[test]
fn it_holds_what_fits_and_counts_it() {
    let (cache, budget) = cache(1 << 20);
    let capacity = MemorySplit::of(1 << 20, &options()).cache_bytes;
    for offset in 0..1000 {
        cache.insert(Key::block(1, 0, offset), block(2000));
        assert!(cache.bytes() <= capacity, "C2");
        assert_eq!(cache.bytes() + cache.ghost_bytes(), budget.used(), "C1");
    }
    assert!(cache.bytes() > capacity / 2, "most of it is used");
    let there = (0..1000).filter(|offset| cache.get(&Key::block(1, 0, *offset)).is_some()).count();
    assert!((100..500).contains(&there), "{there} blocks of 2000 bytes in {capacity}");
    drop(cache);
    assert_eq!(budget.used(), 0);
}

#[test]
fn what_is_looked_up_outlives_a_scan() {
    let (cache, _budget) = cache(1 << 20);
    for offset in 0..50 {
        cache.insert(Key::block(1, 0, offset), block(2000));
    }
    let mut lost = 0;
    for scanned in 0..5000 {
        cache.insert(Key::block(2, 0, scanned), block(2000));
        let in_use = Key::block(1, 0, scanned % 50);
        if cache.get(&in_use).is_none() {
            lost += 1;
            cache.insert(in_use, block(2000));
        }
    }
    assert!(lost < 500, "{lost} of 5000 look-ups of 50 blocks in use were in vain");
}

#[test]
fn less_memory_makes_it_smaller() {
    let (cache, budget) = cache(1 << 20);
    for offset in 0..1000 {
        cache.insert(Key::block(1, 0, offset), block(2000));
    }
    budget.set_limit(64 << 10);
    cache.shrink();
    assert!(cache.bytes() <= MemorySplit::of(64 << 10, &options()).cache_bytes);
    budget.set_limit(0);
    cache.insert(Key::block(2, 0, 0), block(10));
    assert!(cache.get(&Key::block(2, 0, 0)).is_none(), "there is no room for it");
}

#[test]
fn pieces_of_tables_are_told_apart() {
    let (cache, _budget) = cache(1 << 20);
    cache.insert(Key::block(1, 0, 0), block(10));
    assert!(cache.get(&Key::block(1, 1, 0)).is_none());
    assert!(cache.get(&Key::block(2, 0, 0)).is_none());
    assert!(cache.get(&Key::metadata(1)).is_none());
    assert!(cache.get(&Key::block(1, 0, 0)).is_some());
}

/// Blocks that are read in turns: a cache that is a little too small for them would have saved all of
/// the reads with as much more, and one that is far too small none of them.
#[test]
fn what_would_have_been_there_still_is_counted() {
    let capacity = MemorySplit::of(1 << 20, &options()).cache_bytes;
    for (bytes, is_counted) in
        [(capacity / 2, false), (9 * capacity / 8, true), (8 * capacity, false)]
    {
        let (cache, _budget) = cache(1 << 20);
        let mut reads = 0;
        for turn in 0..6 {
            // Asked anew from time to time, as the balance does.
            cache.set_ghost_reach(capacity / 2);
            for offset in 0..bytes / block(2000).bytes() {
                let key = Key::block(1, 0, offset);
                if cache.get(&key).is_none() {
                    cache.insert(key, block(2000));
                    reads += u64::from(turn > 0);
                }
            }
        }
        let hits = cache.ghost_hits();
        if is_counted {
            // A block with what it takes in the cache is two of the device.
            assert!(hits > reads && hits < 4 * reads, "{hits} of {reads}");
        } else {
            assert!(hits <= reads / 20, "{hits} of {reads}");
        }
    }
}
