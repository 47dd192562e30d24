//! The directory from the chunk log: the last version of each chunk stands [N2].

use engine::Result;

use super::chunk::Chunk;
use super::directory::{Directory, Word};
use crate::address::LogAddress;
use crate::hybrid_log::{Geometry, Segments, stretches};
use crate::record::Damage;

/// What [`rebuild`] makes.
pub(crate) struct Restored {
    pub(super) directory: Directory,
    /// Entries of all chunks. Of a chunk that a doubling has split and nobody has written since,
    /// each half is taken to have half of them.
    pub(crate) entries: u64,
}

impl Default for Restored {
    fn default() -> Self {
        Self { directory: Directory::new(), entries: 0 }
    }
}

/// Reads and verifies the chunk log from `begin` to `end`.
///
/// # Errors
/// Damage with its place; the storage's.
pub(crate) fn rebuild(
    segments: &Segments,
    geometry: &Geometry,
    begin: LogAddress,
    end: LogAddress,
) -> Result<Restored> {
    let directory = Directory::new();
    let mut counts = vec![0_u32; directory.chunks()];
    stretches(segments, geometry, begin, end, &mut |stretch| {
        stretch.records(&mut |address, stored| {
            if stored.header.is_invalid() {
                return Ok(());
            }
            let damaged = |damage| stretch.damage(address, damage);
            let chunk = Chunk::decode(stored.key, stored.value).map_err(damaged)?;
            let name = chunk.name;
            while directory.level() < name.level {
                let halves: Vec<u32> = counts.iter().map(|count| count / 2).collect();
                counts.iter_mut().zip(&halves).for_each(|(count, half)| *count -= half);
                counts.extend(halves);
                directory.double(directory.level());
            }
            if name.level < directory.level() {
                return Err(damaged(Damage("a chunk of a level that was over")).into());
            }
            directory.restore(name.number, Word::new(address, chunk.len()));
            counts[name.number] = chunk.len() as u32;
            Ok(())
        })
    })?;
    let entries = counts.iter().map(|count| u64::from(*count)).sum();
    Ok(Restored { directory, entries })
}
