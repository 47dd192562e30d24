//! Look-ups of which many wait for the device beside each other.
//!
//! Each has looked into memory, and waits for the one interval that its key belongs to. When that has
//! come it is cached, and looked into.

use std::sync::Arc;

use device::Doorbell;
use engine::Result;
use memory_budget::MemoryBudget;

use crate::memtable::Found;
use crate::read::Cold;
use crate::reads::Reads;
use crate::store::Shared;

/// Memory for values that is kept from call to call.
const VALUE_BYTES_KEPT: usize = 64 << 10;

/// Bytes of the intervals that are waited for at once, or one that is longer.
const BYTES_MAX: usize = 8 << 20;

/// How a look-up began.
#[derive(Debug)]
pub(crate) enum Began {
    /// It has ended; a value was copied.
    Ended(Option<Found>),
    Pending,
    /// As many wait as may, or they are as long: nothing was begun.
    Full,
}

/// Who is told of a look-up that has ended: what it was begun with, its key, what was found, and
/// the value.
pub(crate) type Tell<'a, T> = dyn FnMut(T, &[u8], Result<Option<Found>>, &[u8]) + 'a;

/// The look-ups of one thread, each with a `T` that says whose it is.
pub(crate) struct Flights<K, T> {
    depth: usize,
    reads: Reads<Waiting<K, T>>,
    value: Vec<u8>,
}

struct Waiting<K, T> {
    key: K,
    whose: T,
    cold: Cold,
}

/// A look-up that has ended, and how.
type Flown<K, T> = (Waiting<K, T>, Result<Option<Found>>);

impl<K: AsRef<[u8]>, T> Flights<K, T> {
    /// None yet; at most `depth` wait at once, fewer where intervals are long. Their buffers are charged to `memory`.
    pub(crate) fn new(depth: usize, memory: &Arc<MemoryBudget>) -> Self {
        Self { depth: depth.max(1), reads: Reads::new(memory), value: Vec::new() }
    }

    /// How many wait.
    pub(crate) fn pending(&self) -> usize {
        self.reads.pending()
    }

    /// Has `bell` rung when [`Flights::complete`] has something to do.
    pub(crate) fn ring(&mut self, bell: &Arc<Doorbell>) -> Result<()> {
        self.reads.ring(bell)
    }

    /// Begins to wait for a key's interval, which memory does not have. Does not wait for the device.
    pub(crate) fn begin(
        &mut self,
        shared: &Shared,
        key: K,
        cold: Cold,
        whose: T,
        into: &mut Vec<u8>,
    ) -> Result<Began> {
        let is_much = || self.reads.bytes().saturating_add(cold.bytes()) > BYTES_MAX;
        if self.pending() == self.depth || self.pending() > 0 && is_much() {
            return Ok(Began::Full);
        }
        let ended = self.fly(shared, Waiting { key, whose, cold }, into)?;
        ended.map_or(Ok(Began::Pending), |(_, found)| found.map(Began::Ended))
    }

    /// Begins to read what a look-up waits for; gives it back with its end if memory has that.
    fn fly(
        &mut self,
        shared: &Shared,
        mut waiting: Waiting<K, T>,
        into: &mut Vec<u8>,
    ) -> Result<Option<Flown<K, T>>> {
        loop {
            let reading = match shared.begin_read(&waiting.cold) {
                Ok(reading) => reading,
                Err(error) => return Ok(Some((waiting, Err(error)))),
            };
            if reading.missing() > 0 {
                self.reads.begin(&*shared.host.device, reading, waiting)?;
                return Ok(None);
            }
            let bytes = Ok(reading.into_bytes());
            match ended(shared, &waiting.cold, waiting.key.as_ref(), bytes, into) {
                Ok(Ended::WantsAll) => waiting.cold = waiting.cold.whole(),
                Ok(Ended::Found(found)) => return Ok(Some((waiting, Ok(found)))),
                Err(error) => return Ok(Some((waiting, Err(error)))),
            }
        }
    }

    /// Tells of the look-ups that have ended, and where `waits`, not before there was one, if any
    /// is pending. Answers how many there were.
    pub(crate) fn complete(
        &mut self,
        shared: &Shared,
        waits: bool,
        tell: &mut Tell<'_, T>,
    ) -> Result<usize> {
        let (mut count, mut value) = (0, std::mem::take(&mut self.value));
        while count == 0 {
            let mut again = Vec::new();
            let landed = self.reads.complete(waits, &mut |waiting, bytes| {
                let Waiting { key, whose, cold } = waiting;
                let found = match ended(shared, &cold, key.as_ref(), bytes, &mut value) {
                    Ok(Ended::WantsAll) => {
                        again.push(Waiting { key, whose, cold: cold.whole() });
                        return;
                    }
                    Ok(Ended::Found(found)) => Ok(found),
                    Err(error) => Err(error),
                };
                count += 1;
                tell(whose, key.as_ref(), found, &value);
            })?;
            for waiting in again {
                if let Some((waiting, found)) = self.fly(shared, waiting, &mut value)? {
                    count += 1;
                    tell(waiting.whose, waiting.key.as_ref(), found, &value);
                }
            }
            if !waits || landed == 0 {
                break;
            }
        }
        self.value = value;
        self.value.clear();
        self.value.shrink_to(VALUE_BYTES_KEPT);
        Ok(count)
    }
}

/// How what was read was looked into.
enum Ended {
    /// What it has of the key.
    Found(Option<Found>),
    /// It was an update of another key.
    WantsAll,
}

/// What an interval that was read, or the part with a key, has of this key.
fn ended(
    shared: &Shared,
    cold: &Cold,
    key: &[u8],
    bytes: Result<Vec<u8>>,
    into: &mut Vec<u8>,
) -> Result<Ended> {
    shared.health.check_open()?;
    let Some(block) = shared.keep(cold, key, bytes?)? else { return Ok(Ended::WantsAll) };
    Ok(Ended::Found(shared.found_in(&block, cold, key, into)))
}
