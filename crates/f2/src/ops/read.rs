//! A read: through memory protected, then along the disk unprotected; the hot log, then the cold.

use std::sync::atomic::Ordering::Acquire;

use engine::Result;

use crate::address::LogAddress;
use crate::key_hash::KeyHash;
use crate::ops::Found;
use crate::read_cache::Seen;
use crate::record::Read;
use crate::store::Shared;

/// What the hot log, and the cache in front of it, say of a key.
enum Hot<'a> {
    /// It has a value, which was read.
    Value,
    Tombstone,
    /// There is nothing, in a chain that began like this.
    Nothing(Seen<'a>),
}

impl Shared {
    /// The key's value replaces what is in `into`; `false` if it has none. One read of the device
    /// for each record of its chain that is on disk; two for a key of the cold log.
    pub(crate) fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        self.health.check_open()?;
        let hash = self.hash(key);
        // Hot first: a record moves from there to the cold log, never back [O3].
        let seen = match self.get_hot(hash, key, into)? {
            Hot::Value => return Ok(true),
            Hot::Tombstone => return Ok(false),
            Hot::Nothing(seen) => seen,
        };
        let Some(cold) = &self.cold else { return Ok(false) };
        let has_value = cold.get(self.index.position(hash), key, into)?;
        if has_value {
            self.cache_found(&seen, hash, key, into);
        }
        Ok(has_value)
    }

    fn get_hot(&self, hash: KeyHash, key: &[u8], into: &mut Vec<u8>) -> Result<Hot<'_>> {
        let mut searched = LogAddress::NONE;
        loop {
            // [O3]
            let truncations = self.truncations.load(Acquire);
            let guard = self.epochs.protect();
            let seen = self.cache.seen(self.index.find(hash), truncations);
            if self.cache.read(&self.index, &seen, hash, key, into) {
                return Ok(Hot::Value);
            }
            let on_disk = match self.walk(seen.log_head, searched.plus(1), key) {
                Found::Here(record, _) if record.read(into) == Read::Value => {
                    return Ok(Hot::Value);
                }
                Found::Here(..) => return Ok(Hot::Tombstone),
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
            match stored {
                Some(true) => {
                    self.cache_found(&seen, hash, key, into);
                    return Ok(Hot::Value);
                }
                Some(false) => return Ok(Hot::Tombstone),
                None => {}
            }
            if self.cold.is_some() || self.truncations.load(Acquire) == truncations {
                return Ok(Hot::Nothing(seen));
            }
            searched = searched.max(seen.log_head);
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
