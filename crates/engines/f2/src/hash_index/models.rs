//! Models of the index, each a few threads and a few steps, for both checkers.
//!
//! The address of a chain is a number that only [`count_up`] changes, by one, so that a lost entry,
//! a second one, or a lost change shows in the sum. All chains are of one base bucket, with two
//! entries a line; the lowest bit of the tag says which half goes to bucket 1 when it is split.
//!
//! Every model runs in both [`Order`]s.

use std::sync::Arc;
use std::sync::atomic::AtomicBool as Unmodelled;

use sync::atomic::{AtomicU64, Ordering};
use sync::epoch::Epochs;
use sync::thread::yield_now;

use super::bucket::Bucket;
use super::entry::Entry;
use super::overflow::OverflowPool;
use super::{ChainId, HashIndex, Trimmed};
use crate::address::LogAddress;
use crate::checkers::{Order, run, together};
use crate::key_hash::KeyHash;

const STAYING: u16 = 2;
const MOVING: u16 = 1;
const ALSO_MOVING: u16 = 3;

fn chain(tag: u16) -> KeyHash {
    KeyHash::from_parts(0, tag)
}

/// An index of one bucket with these chains, each at 1.
fn index(tags: &[u16]) -> Arc<HashIndex> {
    let index = HashIndex::new(0);
    tags.iter().for_each(|&tag| count_up(&index, tag));
    Arc::new(index)
}

fn count_up(index: &HashIndex, tag: u16) {
    loop {
        let slot = index.find_or_create(chain(tag));
        if slot.compare_exchange(slot.address().plus(1)).is_ok() {
            return;
        }
    }
}

fn must_be_there(index: &HashIndex, tag: u16) -> u64 {
    index.find(chain(tag)).expect("the chain was there all the while").address().get()
}

fn double(index: &HashIndex) {
    assert!(index.grow(), "no other growth");
    split_all(index);
}

fn split_all(index: &HashIndex) {
    while index.split_some(1) {
        yield_now();
    }
}

/// When all threads have ended: every tag has one entry with this sum, and nothing else is left.
fn must_hold(index: &HashIndex, sums: &[(u16, u64)]) {
    let mut found = Vec::new();
    for number in 0..index.buckets() {
        let bucket = index.table.bucket(number);
        for place in index.lines(bucket, bucket.control()).flat_map(Bucket::entries) {
            let entry = Entry::load(place);
            if entry != Entry::FREE {
                assert!(entry.is_occupied(), "an entry is still tentative or moved");
                found.push((entry.tag(), entry.address().get()));
            }
        }
    }
    found.sort_unstable();
    let mut sums = sums.to_vec();
    sums.sort_unstable();
    assert_eq!(found, sums, "the entries differ from the inserted ones");
    for (tag, sum) in sums {
        assert_eq!(must_be_there(index, tag), sum);
    }
    assert_eq!(index.figures().entries, found.len() as u64);
}

/// Two inserters of one tag.
pub(super) fn twins(order: Order) {
    let index = index(&[]);
    let insert = |index: &HashIndex| count_up(index, MOVING);
    together(order, &index, insert, insert);
    must_hold(&index, &[(MOVING, 2)]);
}

/// Two inserters of one tag, while a slot before theirs is freed: they may take different slots.
pub(super) fn twins_in_different_slots(order: Order) {
    let index = index(&[STAYING]);
    let third = run(&index, |index| {
        let slot = index.find(chain(STAYING)).expect("made");
        assert!(index.retire(chain(STAYING), slot, LogAddress::new(2)));
    });
    let insert = |index: &HashIndex| count_up(index, MOVING);
    together(order, &index, insert, insert);
    third.join().expect("ends");
    must_hold(&index, &[(MOVING, 2)]);
}

/// Two inserters in a full bucket: both append an overflow bucket, one gets it linked.
pub(super) fn twins_that_overflow(order: Order) {
    let index = index(&[STAYING, ALSO_MOVING]);
    let insert = |index: &HashIndex| count_up(index, MOVING);
    together(order, &index, insert, insert);
    must_hold(&index, &[(STAYING, 1), (ALSO_MOVING, 1), (MOVING, 2)]);
    assert_eq!(index.figures().overflow_buckets, 1);
}

