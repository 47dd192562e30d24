//! A read of one key: through memory protected, and then, read by read, through the disk.

use engine::Result;
use sync::epoch::Guard;

use crate::address::LogAddress;
use crate::key_hash::KeyHash;
use crate::ops::look_up::{Beyond, InMemory, LookUp, Progress};
use crate::store::Shared;

impl Shared {
    /// Replaces the content of `into` by the key's value; returns `false` if it has none. One read
    /// of the device for each record of its chain that is on disk; two for a key of the cold log.
    pub(crate) fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        self.health.check_open()?;
        let hash = self.hash(key);
        let guard = self.epochs.protect();
        let looked = self.look_in_memory(hash, key, LogAddress::NONE, into);
        drop(guard);
        match looked {
            InMemory::Value => Ok(true),
            InMemory::Tombstone => Ok(false),
            InMemory::Beyond(beyond) => self.get_beyond(hash, beyond, key, into),
        }
    }

    /// The same without the device: `None` if it is needed.
    pub(crate) fn get_at_once(&self, key: &[u8], into: &mut Vec<u8>) -> Result<Option<bool>> {
        let guard = self.epochs.protect();
        // The outcome is not moved: the processor would wait for all writes of it to reach its
        // cache.
        match self.begin_get(guard, key, into) {
            Ok(Ok(is_there)) => Ok(Some(is_there)),
            Ok(Err(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Begins a read and continues it as far as it can without the device; `Err` is a lookup that
    /// needs a read. The caller is protected by `guard` alone.
    pub(crate) fn begin_get(
        &self,
        guard: Guard<'_>,
        key: &[u8],
        into: &mut Vec<u8>,
    ) -> Result<std::result::Result<bool, LookUp>> {
        self.health.check_open()?;
        let hash = self.hash(key);
        let looked = self.look_in_memory(hash, key, LogAddress::NONE, into);
        drop(guard);
        let beyond = match looked {
            InMemory::Value => return Ok(Ok(true)),
            InMemory::Tombstone => return Ok(Ok(false)),
            InMemory::Beyond(beyond) => beyond,
        };
        let mut look_up = LookUp::new(hash, beyond, true);
        Ok(match look_up.start(self, key, into)? {
            Progress::Value(_) => Ok(true),
            Progress::Absent => Ok(false),
            Progress::Read => Err(look_up),
        })
    }

    #[cold]
    fn get_beyond(
        &self,
        hash: KeyHash,
        beyond: Beyond,
        key: &[u8],
        into: &mut Vec<u8>,
    ) -> Result<bool> {
        LookUp::new(hash, beyond, true).run(self, key, into)
    }
}
