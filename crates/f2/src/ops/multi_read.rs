//! Many reads at once, so that those which need the disk overlap.
//!
//! 1. Every key is looked for in memory; what is found there is answered at once.
//! 2. The others' reads go to a queue of the device, as many as it takes; each completion either
//!    answers its key, or asks for the next record of its chain.
//! 3. With a single log, a key that seems absent is looked for anew if the log was truncated
//!    meanwhile; with two, all that seem absent are looked for in the cold one [O3].

use std::sync::atomic::Ordering::Acquire;

use device::{Buffer, Completion, Queue, Request, Work};
use engine::Result;

use crate::address::LogAddress;
use crate::hybrid_log::{Fetched, RecordRead};
use crate::ops::Found;
use crate::read_cache::Seen;
use crate::record::Read;
use crate::store::Shared;

/// Reads in flight at once.
const DEPTH: usize = 64;
/// Longer buffers are not kept.
const SPARE_BYTES_MAX: usize = 16 << 10;
/// Keys looked for in memory before the epoch is refreshed.
const KEYS_AT_ONCE: usize = 64;

/// What is told of each key: its index, and its value if it has one.
type Tell<'a> = dyn FnMut(usize, Option<&[u8]>) + 'a;

/// The index of a key that the hot log has nothing of, and its chain as it was looked up.
pub(super) type Absent<'a> = (usize, Seen<'a>);

/// A queue of the device and buffers for it, kept from one call to the next.
pub(crate) struct Fetcher {
    queue: Box<dyn Queue>,
    spare: Vec<Buffer>,
    completions: Vec<Completion>,
}

/// A key that was not found in memory.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    index: usize,
    /// Where its chain goes on, on disk.
    at: LogAddress,
    /// The chain as it was looked up, for a search of what is new.
    seen: Seen<'a>,
    /// What was searched before.
    searched: LogAddress,
    truncations: u64,
}

impl Shared {
    /// Reads `keys`; `tell` is called once for each, in any order.
    pub(crate) fn multi_get(&self, keys: &[&[u8]], tell: &mut Tell<'_>) -> Result<()> {
        self.health.check_open()?;
        let mut wanted: Vec<Wanted<'_>> = Vec::new();
        let mut value = Vec::new();
        for first in (0..keys.len()).step_by(KEYS_AT_ONCE) {
            // Told once nobody is protected any more: `tell` may do what it likes.
            let mut answers = Vec::new();
            let guard = self.epochs.protect();
            for (index, key) in keys.iter().enumerate().skip(first).take(KEYS_AT_ONCE) {
                let nothing_searched = LogAddress::NONE;
                match self.look_in_memory(index, key, nothing_searched, &mut value) {
                    Ok(true) => answers.push((index, Some(std::mem::take(&mut value)))),
                    Ok(false) => answers.push((index, None)),
                    Err(not_yet) => wanted.push(not_yet),
                }
            }
            drop(guard);
            answers.iter().for_each(|(index, answer)| tell(*index, answer.as_deref()));
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let mut fetcher = match self.fetchers.lock().pop() {
            Some(fetcher) => fetcher,
            None => Fetcher {
                queue: self.host.device.queue(DEPTH)?,
                spare: Vec::new(),
                completions: Vec::new(),
            },
        };
        let absent = self.fetch(&mut fetcher, keys, wanted, &mut value, tell)?;
        // After an error there may be reads in flight; such a queue is not kept.
        self.fetchers.lock().push(fetcher);
        match &self.cold {
            Some(cold) => self.multi_get_cold(cold, keys, absent, tell)?,
            None => absent.into_iter().for_each(|(index, _)| tell(index, None)),
        }
        Ok(())
    }

    /// Looks for a key in memory. `Err`: its chain goes on on disk, or absence has to be confirmed.
    /// The caller is protected.
    fn look_in_memory(
        &self,
        index: usize,
        key: &[u8],
        searched: LogAddress,
        value: &mut Vec<u8>,
    ) -> std::result::Result<bool, Wanted<'_>> {
        let truncations = self.truncations.load(Acquire);
        let hash = self.hash(key);
        let seen = self.cache.seen(self.index.find(hash), truncations);
        if self.cache.read(&self.index, &seen, hash, key, value) {
            return Ok(true);
        }
        let at = match self.walk(seen.log_head, searched.plus(1), key) {
            Found::Here(record, _) => return Ok(record.read(value) == Read::Value),
            Found::OnDisk(at) => at,
            Found::Nothing => LogAddress::NONE,
        };
        Err(Wanted { index, at, seen, searched, truncations })
    }

