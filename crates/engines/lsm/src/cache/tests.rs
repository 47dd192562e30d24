//! The cache's size, and the blocks that it evicts.

use super::share::WAY_PARTS;
use super::*;
use lsm_tree::table::{Block, Home};

fn block(bytes: usize) -> Cached {
    let mut content = vec![7; bytes];
    content.extend_from_slice(&0_u32.to_le_bytes());
    content.extend_from_slice(&1_u32.to_le_bytes());
    Cached::Block(Arc::new(Block::decode(content).expect("it has one restart point")))
}

/// The same in the cache's own memory.
fn pooled(cache: &Cache, bytes: usize) -> Cached {
    let mut content = vec![7; bytes - 8];
    content.extend_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0]);
    let content = Home::Cache(cache).copy(&content);
    Cached::Block(Arc::new(Block::decode(content).expect("it has one restart point")))
}

fn cache(limit: u64) -> (Cache, Arc<MemoryBudget>) {
    let budget = Arc::new(MemoryBudget::new(limit));
    (Cache::new(&budget, &options(), &Arc::new(MemtableMemory::new(&budget))), budget)
}

fn options() -> Options {
    Options { lookup_index_bytes_max: 0, ..Options::default() }
}

#[test]
fn it_holds_what_fits_and_counts_it() {
    let (cache, budget) = cache(1 << 20);
    let capacity = MemorySplit::of(1 << 20, &options()).cache_beside(0);
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

/// If blocks of other lengths arrive, they cannot use the free space between blocks until it is
/// released.
#[test]
fn what_lies_free_between_blocks_is_within_the_capacity() {
    let (cache, budget) = cache(4 << 20);
    let capacity = MemorySplit::of(4 << 20, &options()).cache_beside(0);
    let lengths = [[4200, 4200], [9000, 9000], [300, 4200], [4200, 16_000], [5000, 6000]];
    for (table, lengths) in (1..).zip(lengths) {
        for (offset, len) in (0..4000).zip(lengths.into_iter().cycle()) {
            cache.insert(Key::block(table, 0, offset), pooled(&cache, len));
            assert!(cache.bytes() <= capacity, "C2: {} bytes of {capacity}", cache.bytes());
            assert_eq!(cache.bytes() + cache.ghost_bytes(), budget.used(), "C1");
        }
        let held = cache.held_bytes();
        println!("{held} bytes of {capacity} are held of blocks of {lengths:?} bytes");
        assert!(held > capacity * 7 / 8, "{held} bytes of {capacity} are held, {lengths:?}");
    }
    drop(cache);
    assert_eq!(budget.used(), 0);
}

/// A new block in a full cache evicts one of its length, and no more.
#[test]
fn as_many_blocks_go_as_come() {
    let (cache, _budget) = cache(4 << 20);
    let insert = |at| cache.insert(Key::block(1, 0, at), pooled(&cache, 4200));
    (0..2000).for_each(insert);
    let (before, count) = (cache.held_bytes(), pooled(&cache, 4200).bytes());
    for at in 2000..6000 {
        insert(at);
        assert!(cache.held_bytes().abs_diff(before) <= 2 * count, "{} bytes", cache.held_bytes());
    }
}

/// Evictions from between other blocks leave few pages of the system idle, so the others are
/// compacted.
#[test]
fn as_much_memory_comes_back_as_blocks_were_given_up() {
    let (cache, budget) = cache(16 << 20);
    let key = |at| Key::block(1, 0, at);
    (0..4000).for_each(|at| cache.insert(key(at), pooled(&cache, 4200)));
    let before = cache.held_bytes();
    let is_hot = |at: &u64| codec::hash64(8, &at.to_le_bytes()).is_multiple_of(2);
    let hot: Vec<u64> =
        (0..4000).filter(is_hot).filter(|at| cache.get(&key(*at)).is_some()).collect();
    budget.set_limit(12 << 20);
    cache.shrink();
    let (held, bytes) = (cache.held_bytes(), cache.bytes());
    assert!(bytes < before * 4 / 5, "{bytes} bytes of {before}");
    assert!(held > bytes * 19 / 20, "pieces have {held} of {bytes} bytes");
    let there = hot.iter().filter(|at| cache.get(&key(**at)).is_some()).count();
    assert_eq!(there, hot.len(), "what was looked up stays");
}

#[test]
fn what_somebody_reads_in_is_counted_after_it_was_given_up() {
    let (cache, budget) = cache(4 << 20);
    let read = |at| {
        let block = pooled(&cache, 4200);
        cache.insert(Key::block(1, 0, at), block.clone());
        block
    };
    let blocks: Vec<_> = (0..200).map(read).collect();
    budget.set_limit(0);
    cache.shrink();
    assert_eq!(cache.held_bytes(), 0);
    assert!(cache.bytes() > 200 * 4200 && cache.bytes() < 220 * 4200, "{}", cache.bytes());
    assert_eq!(cache.bytes() + cache.ghost_bytes(), budget.used(), "C1");
    drop(blocks);
    cache.shrink();
    assert_eq!(cache.bytes(), 0);
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
    assert!(lost < 500, "{lost} of 5000 lookups of 50 blocks in use were in vain");
}

#[test]
fn less_memory_makes_it_smaller() {
    let (cache, budget) = cache(1 << 20);
    for offset in 0..1000 {
        cache.insert(Key::block(1, 0, offset), block(2000));
    }
    budget.set_limit(64 << 10);
    cache.shrink();
    assert!(cache.bytes() <= MemorySplit::of(64 << 10, &options()).cache_beside(0));
    budget.set_limit(0);
    cache.insert(Key::block(2, 0, 0), block(10));
    assert!(cache.get(&Key::block(2, 0, 0)).is_none(), "there is no room for it");
}

#[test]
fn what_memtables_leave_is_lent_and_comes_back_when_they_grow() {
    let limit = 8 << 20;
    let budget = Arc::new(MemoryBudget::new(limit));
    let memory = Arc::new(MemtableMemory::new(&budget));
    let cache = Cache::new(&budget, &options(), &memory);
    let split = MemorySplit::of(limit, &options());
    let fill = || (0..10_000).for_each(|at| cache.insert(Key::block(1, 0, at), block(2000)));
    fill();
    let before = cache.bytes();
    assert!(before > split.cache_bytes, "{before} bytes, its own share is {}", split.cache_bytes);
    let mut rooms = Vec::new();
    let (bytes, mut shrunk) = (1000, 0);
    for _ in 0..split.memtables_bytes / bytes {
        let held = cache.bytes();
        rooms.push(
            memory.try_reserve(bytes, split.memtables_bytes, &*memory).expect("within the share"),
        );
        cache.shrink_for_writers(&split);
        assert!(cache.bytes() <= split.cache_beside(memory.bytes()), "C3");
        assert!(budget.used() <= limit);
        shrunk += u64::from(cache.bytes() < held);
    }
    // By steps of a part of the budget each, and little further than its own share.
    assert!(cache.bytes() > split.cache_bytes * 9 / 10, "{} are left", cache.bytes());
    assert!((2..WAY_PARTS).contains(&shrunk), "{shrunk} writes had to wait for it");
    fill();
    assert!(cache.bytes() <= split.cache_bytes);
    drop(rooms);
    fill();
    assert!(cache.bytes() > split.cache_bytes, "lent again");
}

/// Next to reads: memory that memtables will need again is not lent in between.
#[test]
fn memtables_that_fill_again_and_again_take_nothing_back() {
    let limit = 8 << 20;
    let budget = Arc::new(MemoryBudget::new(limit));
    let memory = Arc::new(MemtableMemory::new(&budget));
    let cache = Cache::new(&budget, &options(), &memory);
    let split = MemorySplit::of(limit, &options());
    let insert = |at| cache.insert(Key::block(1, 0, at), block(2000));
    (0..10_000).for_each(insert);
    let (bytes, mut read, mut shrunk) = (10_000, 10_000, [0; 10]);
    for count in &mut shrunk {
        let mut rooms = Vec::new();
        for _ in 0..split.memtables_bytes / bytes {
            (read..read + 5).for_each(insert);
            read += 5;
            let held = cache.bytes();
            rooms.push(
                memory.try_reserve(bytes, split.memtables_bytes, &*memory).expect("of the share"),
            );
            cache.shrink_for_writers(&split);
            *count += u64::from(cache.bytes() < held);
        }
    }
    assert!(shrunk[0] > 10, "the first time it gives way: {shrunk:?}");
    assert_eq!(shrunk[1..].iter().sum::<u64>(), 0, "{shrunk:?}");
    assert!(cache.bytes() > split.cache_bytes * 9 / 10, "and has its own share");
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

/// Blocks that are read in turns. If a cache is slightly too small for them, the memory that ghosts
/// represent would have saved all reads. If it is far too small, it would have saved none.
#[test]
fn what_would_have_been_there_still_is_counted() {
    let capacity = MemorySplit::of(1 << 20, &options()).cache_beside(0);
    for (bytes, is_counted) in
        [(capacity / 2, false), (9 * capacity / 8, true), (8 * capacity, false)]
    {
        let (cache, _budget) = cache(1 << 20);
        let mut reads = 0;
        for turn in 0..6 {
            // The reach is set again from time to time, as the balance does.
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
            // A block, with its overhead in the cache, counts as two blocks of the device.
            assert!(hits > reads && hits < 4 * reads, "{hits} of {reads}");
        } else {
            assert!(hits <= reads / 20, "{hits} of {reads}");
        }
    }
}

/// Gets of any key of many tables: each looks the table's metadata up, and then one of its blocks.
struct Gets {
    cache: Cache,
    numbers: u64,
}

impl Gets {
    const BLOCKS: u64 = 512;

    /// With metadata of `known` bytes that the cache knows of.
    fn new(known: u64) -> Self {
        let (cache, _) = cache(16 << 20);
        cache.note_metadata(0, known);
        cache.fit_clocks();
        Self { cache, numbers: 0 }
    }

    /// Does `count` gets. Returns how many in a thousand did not find the metadata.
    fn in_vain(&mut self, tables: u64, bytes: usize, count: u64) -> u64 {
        let before = self.cache.metadata_misses();
        for _ in 0..count {
            self.numbers += 1;
            let drawn = codec::hash64(5, &self.numbers.to_le_bytes()) % (tables * Self::BLOCKS);
            let table = drawn / Self::BLOCKS;
            let pieces = [(Key::metadata(table), bytes), (Key::block(table, 0, drawn), 4096)];
            for (key, bytes) in pieces {
                if self.cache.get(&key).is_none() {
                    let mut content = Vec::with_capacity(bytes);
                    content.resize(bytes - 8, 7);
                    content.extend_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0]);
                    let block = Block::decode(content).expect("it has one restart point");
                    self.cache.insert(key, Cached::Block(Arc::new(block)));
                }
            }
        }
        (self.cache.metadata_misses() - before) * 1000 / count
    }
}

