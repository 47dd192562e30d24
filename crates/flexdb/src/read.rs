//! Reading one key: memtables from the youngest, then the one interval that it belongs to.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use codec::{Corruption, SeqNo};
use device::Buffer;
use engine::Result;
use flexspace::Found as FoundEntry;
use flexspace::space::Reading;

use crate::block::Block;
use crate::error::{DATA, from_space};
use crate::index::{Head, Interval};
use crate::memtable::Found;
use crate::pair::StoreHeader;
use crate::reads::Reads;
use crate::state::{Base, State};
use crate::store::Shared;

/// Queues that are kept for the next reads.
const QUEUES_KEPT: usize = 8;

/// How far a search has come without the device.
pub(crate) enum Sought {
    /// It has ended; a value was copied.
    Ended(Option<Found>),
    /// It needs an interval that is not cached.
    Cold(Cold),
}

/// An interval that is to be read.
pub(crate) struct Cold {
    base: Arc<Base>,
    head: Arc<Head>,
    offset: u64,
    length: u32,
}

impl Cold {
    pub(crate) fn new(
        base: &Arc<Base>,
        found: &FoundEntry<'_, Interval>,
        head: &Arc<Head>,
    ) -> Self {
        let (base, head) = (Arc::clone(base), Arc::clone(head));
        Self { base, head, offset: found.offset, length: found.length }
    }

    /// Bytes that are read.
    pub(crate) fn bytes(&self) -> usize {
        self.length as usize
    }
}

impl Shared {
    /// The value of `key` as of `seqno`. Reads at most one interval.
    pub(crate) fn get_at(&self, key: &[u8], seqno: SeqNo, into: &mut Vec<u8>) -> Result<bool> {
        Ok(self.find(key, seqno, into)?.is_some_and(|found| found.is_value))
    }

    /// The newest version of `key` at or below `seqno`.
    pub(crate) fn find(
        &self,
        key: &[u8],
        seqno: SeqNo,
        into: &mut Vec<u8>,
    ) -> Result<Option<Found>> {
        let state = self.state.load();
        self.health.check_open()?;
        let Some(there) = &*state else { return Err(engine::Error::Closed) };
        let cold = match self.find_in_memory(there, key, seqno, into)? {
            Sought::Ended(found) => return Ok(found),
            Sought::Cold(cold) => cold,
        };
        // Reading may take long, and holding the guard would keep a slot of the swap.
        drop(state);
        let block = self.load(&cold)?;
        Ok(block.find(key).map(|value| Found::in_space(value, into)))
    }

    /// The newest version of `key`, as far as nothing has to be read: `None` if it would have to.
    pub(crate) fn find_at_once(
        &self,
        key: &[u8],
        into: &mut Vec<u8>,
    ) -> Result<Option<Option<Found>>> {
        let state = self.open_state()?;
        Ok(match self.find_in_memory(&state, key, SeqNo::MAX, into)? {
            Sought::Ended(found) => Some(found),
            Sought::Cold(_) => None,
        })
    }

    /// Looks for a key in memtables and in what is cached.
    pub(crate) fn find_in_memory(
        &self,
        state: &State,
        key: &[u8],
        seqno: SeqNo,
        into: &mut Vec<u8>,
    ) -> Result<Sought> {
        let sources = state.at(seqno);
        for memtable in sources.memtables() {
            if let Some(found) = memtable.get(key, seqno, into) {
                return Ok(Sought::Ended(Some(found)));
            }
        }
        let interval = sources.base.interval_of(key);
        let place = interval.and_then(|found| Some((found.entry.head()?, found)));
        let Some((head, interval)) = place else { return Ok(Sought::Ended(None)) };
        let cached = head.cached();
        let Some(block) = &*cached else {
            return Ok(Sought::Cold(Cold::new(sources.base, &interval, head)));
        };
        self.cache.hits.fetch_add(1, Relaxed);
        let found = block.find(key).map(|value| Found::in_space(value, into));
        Ok(Sought::Ended(found))
    }

    /// An interval's block, from the cache or the space.
    pub(crate) fn block(
        &self,
        base: &Arc<Base>,
        interval: &FoundEntry<'_, Interval>,
    ) -> Result<Arc<Block>> {
        // Every entry of the tree has a head.
        let Some(head) = interval.entry.head() else { return Err(engine::Error::Closed) };
        if let Some(block) = &*head.cached() {
            self.cache.hits.fetch_add(1, Relaxed);
            return Ok(Arc::clone(block));
        }
        self.load(&Cold::new(base, interval, head))
    }

