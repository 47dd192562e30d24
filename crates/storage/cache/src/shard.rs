//! Some of the pairs, concatenated in pages, and the index to them.
//!
//! The oldest page is evicted; pairs in it that were read since they were put there are written to
//! the newest page again (a second chance). A page is released as a whole, and no bytes are lost
//! between sizes.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;

use arena::pieces::{Piece, Pool};
use hashbrown::HashTable;
use memory_budget::{Account, MemoryBudget};

/// Bytes of a page: an offset in one has 16 bits.
pub(crate) const PAGE_BYTES: usize = 16 << 10;
/// Pages, at most: a page's number has 16 bits, and one is written before another goes.
const PAGES_MAX: usize = u16::MAX as usize - 1;
/// Before a pair's key: since when it holds, two lengths, and whether it was read.
pub(crate) const HEAD_BYTES: usize = 8 + 2 + 2 + 1;
/// Offset in the head of the byte that says whether the pair was read.
const IS_READ_AT: usize = HEAD_BYTES - 1;

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Shard {
    /// The oldest first; the length of each is its filled part. None is empty.
    pages: VecDeque<Piece>,
    /// The number of the oldest; numbers wrap around.
    first: u16,
    index: HashTable<Place>,
    /// The source of pages. It counts them.
    pool: Pool,
    /// Counts the bytes that the shard takes besides pages.
    charge: Account,
    beside: u64,
}

/// The place of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    page: u16,
    offset: u16,
}

/// A pair in its page.
pub(crate) struct Pair<'a> {
    /// Since when it holds.
    pub(crate) since: u64,
    pub(crate) is_read: bool,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

impl Pair<'_> {
    fn bytes(&self) -> usize {
        HEAD_BYTES + self.key.len() + self.value.len()
    }
}

/// Returns the number of pages that fit into `bytes`.
pub(crate) fn pages_of(bytes: usize) -> usize {
    (bytes / PAGE_BYTES).min(PAGES_MAX)
}

impl Shard {
    pub(crate) fn new(budget: &Arc<MemoryBudget>, pool: &Pool) -> Self {
        Self {
            pages: VecDeque::new(),
            first: 0,
            index: HashTable::new(),
            pool: pool.clone(),
            charge: Account::new(budget),
            beside: 0,
        }
    }

    /// Since when the pair of `key` holds, if that is one of these numbers; its value is copied.
    pub(crate) fn get(
        &mut self,
        hash: u64,
        key: &[u8],
        holds_since: RangeInclusive<u64>,
        into: &mut Vec<u8>,
    ) -> Option<u64> {
        let Self { pages, first, index, .. } = self;
        let is_it = |place: &Place| pair(pages, *first, *place).is_some_and(|it| it.key == key);
        let place = *index.find(hash, is_it)?;
        let pair = pair(pages, *first, place).filter(|pair| holds_since.contains(&pair.since))?;
        into.clear();
        into.extend_from_slice(pair.value);
        let since = pair.since;
        let page = pages.get_mut(usize::from(place.page.wrapping_sub(*first)))?;
        *page.get_mut(usize::from(place.offset) + IS_READ_AT)? = 1;
        Some(since)
    }

    /// Returns since when the pair of `key` holds, if there is one.
    pub(crate) fn since(&self, hash: u64, key: &[u8]) -> Option<u64> {
        let pair_of = |place: &Place| pair(&self.pages, self.first, *place);
        let is_it = |place: &Place| pair_of(place).is_some_and(|it| it.key == key);
        self.index.find(hash, is_it).and_then(pair_of).map(|pair| pair.since)
    }

    /// Takes a key out of the index; its bytes go with their page.
    pub(crate) fn forget(&mut self, hash: u64, key: &[u8]) {
        let Self { pages, first, index, .. } = self;
        let is_it = |place: &Place| pair(pages, *first, *place).is_some_and(|it| it.key == key);
        if let Ok(found) = index.find_entry(hash, is_it) {
            found.remove();
        }
    }

    pub(crate) fn forget_all(&mut self) {
        self.pages.clear();
        self.index = HashTable::new();
    }

