//! The keys that a memtable may have, so that most gets of other keys need no search.
//!
//! For most keys that the memtable does not have, a get reads one word here. A get looks into up to
//! three memtables before anything else.
//!
//! Each key sets some bits of one word (a Bloom filter of blocks of a word, [`bloom_place`]). No
//! bit is ever cleared, so a key whose versions were removed costs a search.
//!
//! # Concurrency
//! A writer sets the bits before its entry can be found. So a thread that knows of the entry,
//! because it has seen it or because the write has returned, sees the bits as well; no other thread
//! has to.

use std::sync::Arc;

use codec::{bloom_place, hash64};
use sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::allocated::allocated_bytes;
use memory_budget::{Account, Charge};

/// Part of the budget (one in this many) that the filter takes: a word for some five to eight pairs
/// of a usual memtable, which is a sixteenth of the budget.
const BUDGET_PARTS: u64 = 2048;
const WORDS_MIN: u64 = 8;
const WORDS_MAX: u64 = 1 << 15;

/// See the file's head.
#[derive(Debug)]
pub(super) struct Filter {
    words: Box<[AtomicU64]>,
    _charge: Charge,
}

impl Filter {
    /// A filter of a memtable under a budget of `budget_bytes` bytes.
    pub(super) fn new(budget_bytes: u64, account: &Arc<Account>) -> Self {
        let words = budget_bytes / BUDGET_PARTS / size_of::<AtomicU64>() as u64;
        let words = words.clamp(WORDS_MIN, WORDS_MAX) as usize;
        let words: Box<[AtomicU64]> = (0..words).map(|_| AtomicU64::new(0)).collect();
        let charge = account.charge(allocated_bytes(size_of_val(&*words)));
        Self { words, _charge: charge }
    }

    /// The word of a key, and its bits.
    fn place(&self, key: &[u8]) -> (Option<&AtomicU64>, u64) {
        let (word, bits) = bloom_place(hash64(0, key), self.words.len());
        (self.words.get(word), bits)
    }

    /// Notes a key that comes.
    pub(super) fn add(&self, key: &[u8]) {
        let (word, bits) = self.place(key);
        if let Some(word) = word.filter(|word| word.load(Relaxed) & bits != bits) {
            word.fetch_or(bits, Relaxed);
        }
    }

    /// Whether the memtable may have a key.
    pub(super) fn may_have(&self, key: &[u8]) -> bool {
        let (word, bits) = self.place(key);
        word.is_none_or(|word| word.load(Relaxed) & bits == bits)
    }
}