/// An inserter concurrent with a split that moves its half.
pub(super) fn insert_beside_split(order: Order) {
    let index = index(&[]);
    together(order, &index, double, |index| count_up(index, MOVING));
    must_hold(&index, &[(MOVING, 1)]);
}

/// Two inserters of one tag concurrent with a split; they may see different levels.
pub(super) fn twins_beside_split(order: Order) {
    let index = index(&[]);
    let third = run(&index, |index| count_up(index, MOVING));
    together(order, &index, double, |index| count_up(index, MOVING));
    third.join().expect("ends");
    must_hold(&index, &[(MOVING, 2)]);
}

/// A finder of an entry that moves, and one of an entry that stays.
pub(super) fn find_beside_split(order: Order) {
    let index = index(&[STAYING, MOVING]);
    together(order, &index, double, |index| {
        assert_eq!(must_be_there(index, MOVING), 1);
        assert_eq!(must_be_there(index, STAYING), 1);
    });
    must_hold(&index, &[(STAYING, 1), (MOVING, 1)]);
}

/// A finder concurrent with two doublings in sequence.
pub(super) fn find_beside_two_splits(order: Order) {
    let index = index(&[ALSO_MOVING]);
    let twice = |index: &HashIndex| {
        double(index);
        double(index);
    };
    together(order, &index, twice, |index| assert_eq!(must_be_there(index, ALSO_MOVING), 1));
    must_hold(&index, &[(ALSO_MOVING, 1)]);
}

/// One thread changes an entry that moves, and finds the value that it wrote.
pub(super) fn compare_exchange_beside_split(order: Order) {
    let index = index(&[MOVING]);
    together(order, &index, double, |index| {
        count_up(index, MOVING);
        assert_eq!(must_be_there(index, MOVING), 2);
    });
    must_hold(&index, &[(MOVING, 2)]);
}

/// One thread changes an entry that moves; another looks twice and never sees it return to an older
/// value.
pub(super) fn no_step_back_beside_split(order: Order) {
    let index = index(&[MOVING]);
    let third = run(&index, |index| count_up(index, MOVING));
    together(order, &index, double, |index| {
        let first = must_be_there(index, MOVING);
        assert!(must_be_there(index, MOVING) >= first, "an older record came back");
    });
    third.join().expect("ends");
    must_hold(&index, &[(MOVING, 2)]);
}

/// An entry is retired concurrently with a split: it is removed, or still there, in one place.
pub(super) fn retire_beside_split(order: Order) {
    let index = index(&[MOVING]);
    let retired = Arc::new(Unmodelled::new(false));
    let retires = retired.clone();
    together(order, &index, double, move |index| {
        let slot = index.find(chain(MOVING)).expect("made");
        let done = index.retire(chain(MOVING), slot, LogAddress::new(2));
        retires.store(done, std::sync::atomic::Ordering::Relaxed);
    });
    if retired.load(std::sync::atomic::Ordering::Relaxed) {
        must_hold(&index, &[]);
        count_up(&index, MOVING);
    }
    must_hold(&index, &[(MOVING, 1)]);
}

/// Scrubbing concurrent with a split finds the entry wherever it is.
pub(super) fn scrub_beside_split(order: Order) {
    let index = index(&[MOVING, STAYING]);
    together(order, &index, double, |index| {
        let mut from = Some(0);
        while let Some(bucket) = from {
            from = index.scrub(LogAddress::new(2), bucket, 1);
        }
    });
    must_hold(&index, &[]);
}

fn link_a_record(index: &HashIndex, record: &AtomicU64) {
    // After the entry is made: making it is a release of its own.
    let mut slot = index.find_or_create(chain(MOVING));
    record.store(7, Ordering::Relaxed);
    while slot.compare_exchange(LogAddress::new(1)).is_err() {
        slot = index.find_or_create(chain(MOVING));
    }
}

fn look_at_the_record(index: &HashIndex, record: &AtomicU64) {
    let found = index.find(chain(MOVING));
    if found.is_some_and(|slot| slot.address() != LogAddress::NONE) {
        assert_eq!(record.load(Ordering::Relaxed), 7, "the record is not whole");
    }
}

