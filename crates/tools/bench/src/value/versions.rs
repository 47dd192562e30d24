//! Which version of a key a read may return: an exact table, one word a key.
//!
//! 1. A writer publishes in its slot which key it writes, then takes the key's next version
//!    ([`Versions::begin`]), and notes the oldest version then in flight on the key.
//! 2. It writes to the store. Once acknowledged ([`Versions::acknowledge`]), every version below
//!    that oldest one has been overwritten by a write that began after it was acknowledged: the
//!    key's *floor* rises to it. Mostly no other write is in flight, and the floor becomes the
//!    version just written.
//! 3. A reader notes the floor before it asks ([`Versions::before`]); what it gets must be at least
//!    that, and at most the newest version begun when it has it ([`Versions::check`]).
//!
//! # Invariants
//! - I1. No version below the floor may be returned to a read that begins now.
//! - I2. A key whose `may_be_absent` bit is clear and whose floor is above 0 is not absent.
//!
//! # Concurrency
//! One atomic word a key: newest version begun (32 bits), floor as a distance behind it (20),
//! writers in flight (11), `may_be_absent` (1). A slot is published before the writer enters the
//! word and cleared after it left. So a thread that sees a writer in the word finds it in a slot,
//! or it has been acknowledged meanwhile, before that thread's own write begins.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

use super::Fault;

/// Keys in a chunk of the table; chunks are made when first needed.
const CHUNK_KEYS: u64 = 1 << 18;
const LAG_BITS: u32 = 20;
const WRITERS_BITS: u32 = 11;
/// A lag of this or more: the floor is unknown, hence 0.
const LAG_UNKNOWN: u32 = (1 << LAG_BITS) - 1;
/// Writers that can be in flight at the same time.
pub(crate) const WRITERS_MAX: usize = (1 << WRITERS_BITS) - 1;
const NO_KEY: u64 = u64::MAX;
/// A slot whose writer has not taken its version yet.
const PENDING: u64 = 0;

/// The versions of all keys of a run, shared by its threads.
#[derive(Debug)]
pub struct Versions {
    chunks: Box<[OnceLock<Box<[AtomicU64]>>]>,
    writers: Box<[CachePadded<Slot>]>,
}

#[derive(Debug)]
struct Slot {
    key: AtomicU64,
    version: AtomicU64,
}

#[derive(Clone, Copy)]
struct Word {
    newest: u32,
    lag: u32,
    writers: u32,
    may_be_absent: bool,
}

/// A write in flight.
#[derive(Debug)]
#[must_use = "a write that is not acknowledged keeps its key's floor where it is"]
pub struct Write {
    number: u64,
    oldest: u32,
    delete: bool,
    /// The version that the value carries.
    pub version: u32,
}

/// A reader's knowledge before its read.
#[derive(Clone, Copy, Debug)]
pub struct Before {
    floor: u32,
}

impl Versions {
    /// Makes a table for keys numbered up to `keys_max`, for `writers` writers, each with one write
    /// in flight. The words of the first `keys` numbers are allocated and touched here, so that
    /// they are not charged to any memory limit that is entered later: 8 bytes a key.
    pub fn new(keys: u64, keys_max: u64, writers: usize) -> Self {
        assert!(writers <= WRITERS_MAX, "at most {WRITERS_MAX} writers");
        let chunks = keys_max.max(keys).div_ceil(CHUNK_KEYS).max(1);
        let chunks = (0..chunks).map(|_| OnceLock::new()).collect();
        let table = Self { chunks, ..Self::content_only(writers) };
        for number in (0..keys).step_by(CHUNK_KEYS as usize) {
            table.word(number);
        }
        table
    }

    /// Returns a placeholder that tracks no key: it hands out versions, and accepts every result.
    pub fn content_only(writers: usize) -> Self {
        assert!(writers <= WRITERS_MAX, "at most {WRITERS_MAX} writers");
        let slot = || Slot { key: AtomicU64::new(NO_KEY), version: AtomicU64::new(PENDING) };
        let writers = (0..writers).map(|_| CachePadded::new(slot())).collect();
        Self { chunks: Box::default(), writers }
    }

    /// Returns whether the age of a value that is read is checked.
    pub fn is_exact(&self) -> bool {
        !self.chunks.is_empty()
    }

    /// Bytes that the table holds now.
    pub fn bytes(&self) -> u64 {
        let chunks = self.chunks.iter().filter(|chunk| chunk.get().is_some()).count() as u64;
        chunks * CHUNK_KEYS * 8
    }

    /// Takes the next version of key `number` for a write by `writer`, which has none in flight.
    ///
    /// # Panics
    /// A key has had 2^32 - 1 versions.
    pub fn begin(&self, writer: usize, number: u64, delete: bool) -> Write {
        let slot = &self.writers[writer];
        if !self.is_exact() {
            let version = slot.version.load(Ordering::Relaxed).wrapping_add(1);
            slot.version.store(version, Ordering::Relaxed);
            return Write { number, oldest: 0, delete, version: version as u32 };
        }
        slot.version.store(PENDING, Ordering::Relaxed);
        slot.key.store(number, Ordering::Relaxed);
        let mut others = 0;
        let version = update(self.word(number), |word| {
            others = word.writers;
            word.newest = word.newest.checked_add(1).expect("a key had 2^32 - 1 versions");
            word.lag = (word.lag + 1).min(LAG_UNKNOWN);
            word.writers += 1;
            word.may_be_absent |= delete;
        })
        .newest;
        let oldest =
            if others == 0 { version } else { self.oldest_in_flight(writer, number, version) };
        slot.version.store(u64::from(version), Ordering::Release);
        Write { number, oldest, delete, version }
    }