/// The cache of a store of 16 MiB that has tables of 2 MiB of short pairs: 128 KiB of metadata
/// each. These are read again in place of blocks if a clock has more metadata than room for it.
#[test]
fn metadata_are_not_given_up_for_each_other_where_there_is_room() {
    let capacity = MemorySplit::of(16 << 20, &options()).cache_bytes;
    for tables in [12, 24, 36, 48] {
        let bytes = 128 << 10;
        let share = tables * bytes * 100 / capacity;
        let reads = [0, bytes].map(|known| {
            let mut gets = Gets::new(known);
            gets.in_vain(tables, bytes as usize, 20_000);
            gets.in_vain(tables, bytes as usize, 50_000)
        });
        println!("metadata take {share} % of the cache: {reads:?} of 1000 lookups of them in vain");
        assert!(reads[1] <= 10, "{reads:?}, {share} %");
    }
}

#[test]
fn there_are_as_many_clocks_as_have_room_for_metadata() {
    let (cache, budget) = cache(256 << 20);
    let clocks = |bytes_max: u64| {
        cache.note_metadata(0, bytes_max);
        cache.fit_clocks();
        cache.clocks.used()
    };
    let capacity = MemorySplit::of(256 << 20, &options()).cache_bytes;
    let fits = |clocks: u64| capacity / clocks / METADATA_A_CLOCK - ENTRY_OVERHEAD_BYTES;
    assert_eq!(clocks(fits(16)), 16);
    assert_eq!(clocks(fits(16) + 1), 8);
    assert_eq!(clocks(fits(16)), 8, "or they would come and go");
    assert_eq!(clocks(fits(32)), 16);
    assert_eq!(clocks(fits(2)), 2);
    assert_eq!(clocks(capacity), 1);
    // With another number of clocks every earlier entry is found.
    let keys = |range: std::ops::Range<u64>| range.map(|offset| Key::block(1, 0, offset));
    keys(0..500).for_each(|key| cache.insert(key, block(2000)));
    let bytes = cache.bytes();
    for bytes_max in [fits(32), fits(4), fits(1)] {
        clocks(bytes_max);
        assert!(keys(0..500).all(|key| cache.get(&key).is_some()));
        assert_eq!(cache.bytes(), bytes);
        assert_eq!(cache.bytes() + cache.ghost_bytes(), budget.used(), "C1");
    }
    budget.set_limit(1 << 20);
    cache.shrink();
    assert!(cache.bytes() <= MemorySplit::of(1 << 20, &options()).cache_beside(0), "C2");
}