/// A thread that finds a record sees the data written to it before it was linked.
pub(super) fn record_behind_entry(order: Order) {
    let index = index(&[]);
    let record = Arc::new(AtomicU64::new(0));
    let written = record.clone();
    let write = move |index: &HashIndex| link_a_record(index, &written);
    together(order, &index, write, move |index| look_at_the_record(index, &record));
    must_hold(&index, &[(MOVING, 1)]);
}

/// The same if a split moves the entry.
pub(super) fn record_behind_moved_entry(order: Order) {
    let index = index(&[]);
    let record = Arc::new(AtomicU64::new(0));
    let written = record.clone();
    let write = move |index: &HashIndex| link_a_record(index, &written);
    together(order, &index, write, move |index| {
        double(index);
        look_at_the_record(index, &record);
    });
    must_hold(&index, &[(MOVING, 1)]);
}

/// A walk concurrent with a split meets all chains that were there, in order, once.
pub(super) fn walk_beside_split(order: Order) {
    let index = index(&[STAYING, MOVING]);
    together(order, &index, double, |index| {
        let mut met: Vec<ChainId> = Vec::new();
        while let Some((id, _)) = index.next_chain(met.last().copied()) {
            met.push(id);
        }
        assert!(met.is_sorted_by(|a, b| a < b), "not in order");
        for tag in [STAYING, MOVING] {
            let met = met.iter().filter(|id| id.chain().tag == tag).count();
            assert_eq!(met, 1, "a chain was met {met} times");
        }
    });
    must_hold(&index, &[(STAYING, 1), (MOVING, 1)]);
}

/// Trims all buckets.
fn take_out(index: &HashIndex) -> Trimmed {
    let mut trimmed = Trimmed::default();
    index.trim(0, index.buckets(), &mut trimmed);
    trimmed
}

/// The same, and returns the removed buckets to the pool once no thread is protected any more.
fn trim(index: &Arc<HashIndex>, epochs: &Epochs) {
    let guard = epochs.protect();
    let trimmed = take_out(index);
    drop(guard);
    let index = Arc::clone(index);
    trimmed.when_unseen(epochs, move |trimmed| index.release_trimmed(trimmed));
}

/// The same if no other thread is left.
fn trim_alone(index: &HashIndex) {
    index.release_trimmed(take_out(index));
}

fn retire(index: &HashIndex, tag: u16) {
    let slot = index.find(chain(tag)).expect("made");
    assert!(index.retire(chain(tag), slot, LogAddress::new(2)));
}

/// Checks, when all threads have ended and all trimmed buckets are in the pool, that no overflow
/// bucket is in use except those in the chains.
fn must_have_lines(index: &HashIndex, lines: u64) {
    let linked = (0..index.buckets()).map(|number| {
        let bucket = index.table.bucket(number);
        index.lines(bucket, bucket.control()).count() as u64 - 1
    });
    assert_eq!(linked.sum::<u64>(), lines, "chains have other overflow buckets");
    assert_eq!(index.figures().overflow_buckets, lines, "overflow buckets are lost");
}

/// An inserter that finds its slot in an overflow bucket, concurrent with a trim that takes the
/// bucket out.
pub(super) fn insert_beside_trim(order: Order) {
    let index = index(&[STAYING, ALSO_MOVING, MOVING]);
    retire(&index, MOVING);
    let (taken, ()) = together(order, &index, take_out, |index| count_up(index, MOVING));
    index.release_trimmed(taken);
    must_hold(&index, &[(STAYING, 1), (ALSO_MOVING, 1), (MOVING, 1)]);
    must_have_lines(&index, 1);
}

/// An inserter that finds all lines full, and appends one, concurrent with a trim that takes the
/// last line out.
pub(super) fn append_beside_trim(order: Order) {
    let index = index(&[STAYING, ALSO_MOVING, MOVING, 5]);
    let take = |index: &HashIndex| {
        retire(index, MOVING);
        retire(index, 5);
        take_out(index)
    };
    let (taken, ()) = together(order, &index, take, |index| count_up(index, 7));
    index.release_trimmed(taken);
    must_hold(&index, &[(STAYING, 1), (ALSO_MOVING, 1), (7, 1)]);
    trim_alone(&index);
    must_have_lines(&index, 1);
}