    /// Records that the store has acknowledged `write`, which `writer` had begun.
    pub fn acknowledge(&self, writer: usize, write: Write) {
        if !self.is_exact() {
            return;
        }
        update(self.word(write.number), |word| {
            word.writers -= 1;
            let floor = word.floor().max(write.oldest);
            // Floor 0 is "unknown" or "never written", and stays a lag beyond any version.
            if floor > 0 {
                word.lag = (word.newest - floor).min(LAG_UNKNOWN);
            }
            if word.lag == 0 {
                word.may_be_absent = write.delete;
            }
        });
        self.writers[writer].key.store(NO_KEY, Ordering::Release);
    }

    /// Returns the known state of key `number` before a read of it begins.
    pub fn before(&self, number: u64) -> Before {
        if !self.is_exact() {
            return Self::anytime();
        }
        Before { floor: Word::from(self.word(number).load(Ordering::Acquire)).floor() }
    }

    /// Checks whether version `read` (`None`: absent) of key `number` may be the result of a read
    /// that began at `before`.
    ///
    /// # Errors
    /// [`Fault::Stale`], [`Fault::Unwritten`] or [`Fault::Lost`].
    pub fn check(&self, number: u64, before: Before, read: Option<u32>) -> Result<(), Fault> {
        if !self.is_exact() {
            return Ok(());
        }
        let word = Word::from(self.word(number).load(Ordering::Acquire));
        let Before { floor } = before;
        match read {
            Some(version) if version < floor => Err(Fault::Stale { version, floor }),
            Some(version) if version > word.newest || version == 0 => {
                Err(Fault::Unwritten { version, newest: word.newest })
            }
            // If a delete was the newest acknowledged write when the read began, or if one has
            // begun since, the bit is set. It may also be set and cleared again in between, which
            // shows as a floor that has risen.
            None if floor > 0 && !word.may_be_absent && word.floor() == floor => {
                Err(Fault::Lost { floor })
            }
            _ => Ok(()),
        }
    }

    /// The words of the first `keys` numbers, when no write is in flight. None if no key is
    /// tracked.
    pub fn words(&self, keys: u64) -> Option<Vec<u64>> {
        let of = |number| self.word(number).load(Ordering::Acquire);
        self.is_exact().then(|| (0..keys).map(of).collect())
    }

    /// Takes the [`Versions::words`] of another table: a store that was filled under that one is
    /// read under this one.
    pub fn restore(&self, words: &[u64]) {
        if !self.is_exact() {
            return;
        }
        for (number, &word) in (0..).zip(words) {
            self.word(number).store(word, Ordering::Release);
        }
    }

    /// How many of the first `keys` numbers have been written; all of them if no key is tracked.
    pub fn written(&self, keys: u64) -> u64 {
        let is_written =
            |&number: &u64| Word::from(self.word(number).load(Ordering::Acquire)).newest > 0;
        if self.is_exact() { (0..keys).filter(is_written).count() as u64 } else { keys }
    }

    /// Returns the knowledge of a read that begins before any write: any version begun will do.
    pub fn anytime() -> Before {
        Before { floor: 0 }
    }

    /// The oldest version of `number` that any writer has in flight; 0 if one is about to take its.
    fn oldest_in_flight(&self, writer: usize, number: u64, version: u32) -> u32 {
        let mut oldest = version;
        for (index, slot) in self.writers.iter().enumerate() {
            if index != writer && slot.key.load(Ordering::Acquire) == number {
                // `PENDING` is 0 and makes the oldest unknown.
                oldest = oldest.min(slot.version.load(Ordering::Acquire) as u32);
            }
        }
        oldest
    }

    fn word(&self, number: u64) -> &AtomicU64 {
        let chunk = self.chunks[(number / CHUNK_KEYS) as usize].get_or_init(|| {
            let words: Box<[AtomicU64]> =
                (0..CHUNK_KEYS).map(|_| AtomicU64::new(Word::NEW.pack())).collect();
            words
        });
        &chunk[(number % CHUNK_KEYS) as usize]
    }
}

impl Word {
    const NEW: Self = Self { newest: 0, lag: LAG_UNKNOWN, writers: 0, may_be_absent: true };

    fn floor(self) -> u32 {
        if self.lag >= LAG_UNKNOWN { 0 } else { self.newest - self.lag }
    }

    const fn pack(self) -> u64 {
        (self.newest as u64)
            | (self.lag as u64) << 32
            | (self.writers as u64) << (32 + LAG_BITS)
            | (self.may_be_absent as u64) << 63
    }
}

impl From<u64> for Word {
    fn from(packed: u64) -> Self {
        Self {
            newest: packed as u32,
            lag: (packed >> 32) as u32 & LAG_UNKNOWN,
            writers: (packed >> (32 + LAG_BITS)) as u32 & WRITERS_MAX as u32,
            may_be_absent: packed >> 63 == 1,
        }
    }
}

/// Changes a word atomically, and returns what it became.
fn update(word: &AtomicU64, mut change: impl FnMut(&mut Word)) -> Word {
    let mut seen = word.load(Ordering::Relaxed);
    loop {
        let mut next = Word::from(seen);
        change(&mut next);
        match word.compare_exchange_weak(seen, next.pack(), Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return next,
            Err(now) => seen = now,
        }
    }
}
