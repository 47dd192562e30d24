//! The directory from the chunk log: the last version of each chunk counts [N2]. If a checkpoint
//! has a snapshot of the directory, it is made from that and the chunk log's end.

use device::Device;
use engine::{Error, Result};

use super::chunk::Chunk;
use super::directory::{Directory, Word};
use super::snapshot::{NamedSnapshot, Snapshot};
use crate::address::LogAddress;
use crate::hybrid_log::{Geometry, Segments, stretches};
use crate::record::Damage;

/// Reads and verifies the chunk log from `begin` to `end`.
///
/// # Errors
/// Damage with its place; the storage's.
pub(crate) fn rebuild(
    segments: &Segments,
    geometry: &Geometry,
    begin: LogAddress,
    end: LogAddress,
) -> Result<Directory> {
    go_on_from(Directory::new(), segments, geometry, begin, end)
}

/// The same, from the snapshot that a checkpoint names, if it is sound.
///
/// # Errors
/// Damage of the part that is read, with its place; the storage's.
pub(crate) fn restore(
    device: &dyn Device,
    named: NamedSnapshot,
    segments: &Segments,
    geometry: &Geometry,
    (begin, end): (LogAddress, LogAddress),
) -> Result<Directory> {
    let snapshot = match Snapshot::read(device, named, end) {
        Err(newer @ Error::NewerVersion(_)) => return Err(newer),
        // One that cannot be read is as good as none.
        read => read.unwrap_or_default(),
    };
    let Some(Snapshot { directory, from }) = snapshot else {
        return rebuild(segments, geometry, begin, end);
    };
    // [S4 of the snapshot]
    for number in 0..directory.chunks() {
        if directory.load(number).address() < begin {
            directory.restore(number, Word::NONE);
        }
    }
    go_on_from(directory, segments, geometry, from.max(begin), end)
}

fn go_on_from(
    directory: Directory,
    segments: &Segments,
    geometry: &Geometry,
    from: LogAddress,
    end: LogAddress,
) -> Result<Directory> {
    stretches(segments, geometry, from, end, &mut |stretch| {
        stretch.records(&mut |address, stored| {
            if stored.header.is_invalid() {
                return Ok(());
            }
            let damaged = |damage| stretch.damage(address, damage);
            let chunk = Chunk::decode(stored.key, stored.value).map_err(damaged)?;
            let name = chunk.name;
            while directory.level() < name.level {
                directory.double(directory.level());
            }
            if name.level < directory.level() {
                return Err(damaged(Damage("a chunk of a level that was over")).into());
            }
            directory.restore(name.number, Word::new(address, chunk.len()));
            Ok(())
        })
    })?;
    Ok(directory)
}