    /// Reads what is on disk, and answers which keys the log has nothing of.
    fn fetch<'a>(
        &'a self,
        fetcher: &mut Fetcher,
        keys: &[&[u8]],
        mut wanted: Vec<Wanted<'a>>,
        value: &mut Vec<u8>,
        tell: &mut Tell<'_>,
    ) -> Result<Vec<Absent<'a>>> {
        let mut absent = Vec::new();
        let mut flying: Vec<Option<(Wanted<'_>, RecordRead)>> = (0..DEPTH).map(|_| None).collect();
        let mut free: Vec<usize> = (0..DEPTH).collect();
        loop {
            while let Some(tag) = free.last().copied()
                && let Some(next) = wanted.pop()
            {
                match self.read_of(&next)? {
                    Some(read) => {
                        free.pop();
                        fetcher.submit(tag, &read);
                        flying[tag] = Some((next, read));
                    }
                    None => {
                        wanted.extend(self.confirm_absence(next, keys, value, tell, &mut absent));
                    }
                }
            }
            if free.len() == DEPTH {
                return Ok(absent);
            }
            let mut completions = std::mem::take(&mut fetcher.completions);
            fetcher.queue.wait(1, &mut completions)?;
            for completion in completions.drain(..) {
                completion.result?;
                let tag = completion.tag as usize;
                let (Some((key, mut read)), Some(buffer)) = (flying[tag].take(), completion.buffer)
                else {
                    unreachable!("a completion answers a read that was submitted")
                };
                match read.judge(&buffer)? {
                    Fetched::Record(stored) if stored.key == keys[key.index] => {
                        if let Some(value) = stored.value {
                            self.cache_found(&key.seen, self.hash(stored.key), stored.key, value);
                        }
                        tell(key.index, stored.value);
                        free.push(tag);
                    }
                    Fetched::Record(stored) => {
                        wanted.push(Wanted { at: stored.header.previous(), ..key });
                        free.push(tag);
                    }
                    Fetched::Longer => {
                        fetcher.submit(tag, &read);
                        flying[tag] = Some((key, read));
                    }
                }
                if buffer.len() <= SPARE_BYTES_MAX {
                    fetcher.spare.push(buffer);
                }
            }
            fetcher.completions = completions;
        }
    }

    /// The read that a key needs next; nothing if its chain has ended.
    fn read_of(&self, key: &Wanted<'_>) -> Result<Option<RecordRead>> {
        let goes_on =
            key.at != LogAddress::NONE && key.at > key.searched && key.at >= self.log.begin();
        if goes_on { self.log.record_read(key.at) } else { Ok(None) }
    }

    /// Notes that a key is absent. With a single log, not if it was truncated meanwhile: then what
    /// is new of its chain is to be searched.
    fn confirm_absence<'a>(
        &'a self,
        key: Wanted<'a>,
        keys: &[&[u8]],
        value: &mut Vec<u8>,
        tell: &mut Tell<'_>,
        absent: &mut Vec<Absent<'a>>,
    ) -> Option<Wanted<'a>> {
        if self.cold.is_some() || self.truncations.load(Acquire) == key.truncations {
            absent.push((key.index, key.seen));
            return None;
        }
        let searched = key.searched.max(key.seen.log_head);
        let guard = self.epochs.protect();
        let looked = self.look_in_memory(key.index, keys[key.index], searched, value);
        drop(guard);
        match looked {
            Ok(has_value) => {
                tell(key.index, has_value.then_some(value));
                None
            }
            Err(again) => Some(again),
        }
    }
}

impl Fetcher {
    fn submit(&mut self, tag: usize, read: &RecordRead) {
        let len = read.len();
        let spare = self.spare.pop().filter(|buffer| buffer.len() == len);
        let buffer = spare.unwrap_or_else(|| Buffer::zeroed(len));
        let work = Work::Read { offset: read.offset(), buffer };
        let request = Request { tag: tag as u64, file: read.file(), work };
        let submitted = self.queue.submit(request);
        assert!(submitted.is_ok(), "no more is submitted than the queue has room for");
    }
}
