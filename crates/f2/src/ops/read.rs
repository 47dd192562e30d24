//! A read: through memory protected, then along the disk unprotected.

use std::sync::atomic::Ordering::Acquire;

use engine::Result;

use crate::address::LogAddress;
use crate::ops::Found;
use crate::record::Read;
use crate::store::Shared;

impl Shared {
    /// The key's value replaces what is in `into`; `false` if it has none. One read of the device
    /// for each record of its chain that is on disk.
    pub(crate) fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        self.health.check_open()?;
        let hash = self.hash(key);
        let mut searched = LogAddress::NONE;
        loop {
            // [O3]
            let truncations = self.truncations.load(Acquire);
            let guard = self.epochs.protect();
            let head = self.index.find(hash).map_or(LogAddress::NONE, |slot| slot.address());
            let on_disk = match self.walk(head, searched.plus(1), key) {
                Found::Here(record, _) => return Ok(record.read(into) == Read::Value),
                Found::OnDisk(at) => at,
                Found::Nothing => LogAddress::NONE,
            };
            drop(guard);
            let stored = self.search_disk(on_disk, searched, key, |value| {
                value.is_some_and(|value| {
                    into.clear();
                    into.extend_from_slice(value);
                    true
                })
            })?;
            if let Some(has_value) = stored {
                return Ok(has_value);
            }
            if self.truncations.load(Acquire) == truncations {
                return Ok(false);
            }
            searched = searched.max(head);
        }
    }

    /// Searches the chain that goes on at `from` on disk, down to what was searched before, and
    /// hands the value of the key's newest record there to `with` (`None`: a tombstone). The
    /// caller is not protected.
    pub(crate) fn search_disk<T>(
        &self,
        from: LogAddress,
        searched: LogAddress,
        key: &[u8],
        with: impl FnOnce(Option<&[u8]>) -> T,
    ) -> Result<Option<T>> {
        let mut with = Some(with);
        let mut at = from;
        while at > searched && at >= self.log.begin() && at != LogAddress::NONE {
            let step = self.log.read_stored(at, |stored| {
                if stored.key == key {
                    Ok(with.take().map(|with| with(stored.value)))
                } else {
                    Err(stored.header.previous())
                }
            })?;
            match step {
                Some(Ok(found)) => return Ok(found),
                Some(Err(previous)) => at = previous,
                None => return Ok(None),
            }
        }
        Ok(None)
    }
}