    /// Adds a pair whose key the index does not have.
    pub(crate) fn append(&mut self, own_hash: u64, new: &Pair<'_>) {
        let has_room = |page: &Piece| page.len() + new.bytes() <= PAGE_BYTES;
        if !self.pages.back().is_some_and(has_room) {
            let mut page = self.pool.take(PAGE_BYTES);
            page.set_len(0);
            self.pages.push_back(page);
        }
        let page = self.first.wrapping_add(self.pages.len() as u16).wrapping_sub(1);
        let Self { pages, first, index, .. } = self;
        let Some(last) = pages.back_mut() else { return };
        let place = Place { page, offset: last.len() as u16 };
        extend(last, &new.since.to_le_bytes());
        extend(last, &(new.key.len() as u16).to_le_bytes());
        extend(last, &(new.value.len() as u16).to_le_bytes());
        extend(last, &[u8::from(new.is_read)]);
        extend(last, new.key);
        extend(last, new.value);
        let of = |place: &Place| pair(pages, *first, *place).map_or(0, |pair| hash(pair.key));
        index.insert_unique(own_hash, place, of);
    }

    /// Evicts the oldest pages until the pages and the index take no more than `capacity`. Calls
    /// `gone` with each evicted pair's hash and its bytes.
    pub(crate) fn shrink(&mut self, capacity: usize, gone: &mut dyn FnMut(u64, usize)) {
        let pages = pages_of(capacity);
        while self.pages.len() > pages || self.memory() > capacity as u64 {
            let Some(oldest) = self.pages.pop_front() else {
                self.index = HashTable::new();
                return;
            };
            let number = self.first;
            self.first = number.wrapping_add(1);
            // All of them leave the index before any is added again: an index that grows looks at
            // every pair.
            let (mut offset, mut again) = (0, Vec::new());
            while let Some(old) = pair_at(&oldest, offset) {
                let place = Place { page: number, offset: offset as u16 };
                let hash = hash(old.key);
                if let Ok(found) = self.index.find_entry(hash, |it| *it == place) {
                    found.remove();
                    // With no page left there is nothing to be a newest one.
                    if old.is_read && pages > 0 {
                        again.push((offset, hash));
                    } else {
                        gone(hash, old.bytes());
                    }
                }
                offset += old.bytes();
            }
            for (offset, hash) in again {
                if let Some(old) = pair_at(&oldest, offset) {
                    self.append(hash, &Pair { is_read: false, ..old });
                }
            }
            if self.index.capacity() > 4 * self.index.len().max(64) {
                let Self { pages, first, index, .. } = self;
                let of = |place: &Place| {
                    pair(pages, *first, *place).map_or(0, |pair| self::hash(pair.key))
                };
                index.shrink_to_fit(of);
            }
        }
    }

    /// Makes the budget count the bytes that it takes now besides pages; returns them, and the
    /// previous ones.
    pub(crate) fn count(&mut self) -> (u64, u64) {
        let beside = self.beside_pages();
        self.charge.set(beside);
        (beside, std::mem::replace(&mut self.beside, beside))
    }

    /// Bytes of the pages and of the index.
    fn memory(&self) -> u64 {
        (self.pages.len() * PAGE_BYTES) as u64 + self.beside_pages()
    }

    /// Bytes of the index, and of the list of pages.
    fn beside_pages(&self) -> u64 {
        // An index is at most seven eighths full, and has a byte more for each place.
        let places = self.index.capacity() * 8 / 7;
        let of_pages = self.pages.len() * size_of::<Piece>();
        (of_pages + places * (size_of::<Place>() + 1)) as u64
    }

    /// Whether every place of the index has a pair, and is found by its key.
    #[cfg(test)]
    pub(crate) fn is_sound(&self) -> bool {
        self.index.iter().all(|place| {
            let pair = pair(&self.pages, self.first, *place);
            pair.is_some_and(|pair| {
                self.index.find(hash(pair.key), |other| other == place) == Some(place)
            })
        })
    }
}

pub(crate) fn hash(key: &[u8]) -> u64 {
    codec::hash64(0x70, key)
}

/// Adds bytes to a page, which has room for them.
fn extend(page: &mut Piece, bytes: &[u8]) {
    let len = page.len();
    page.set_len(len + bytes.len());
    if let Some(behind) = page.get_mut(len..) {
        behind.copy_from_slice(bytes);
    }
}

fn pair(pages: &VecDeque<Piece>, first: u16, place: Place) -> Option<Pair<'_>> {
    let page = pages.get(usize::from(place.page.wrapping_sub(first)))?;
    pair_at(page, usize::from(place.offset))
}

fn pair_at(page: &[u8], offset: usize) -> Option<Pair<'_>> {
    let (head, rest) = page.get(offset..)?.split_at_checked(HEAD_BYTES)?;
    let length = |at: usize| Some(u16::from_le_bytes(*head.get(at..)?.first_chunk()?));
    let since = u64::from_le_bytes(*head.first_chunk()?);
    let (key, rest) = rest.split_at_checked(usize::from(length(8)?))?;
    let value = rest.get(..usize::from(length(10)?))?;
    Some(Pair { since, is_read: head.last() == Some(&1), key, value })
}
