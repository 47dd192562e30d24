//! Reading one key: memtables from the youngest, then the one interval that it belongs to.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use codec::SeqNo;
use engine::{Error, Result};
use flexspace::Found as FoundEntry;

use crate::block::Block;
use crate::error::{DATA, from_space};
use crate::index::{Head, Interval};
use crate::memtable::Found;
use crate::pair::StoreHeader;
use crate::state::Base;
use crate::store::Shared;

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
        let Some(state) = &*state else { return Err(Error::Closed) };
        let sources = state.at(seqno);
        for memtable in sources.memtables() {
            if let Some(found) = memtable.get(key, seqno, into) {
                return Ok(Some(found));
            }
        }
        let base = sources.base;
        let Some(interval) = base.interval_of(key) else { return Ok(None) };
        let Some(head) = interval.entry.head() else { return Ok(None) };
        let cached = head.cached();
        let block = match &*cached {
            Some(block) => {
                self.cache.hits.fetch_add(1, Relaxed);
                block
            }
            None => &self.load(base, &interval, head)?,
        };
        let Some(value) = block.find(key) else { return Ok(None) };
        into.clear();
        into.extend_from_slice(value);
        Ok(Some(Found { seqno: SeqNo::ZERO, is_value: true }))
    }

    /// An interval's block, from the cache or the space.
    pub(crate) fn block(
        &self,
        base: &Base,
        interval: &FoundEntry<'_, Interval>,
    ) -> Result<Arc<Block>> {
        // Every entry of the tree has a head.
        let Some(head) = interval.entry.head() else { return Err(Error::Closed) };
        if let Some(block) = &*head.cached() {
            self.cache.hits.fetch_add(1, Relaxed);
            return Ok(Arc::clone(block));
        }
        self.load(base, interval, head)
    }

    /// Reads an interval, and caches it.
    fn load(
        &self,
        base: &Base,
        interval: &FoundEntry<'_, Interval>,
        head: &Arc<Head>,
    ) -> Result<Arc<Block>> {
        let block = self.load_uncached(base, interval.offset, interval.length)?;
        self.cache.insert(head, &block, self.cache_share());
        Ok(block)
    }

    /// Reads an interval: one read of the device for each of its extents.
    pub(crate) fn load_uncached(
        &self,
        base: &Base,
        offset: u64,
        length: u32,
    ) -> Result<Arc<Block>> {
        self.cache.misses.fetch_add(1, Relaxed);
        let offset = offset + StoreHeader::BYTES as u64;
        let bytes = base.space.read(offset, u64::from(length)).map_err(from_space)?;
        let block = Block::decode(bytes, &self.cache.tally);
        Ok(Arc::new(block.map_err(|damage| damage.at(DATA, offset))?))
    }
}
