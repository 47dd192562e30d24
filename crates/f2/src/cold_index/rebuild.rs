//! The directory from the chunk log: the last version of each chunk stands [N2].

use engine::Result;

use super::chunk::{Chunk, Entry, covered};
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
    /// Of these, how many stand behind others of their tag.
    pub(crate) covered: u64,
}

impl Default for Restored {
    fn default() -> Self {
        Self { directory: Directory::new(), entries: 0, covered: 0 }
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
    // Entries of each chunk, and those that stand behind others of their tag.
    let mut counts = vec![[0_u32; 2]; directory.chunks()];
    stretches(segments, geometry, begin, end, &mut |stretch| {
        stretch.records(&mut |address, stored| {
            if stored.header.is_invalid() {
                return Ok(());
            }
            let damaged = |damage| stretch.damage(address, damage);
            let chunk = Chunk::decode(stored.key, stored.value).map_err(damaged)?;
            let name = chunk.name;
            while directory.level() < name.level {
                let halves: Vec<[u32; 2]> =
                    counts.iter().map(|count| count.map(|entries| entries / 2)).collect();
                for (count, half) in counts.iter_mut().zip(&halves) {
                    *count = [count[0] - half[0], count[1] - half[1]];
                }
                counts.extend(halves);
                directory.double(directory.level());
            }
            if name.level < directory.level() {
                return Err(damaged(Damage("a chunk of a level that was over")).into());
            }
            directory.restore(name.number, Word::new(address, chunk.len()));
            let entries: Vec<Entry> = chunk.entries().collect();
            counts[name.number] = [entries.len() as u32, covered(&entries) as u32];
            Ok(())
        })
    })?;
    let sum = |which: usize| counts.iter().map(|count| u64::from(count[which])).sum();
    Ok(Restored { directory, entries: sum(0), covered: sum(1) })
}