/// A finder of an entry behind a line that is taken out, and immediately used in another bucket.
pub(super) fn find_beside_trim(order: Order) {
    let index = HashIndex::new(1);
    let other = |tag: u16| KeyHash::from_parts(1, tag);
    for tag in [STAYING, ALSO_MOVING, 5, 7, MOVING] {
        count_up(&index, tag);
    }
    for tag in [STAYING, ALSO_MOVING] {
        index.find_or_create(other(tag));
    }
    retire(&index, 5);
    retire(&index, 7);
    let shared = Arc::new((Arc::new(index), Epochs::new()));
    let reuse = move |(index, epochs): &(Arc<HashIndex>, Epochs)| {
        trim(index, epochs);
        let _guard = epochs.protect();
        index.find_or_create(other(MOVING));
    };
    together(order, &shared, reuse, |(index, epochs)| {
        let _guard = epochs.protect();
        assert_eq!(must_be_there(index, MOVING), 1);
    });
    assert!(shared.0.find(other(MOVING)).is_some());
}

/// A split concurrent with a trim: whichever is first, the other finds it done.
pub(super) fn trim_beside_split(order: Order) {
    let index = index(&[STAYING, ALSO_MOVING, MOVING, 5]);
    retire(&index, 5);
    retire(&index, MOVING);
    let (taken, ()) = together(order, &index, take_out, double);
    index.release_trimmed(taken);
    must_hold(&index, &[(STAYING, 1), (ALSO_MOVING, 1)]);
    trim_alone(&index);
    must_have_lines(&index, 0);
}

/// Two threads take overflow buckets and return them; the buckets that they hold in the end are not
/// shared.
pub(super) fn pool(_: Order) {
    let pool = Arc::new(OverflowPool::new());
    let juggle = |pool: &OverflowPool| {
        let (first, second) = (pool.take().0, pool.take().0);
        pool.release(first);
        pool.release(second);
        [pool.take().0, pool.take().0]
    };
    let other = run(&pool, juggle);
    let mut held = juggle(&pool).to_vec();
    held.extend(other.join().expect("ends"));
    held.sort_unstable();
    held.dedup();
    assert_eq!(held.len(), 4, "two hold the same overflow bucket");
    assert_eq!(pool.used(), 4);
}

/// Too large for loom: two threads split while a bucket is so full that both halves overflow or
/// nearly so.
#[cfg(shuttle)]
pub(super) fn two_splitters(order: Order) {
    let index = index(&[MOVING, ALSO_MOVING, 5, STAYING]);
    let helper = run(&index, split_all);
    together(order, &index, double, |index| count_up(index, 5));
    helper.join().expect("ends");
    must_hold(&index, &[(MOVING, 1), (ALSO_MOVING, 1), (5, 2), (STAYING, 1)]);
}

/// Too large for loom: three writers over six chains, a finder and a walker, concurrent with two
/// doublings.
#[cfg(shuttle)]
pub(super) fn crowd(order: Order) {
    const TAGS: [u16; 6] = [0, 1, 2, 3, 5, 7];
    let index = index(&TAGS[..4]);
    let write = |index: &HashIndex| TAGS.iter().for_each(|&tag| count_up(index, tag));
    let finder = run(&index, |index| {
        for tag in TAGS[..4].iter().chain(&TAGS[..4]) {
            must_be_there(index, *tag);
        }
    });
    let walker = run(&index, |index| {
        let mut met = Vec::new();
        while let Some((id, _)) = index.next_chain(met.last().copied()) {
            met.push(id);
        }
        let old = met.iter().filter(|id| TAGS[..4].contains(&id.chain().tag)).count();
        assert_eq!(old, 4, "a walk has not met every chain once");
    });
    let grower = run(&index, |index| {
        double(index);
        double(index);
    });
    let writer = run(&index, write);
    together(order, &index, write, write);
    for thread in [finder, walker, grower, writer] {
        thread.join().expect("ends");
    }
    must_hold(&index, &TAGS.map(|tag| (tag, if tag < 4 { 4 } else { 3 })));
}
