//! A whole copy of the store in another directory, while it runs.
//!
//! The pairs as of a pin go to a new space, in order, in intervals that are full; then its header
//! says that it is a store, and how far its writes are in it.

use std::sync::Arc;

use device::Device;
use engine::{Cursor, Direction, GoOn, KeyRange, Result};
use flexspace::space::FlexSpace;

use crate::error::from_space;
use crate::index::START;
use crate::memory_split::IntervalLimits;
use crate::pair::{Pair, StoreHeader};
use crate::store::Shared;

/// Bytes between two checks of whether to continue.
const CHECK_EVERY: usize = 256 << 10;
/// Bytes that a pair counts in addition to its own, because it takes time.
const PAIR_BYTES: usize = 64;

/// The interval that is being filled.
struct Filling<'a> {
    space: &'a FlexSpace,
    limits: IntervalLimits,
    bytes: Vec<u8>,
    pairs: usize,
}

impl Filling<'_> {
    fn push(&mut self, pair: &Pair<'_>) -> Result<()> {
        let len = self.bytes.len() + pair.encoded_len();
        let is_full = self.pairs >= self.limits.pairs || len > self.limits.bytes as usize;
        if is_full && self.pairs > 0 {
            self.end()?;
        }
        pair.encode(&mut self.bytes);
        self.pairs += 1;
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        let offset = self.space.len();
        self.space.splice(offset, 0, &self.bytes, START).map_err(from_space)?;
        self.bytes.clear();
        self.pairs = 0;
        Ok(())
    }
}

impl Shared {
    /// Writes an openable copy of all writes applied before the call to `into`, which has no store
    /// yet.
    pub(crate) fn checkpoint(
        self: &Arc<Self>,
        into: Arc<dyn Device>,
        go_on: &GoOn<'_>,
    ) -> Result<()> {
        self.health.check_open()?;
        let pin = self.host.sequence.pin();
        let reached = self.host.barrier.reach(pin.seqno())?;
        let options = self.options.space(self.host.memory.limit());
        let space = FlexSpace::create(into, options).map_err(from_space)?;
        let persisted = pin.seqno().min(reached);
        // Until the last step it is a store that has no write for certain.
        let empty = StoreHeader { persisted: codec::SeqNo::ZERO };
        space.append(&empty.encode()).map_err(from_space)?;
        let limits = self.interval_limits();
        let mut filling = Filling { space: &space, limits, bytes: Vec::new(), pairs: 0 };
        let mut walk = self.scan(KeyRange::all(), Direction::Forward, pin);
        let mut bytes = CHECK_EVERY;
        while let Some((key, value)) = walk.next()? {
            if bytes >= CHECK_EVERY {
                self.health.check_open()?;
                go_on()?;
                bytes = 0;
            }
            bytes += PAIR_BYTES + key.len() + value.len();
            filling.push(&Pair { key, value: Some(value) })?;
        }
        filling.end()?;
        let header = StoreHeader { persisted }.encode();
        space.pwrite(0, &header).map_err(from_space)?;
        space.close().map_err(from_space)
    }
}
