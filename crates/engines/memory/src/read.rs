//! Reading one key: find its leaf, copy the value under the leaf's lock.

use std::sync::Arc;

use engine::Result;

use crate::map::Found;
use crate::store::Shared;

/// The result that is taken out of a leaf's lock.
enum Taken {
    Nothing,
    Copied,
    /// A long value, to be copied without the lock.
    Shared(Arc<[u8]>),
}

impl Shared {
    /// The newest value of `key`.
    pub(crate) fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        self.health.check_open()?;
        let taken = self.map.read(key, |leaf| match leaf.find(key) {
            Ok(index) => take(leaf.newest(index), into),
            Err(_) => Taken::Nothing,
        });
        Ok(finish(taken, into))
    }

    /// The value of `key` as of `pin`.
    pub(crate) fn get_at(&self, key: &[u8], pin: u64, into: &mut Vec<u8>) -> Result<bool> {
        self.health.check_open()?;
        let taken = self.map.read(key, |leaf| match leaf.find(key) {
            Ok(index) => take(leaf.at_pin(index, pin), into),
            Err(_) => Taken::Nothing,
        });
        Ok(finish(taken, into))
    }
}

fn take(found: Option<Found<'_>>, into: &mut Vec<u8>) -> Taken {
    match found {
        None => Taken::Nothing,
        Some(Found::Small(value)) => {
            into.clear();
            into.extend_from_slice(value);
            Taken::Copied
        }
        Some(Found::Large(value)) => Taken::Shared(Arc::clone(value)),
    }
}

fn finish(taken: Taken, into: &mut Vec<u8>) -> bool {
    match taken {
        Taken::Nothing => false,
        Taken::Copied => true,
        Taken::Shared(value) => {
            into.clear();
            into.extend_from_slice(&value);
            true
        }
    }
}
