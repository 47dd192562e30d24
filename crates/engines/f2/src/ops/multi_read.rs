//! Many reads in one call, so that reads of the disk overlap.
//!
//! 1. Some keys are looked up in memory; the values that are found there are reported immediately.
//! 2. The others become lookups in flight. When the flight is full, or there are no more keys, the
//!    lookups that complete are reported.

use engine::Result;

use crate::address::LogAddress;
use crate::key_hash::KeyHash;
use crate::ops::look_up::flight::{Fetcher, Flight, Purpose};
use crate::ops::look_up::{Beyond, InMemory, LookUp, Progress};
use crate::store::Shared;

use memory_budget::Account;
/// Lookups under way at the same time.
const DEPTH: usize = 128;
/// Queues that are kept for the next callers.
const SPARE_MAX: usize = 4;
/// Most lookups of a queue: more keep no device busier.
pub(crate) const DEPTH_MAX: usize = 4096;
/// Keys that are looked up in memory under one protection, fewer if their values are long.
const KEYS_AT_ONCE: usize = 64;
/// Keys of a protection whose misses of the processor's caches overlap.
const KEYS_WARMED_AT_ONCE: usize = 16;
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// A callback for each key: its index, and its value if it has one.
type Tell<'a> = dyn FnMut(usize, Option<&[u8]>) + 'a;

/// One of the keys.
struct Numbered<'k> {
    index: usize,
    key: &'k [u8],
}

impl Purpose for Numbered<'_> {
    fn key(&self) -> &[u8] {
        self.key
    }
}

/// The results of a search for some keys in memory.
#[derive(Default)]
struct Answers {
    values: Vec<u8>,
    /// For each key the end of its value among the values, if it has one.
    known: Vec<(usize, Option<usize>)>,
    beyond: Vec<(usize, KeyHash, Beyond)>,
}

impl Shared {
    /// Reads `keys`; `tell` is called once for each, in any order.
    pub(crate) fn multi_get(&self, keys: &[&[u8]], tell: &mut Tell<'_>) -> Result<()> {
        self.health.check_open()?;
        let mut answers = Answers::default();
        let mut flight: Option<Flight<Numbered<'_>>> = None;
        let mut scratch = Vec::new();
        let mut asked = 0;
        while asked < keys.len() {
            asked = self.ask_memory(keys, asked, &mut scratch, &mut answers);
            // Called once this thread is not protected any more: `tell` may do anything.
            answers.tell(tell);
            for (index, hash, beyond) in answers.beyond.drain(..) {
                let key = keys[index];
                let mut look_up = LookUp::new(hash, beyond, true);
                match look_up.start(self, key, &mut scratch)? {
                    Progress::Value(value) => tell(index, Some(value)),
                    Progress::Absent => tell(index, None),
                    Progress::Read => {
                        let flight = match &mut flight {
                            Some(flight) => flight,
                            None => flight.insert(Flight::new(self.fetcher()?)),
                        };
                        if flight.is_full() {
                            self.tell_some(flight, tell)?;
                        }
                        flight.begin(look_up, Numbered { index, key });
                    }
                }
            }
        }
        let Some(mut flight) = flight else { return Ok(()) };
        while flight.len() > 0 {
            self.tell_some(&mut flight, tell)?;
        }
        let mut spare = self.fetchers.lock();
        if spare.len() < SPARE_MAX {
            spare.extend(flight.into_fetcher());
        }
        Ok(())
    }

    /// Looks up some keys from number `first` on in memory, and returns the number of the next.
    fn ask_memory(
        &self,
        keys: &[&[u8]],
        first: usize,
        scratch: &mut Vec<u8>,
        answers: &mut Answers,
    ) -> usize {
        let _guard = self.epochs.protect();
        let end = keys.len().min(first + KEYS_AT_ONCE);
        for begin in (first..end).step_by(KEYS_WARMED_AT_ONCE) {
            let some = &keys[begin..end.min(begin + KEYS_WARMED_AT_ONCE)];
            let mut hashes = [KeyHash::default(); KEYS_WARMED_AT_ONCE];
            let hashes = &mut hashes[..some.len()];
            hashes.iter_mut().zip(some).for_each(|(hash, key)| *hash = self.hash(key));
            if some.len() > 1 {
                self.warm(hashes);
            }
            for (index, (key, hash)) in (begin..).zip(some.iter().zip(&*hashes)) {
                if answers.values.len() >= ANSWER_BYTES_MAX {
                    return index;
                }
                match self.look_in_memory(*hash, key, LogAddress::NONE, scratch) {
                    InMemory::Value => {
                        answers.values.extend_from_slice(scratch);
                        answers.known.push((index, Some(answers.values.len())));
                    }
                    InMemory::Tombstone => answers.known.push((index, None)),
                    InMemory::Beyond(beyond) => answers.beyond.push((index, *hash, beyond)),
                }
            }
        }
        end
    }

    /// Waits for some lookups and reports their results.
    fn tell_some(&self, flight: &mut Flight<Numbered<'_>>, tell: &mut Tell<'_>) -> Result<()> {
        let mut outcome = Ok(());
        flight.complete(self, true, &mut |numbered, found| {
            match found {
                Ok(value) => tell(numbered.index, value),
                Err(error) => outcome = Err(error),
            }
            None
        })?;
        outcome
    }

    /// A queue that no thread uses.
    fn fetcher(&self) -> Result<Fetcher> {
        let spare = self.fetchers.lock().pop();
        spare.map_or_else(|| self.new_fetcher(DEPTH), Ok)
    }

    /// A queue for `depth` concurrent lookups.
    pub(crate) fn new_fetcher(&self, depth: usize) -> Result<Fetcher> {
        let charge = Account::new(&self.host.memory);
        let depth = depth.clamp(1, DEPTH_MAX);
        Ok(Fetcher::new(self.host.device.queue(depth)?, depth, charge))
    }
}

impl Answers {
    fn tell(&mut self, tell: &mut Tell<'_>) {
        let mut begin = 0;
        for (index, end) in self.known.drain(..) {
            let value = end.and_then(|end| self.values.get(begin..end));
            begin = end.unwrap_or(begin);
            tell(index, value);
        }
        self.values.clear();
        self.values.shrink_to(ANSWER_BYTES_MAX);
    }
}
