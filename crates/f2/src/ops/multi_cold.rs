//! Many reads of the cold log at once.
//!
//! 1. The keys are looked up in the cold index, each chunk read once.
//! 2. All records that the chunks name for them are read, and their keys compared.
//! 3. A key of which a record moved meanwhile is looked up again.

use engine::Result;
use workers::StopToken;

use crate::cold::{Cold, Gone};
use crate::ops::multi_read::Absent;
use crate::position::Position;
use crate::read_cache::Seen;
use crate::store::Shared;

/// What is told of each key: its index, and its value if it has one.
type Tell<'a> = dyn FnMut(usize, Option<&[u8]>) + 'a;

/// A key that the hot log has nothing of.
struct Wanted<'a> {
    index: usize,
    /// Its chain as it was looked up.
    seen: Seen<'a>,
    position: Position,
    /// The newest record of the key so far: how many are in front of it, and its value.
    found: Option<(usize, Vec<u8>)>,
    has_moved: bool,
}

impl Shared {
    /// Reads those of `keys` that `absent` names, none of which the hot log has.
    pub(super) fn multi_get_cold(
        &self,
        cold: &Cold,
        keys: &[&[u8]],
        absent: Vec<Absent<'_>>,
        tell: &mut Tell<'_>,
    ) -> Result<()> {
        let absent = absent.into_iter().map(|(index, seen)| {
            let position = self.index.position(self.hash(keys[index]));
            Wanted { index, seen, position, found: None, has_moved: false }
        });
        let mut wanted: Vec<Wanted<'_>> = absent.collect();
        let mut gone = Gone::default();
        while !wanted.is_empty() {
            gone.again()?;
            self.read_cold(cold, keys, &mut wanted)?;
            wanted.retain_mut(|key| {
                if key.has_moved {
                    (key.found, key.has_moved) = (None, false);
                    return true;
                }
                let value = key.found.as_ref().map(|(_, value)| value.as_slice());
                if let Some(value) = value {
                    let name = keys[key.index];
                    self.cache_found(&key.seen, self.hash(name), name, value);
                }
                tell(key.index, value);
                false
            });
        }
        Ok(())
    }

    fn read_cold(&self, cold: &Cold, keys: &[&[u8]], wanted: &mut [Wanted<'_>]) -> Result<()> {
        let never = StopToken::default();
        let mut named = Vec::new();
        let positions = wanted.iter().map(|key| key.position);
        cold.look_up(positions, &never, &mut |number, addresses| {
            let ranked = addresses.iter().enumerate();
            named.extend(ranked.map(|(rank, at)| (*at, (number, rank))));
            Ok(())
        })?;
        cold.each_record(named.into_iter(), &never, &mut |(number, rank), _, stored| {
            let key = &mut wanted[number];
            let Some(stored) = stored else {
                key.has_moved = true;
                return Ok(());
            };
            let is_newest = key.found.as_ref().is_none_or(|(best, _)| rank < *best);
            if stored.key == keys[key.index] && is_newest {
                key.found = Some((rank, stored.value.unwrap_or_default().to_vec()));
            }
            Ok(())
        })?;
        Ok(())
    }
}
