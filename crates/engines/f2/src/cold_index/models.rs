//! Models of the directory, for both checkers: readers, changers and a doubling, each a few steps.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p thermocline-f2 --profile models --lib \
//!     --target-dir target/loom cold_index
//! ```
//!
//! The chunk log is an array of words that are written once: which chunk it is, and which of four
//! entries it has. There is one base chunk; the uppermost bit of an entry's tag says which half it
//! goes to. Every model runs in both [`Order`]s.

use std::sync::Arc;

use sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::chunk::{Name, Prefix, TAG_BITS};
use super::directory::{Directory, Word};
use crate::address::LogAddress;
use crate::checkers::{self, Order, together};
use crate::planted::Planted;

/// Versions of chunks that one model writes at most.
const RECORDS: usize = 10;

struct Index {
    directory: Directory,
    records: [AtomicU64; RECORDS],
    next: AtomicUsize,
}

/// One of four entries: the lower half has 0 and 1, the upper half 2 and 3.
fn prefix(entry: u32) -> Prefix {
    Prefix(entry << (TAG_BITS - 2))
}

const fn record(name: Name, entries: u64) -> u64 {
    1 << 63 | name.word() << 8 | entries
}

fn name_of(record: u64) -> u64 {
    (record & !(1 << 63)) >> 8
}

/// Those of `entries` that belong to a chunk.
fn part(entries: u64, name: Name) -> u64 {
    let is_of = |entry: &u32| prefix(*entry).name(name.level) == name;
    (0..4).filter(is_of).fold(0, |part, entry| part | entries & 1 << entry)
}

impl Index {
    fn new(entries: &[u32]) -> Arc<Self> {
        let index = Self {
            directory: Directory::new(),
            records: std::array::from_fn(|_| AtomicU64::new(0)),
            next: AtomicUsize::new(0),
        };
        entries.iter().for_each(|entry| index.put(*entry));
        Arc::new(index)
    }

    /// The entries of the chunk that a prefix belongs to.
    fn read(&self, prefix: Prefix, word: Word) -> u64 {
        if word == Word::NONE {
            return 0;
        }
        let slot = word.address().get() as usize / 16 - 1;
        let record = self.records[slot].load(Ordering::Relaxed);
        assert_ne!(record, 0, "the chunk is not whole");
        let covers = (0..=2).any(|level| prefix.name(level).word() == name_of(record));
        assert!(covers, "a chunk stands in the place of another");
        record & 0xf
    }

    fn has(&self, entry: u32) -> bool {
        let (_, word) = self.directory.find(prefix(entry));
        self.read(prefix(entry), word) & 1 << entry != 0
    }

    fn must_have(&self, entry: u32) {
        assert!(self.has(entry), "entry {entry} was there all the while");
    }

    fn put(&self, entry: u32) {
        loop {
            let (name, word) = self.directory.find(prefix(entry));
            let entries = part(self.read(prefix(entry), word), name) | 1 << entry;
            let changer = self.directory.changer();
            if !changer.has_level(name) {
                continue;
            }
            let slot = self.next.fetch_add(1, Ordering::Relaxed);
            self.records[slot].store(record(name, entries), Ordering::Relaxed);
            let at = LogAddress::new((slot as u64 + 1) * 16);
            if changer.replace(name, word, Word::new(at, 1)) {
                return;
            }
        }
    }

    fn double(&self) {
        let level = self.directory.level();
        assert!(self.directory.double(level), "no other doubling");
    }
}

/// A reader concurrent with a doubling and a change of one half.
fn reader_beside_a_doubling(order: Order) {
    let index = Index::new(&[0, 2]);
    let double_and_put = |index: &Index| {
        index.double();
        index.put(1);
    };
    together(order, &index, double_and_put, |index| index.must_have(2));
    (0..3).for_each(|entry| index.must_have(entry));
    assert!(!index.has(3));
}

/// A thread that finds a chunk sees its content.
fn reader_beside_a_change(order: Order) {
    let index = Index::new(&[0]);
    together(order, &index, |index| index.put(1), |index| index.must_have(0));
    index.must_have(1);
}

/// A thread that knows of a level finds its words.
fn reader_beside_two_doublings(order: Order) {
    let index = Index::new(&[0, 3]);
    let double_twice = |index: &Index| {
        index.double();
        index.double();
    };
    together(order, &index, double_twice, |index| index.must_have(3));
    index.must_have(0);
}

/// Two change one chunk; neither change is lost.
fn two_changers(order: Order) {
    let index = Index::new(&[0]);
    together(order, &index, |index| index.put(1), |index| index.put(2));
    (0..3).for_each(|entry| index.must_have(entry));
}

/// One thread changes a chunk that is being split; both halves keep their entries.
fn changer_beside_a_doubling(order: Order) {
    let index = Index::new(&[1, 2]);
    together(order, &index, Index::double, |index| index.put(3));
    (1..4).for_each(|entry| index.must_have(entry));
    index.put(0);
    (0..4).for_each(|entry| index.must_have(entry));
}

fn check(name: &str, model: fn(Order)) {
    checkers::explore_orders(name, 8, model);
}

fn must_be_found(bug: Planted, how: &str, model: fn(Order)) {
    checkers::must_be_found(bug, how, || check(&format!("{bug:?}"), model));
}

#[test]
fn a_reader_beside_a_doubling_misses_nothing() {
    check("a_reader_beside_a_doubling_misses_nothing", reader_beside_a_doubling);
}

#[test]
fn a_reader_beside_a_change_sees_whole_chunks() {
    check("a_reader_beside_a_change_sees_whole_chunks", reader_beside_a_change);
}

#[test]
fn a_reader_beside_two_doublings_misses_nothing() {
    check("a_reader_beside_two_doublings_misses_nothing", reader_beside_two_doublings);
}

#[test]
fn of_two_changes_none_is_lost() {
    check("of_two_changes_none_is_lost", two_changers);
}

#[test]
fn a_change_beside_a_doubling_loses_nothing() {
    check("a_change_beside_a_doubling_loses_nothing", changer_beside_a_doubling);
}

#[test]
fn a_reader_without_a_second_look_is_found() {
    must_be_found(Planted::NoSecondLookAtLevel, "", reader_beside_a_doubling);
}

#[test]
fn a_change_without_a_look_at_the_level_is_found() {
    must_be_found(Planted::NoLookAtLevelToChange, "", changer_beside_a_doubling);
}

#[test]
fn a_change_without_a_comparison_is_found() {
    must_be_found(Planted::ChangeWithoutCompare, "was there all the while", two_changers);
}

#[cfg(loom)]
mod orders {
    //! Bugs that only a weaker memory than shuttle's shows.

    use super::{Planted, must_be_found, reader_beside_a_change, reader_beside_two_doublings};

    #[test]
    fn a_change_without_release_is_found() {
        must_be_found(Planted::RelaxedChange, "not whole", reader_beside_a_change);
    }

    #[test]
    fn a_doubling_without_release_is_found() {
        must_be_found(Planted::RelaxedDoubling, "", reader_beside_two_doublings);
    }
}
