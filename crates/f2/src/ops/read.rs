//! A read of one key: through memory protected, and then, read by read, through what is on disk.

use engine::Result;

use crate::address::LogAddress;
use crate::key_hash::KeyHash;
use crate::ops::look_up::{Beyond, InMemory, LookUp};
use crate::store::Shared;

impl Shared {
    /// The key's value replaces what is in `into`; `false` if it has none. One read of the device
    /// for each record of its chain that is on disk; two for a key of the cold log.
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
