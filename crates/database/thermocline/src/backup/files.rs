//! Files as a backup sees them: listed, summed, compared, copied.
//!
//! A file's sum is made of its pieces of [`PIECE_BYTES`], in order: [`codec::chain`] of the sum so
//! far, 0 at first, and the piece.

use codec::Corruption;
use device::{Device, File, Mode, SyncKind};

use super::Progress;
use super::manifest::FileSum;
use crate::error::{Error, Result};

/// How much of a file is read at a time; part of the format.
pub(super) const PIECE_BYTES: usize = 1 << 20;

/// Returns all files below `dir` by their names from there, ascending.
pub(super) fn list(device: &dyn Device, dir: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let mut dirs = vec![String::new()];
    while let Some(below) = dirs.pop() {
        for entry in device.list(&under(dir, &below))? {
            let name = device::join(&below, &entry.name);
            if entry.is_dir { dirs.push(name) } else { names.push(name) }
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Returns all directories of the names, without the root, the outer ones first.
pub(super) fn dirs<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let of = |name: &'a str| name.match_indices('/').map(move |(end, _)| &name[..end]);
    let mut dirs: Vec<&str> = names.flat_map(of).collect();
    dirs.sort_unstable();
    dirs.dedup();
    dirs
}

/// Returns `name` in the directory `dir`; either may be empty.
pub(super) fn under(dir: &str, name: &str) -> String {
    if name.is_empty() { dir.to_owned() } else { device::join(dir, name) }
}

/// Returns a buffer that is large enough for any piece of a file of `len` bytes.
fn piece_of(len: u64) -> Vec<u8> {
    vec![0; PIECE_BYTES.min(usize::try_from(len).unwrap_or(PIECE_BYTES))]
}

/// Passes the pieces of a file to `visit`, in order, and returns its length.
fn each_piece(file: &dyn File, mut visit: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<u64> {
    let len = file.len()?;
    let mut piece = piece_of(len);
    let mut offset = 0;
    while offset < len {
        let bytes = usize::try_from(len - offset).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        let piece = &mut piece[..bytes];
        file.read_at(offset, piece)?;
        visit(offset, piece)?;
        offset += bytes as u64;
    }
    Ok(len)
}

/// Returns the sum of the file `name` in `dir`.
pub(super) fn sum(
    device: &dyn Device,
    dir: &str,
    name: &str,
    progress: &Progress,
) -> Result<FileSum> {
    let file = device.open(&under(dir, name), Mode::Read)?;
    let mut sum = 0;
    let bytes = each_piece(&*file, |_, piece| {
        sum = codec::chain(sum, piece);
        progress.add(piece.len() as u64);
        Ok(())
    })?;
    Ok(FileSum { name: name.to_owned(), bytes, sum })
}

/// Compares the file that is now in the place of a file of the backup in `dir` with the manifest.
pub(super) fn compare(found: Result<FileSum>, known: &FileSum, dir: &str) -> Result<()> {
    let what = match found {
        Ok(found) if found == *known => return Ok(()),
        Ok(found) if found.bytes != known.bytes => {
            format!("the file has {} bytes, in the backup it had {}", found.bytes, known.bytes)
        }
        Ok(_) => "the file's checksum is not that of the backup".to_owned(),
        Err(Error::Engine(engine::Error::Device(device::Error::NotFound { .. }))) => {
            "the file is missing from the backup".to_owned()
        }
        Err(error) => return Err(error),
    };
    Err(Corruption::new(what, 0).at(&device::join(dir, &known.name), 0).into())
}

/// Copies the file `name` of `dir` to `into`, durable but for its name, and sums it on the way.
pub(super) fn copy(
    from: &dyn Device,
    dir: &str,
    name: &str,
    into: &dyn Device,
    progress: &Progress,
) -> Result<FileSum> {
    let file = from.open(&under(dir, name), Mode::Read)?;
    let copy = into.open(name, Mode::CreateNew)?;
    let mut sum = 0;
    let bytes = each_piece(&*file, |offset, piece| {
        sum = codec::chain(sum, piece);
        copy.write_at(offset, piece)?;
        progress.add(piece.len() as u64);
        Ok(())
    })?;
    copy.sync(SyncKind::All)?;
    Ok(FileSum { name: name.to_owned(), bytes, sum })
}

/// Returns whether two files hold the same bytes, or false if the first one is missing. Nothing
/// writes to them meanwhile.
pub(super) fn same(device: &dyn Device, one: &str, other: &str) -> Result<bool> {
    let one = match device.open(one, Mode::Read) {
        Err(device::Error::NotFound { .. }) => return Ok(false),
        opened => opened?,
    };
    let other = device.open(other, Mode::Read)?;
    let len = one.len()?;
    if len != other.len()? {
        return Ok(false);
    }
    let mut beside = piece_of(len);
    let mut same = true;
    each_piece(&*one, |offset, piece| {
        same = same
            // A file that has grown counts as another one.
            && match beside.get_mut(..piece.len()) {
                Some(beside) => {
                    other.read_at(offset, beside)?;
                    beside == piece
                }
                None => false,
            };
        Ok(())
    })?;
    Ok(same)
}