    /// Reads an interval, and caches it: all of its extents at once.
    fn load(&self, cold: &Cold) -> Result<Arc<Block>> {
        let reading = self.begin_read(cold)?;
        let bytes = match reading.missing() {
            0 => reading.into_bytes(),
            1 => read_now(reading)?,
            _ => self.with_queue(|queue| {
                let mut bytes = Err(engine::Error::Closed);
                queue.begin(&*self.host.device, reading, 0)?;
                queue.complete(true, &mut |_, read| bytes = read)?;
                Ok(bytes)
            })??,
        };
        self.keep(cold, bytes)
    }

    /// Blocks of intervals: those that are not cached are read, all at once, and cached. Each is told of by
    /// its index.
    pub(crate) fn blocks(
        &self,
        base: &Arc<Base>,
        intervals: &[FoundEntry<'_, Interval>],
        tell: &mut dyn FnMut(usize, Result<Arc<Block>>),
    ) -> Result<()> {
        let (mut indices, mut colds) = (Vec::new(), Vec::new());
        for (index, interval) in intervals.iter().enumerate() {
            let Some(head) = interval.entry.head() else { continue };
            if let Some(block) = &*head.cached() {
                self.cache.hits.fetch_add(1, Relaxed);
                tell(index, Ok(Arc::clone(block)));
            } else {
                indices.push(index);
                colds.push(Cold::new(base, interval, head));
            }
        }
        self.read_many(&colds.iter().collect::<Vec<_>>(), &mut |at, block| {
            if let (Ok(block), Some(cold)) = (&block, colds.get(at)) {
                self.cache.insert(&cold.head, block, self.cache_share());
            }
            if let Some(index) = indices.get(at) {
                tell(*index, block);
            }
        })
    }

    /// Reads intervals, all of them at once, and caches none. Each is told of by its index.
    pub(crate) fn read_many(
        &self,
        colds: &[&Cold],
        tell: &mut dyn FnMut(usize, Result<Arc<Block>>),
    ) -> Result<()> {
        if colds.is_empty() {
            return Ok(());
        }
        let mut tell = |index: usize, bytes: Result<Vec<u8>>| {
            if let Some(cold) = colds.get(index) {
                tell(index, bytes.and_then(|bytes| self.decode(cold, bytes)));
            }
        };
        self.with_queue(|queue| {
            for (index, cold) in colds.iter().enumerate() {
                match self.begin_read(cold) {
                    Ok(reading) if reading.missing() == 0 => tell(index, Ok(reading.into_bytes())),
                    Ok(reading) => queue.begin(&*self.host.device, reading, index)?,
                    Err(error) => tell(index, Err(error)),
                }
            }
            while queue.pending() > 0 {
                queue.complete(true, &mut tell)?;
            }
            Ok(())
        })
    }

    /// Lends a queue on which nothing is under way. One that fails is not used again.
    fn with_queue<R>(&self, work: impl FnOnce(&mut Reads<usize>) -> Result<R>) -> Result<R> {
        let kept = self.queues.lock().pop();
        let mut queue = kept.unwrap_or_else(|| Reads::new(&self.host.memory));
        let done = work(&mut queue)?;
        let mut queues = self.queues.lock();
        if queues.len() < QUEUES_KEPT {
            queues.push(queue);
        }
        Ok(done)
    }

    /// Begins to read an interval.
    pub(crate) fn begin_read(&self, cold: &Cold) -> Result<Reading> {
        if cold.head.lie.is_out_of_order {
            let what = "intervals that are not in the order of their keys";
            return Err(Corruption::new(what, cold.begin()).at(DATA, 0).into());
        }
        let reading = cold.base.space.begin_read(cold.begin(), u64::from(cold.length));
        let reading = reading.map_err(from_space)?;
        self.cache.misses.fetch_add(1, Relaxed);
        Ok(reading)
    }

    /// Caches an interval that was read.
    pub(crate) fn keep(&self, cold: &Cold, bytes: Vec<u8>) -> Result<Arc<Block>> {
        let block = self.decode(cold, bytes)?;
        self.cache.insert(&cold.head, &block, self.cache_share());
        Ok(block)
    }

    /// The pairs of an interval that was read.
    pub(crate) fn decode(&self, cold: &Cold, bytes: Vec<u8>) -> Result<Arc<Block>> {
        let block = Block::decode(bytes, &self.cache.tally);
        Ok(Arc::new(block.map_err(|damage| damage.at(DATA, cold.begin()))?))
    }
}

/// Reads what is missing, one run after the other.
fn read_now(mut reading: Reading) -> Result<Vec<u8>> {
    for index in 0..reading.wanted().len() {
        let Some(wanted) = reading.wanted().get(index) else { break };
        let mut blocks = Buffer::zeroed(wanted.bytes);
        let read = reading.file().read_at(wanted.offset, &mut blocks);
        reading.give(index, read.map(|()| &*blocks)).map_err(from_space)?;
    }
    Ok(reading.into_bytes())
}

impl Cold {
    /// Where it begins in the space.
    fn begin(&self) -> u64 {
        self.offset + StoreHeader::BYTES as u64
    }
}
