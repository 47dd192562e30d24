//! Files of a newer version of the format. Such a file must be refused by that name.
//!
//! 1. A database is made with one keyspace, and closed.
//! 2. For each kind of file with a header, one copy of the database gets a file whose header has
//!    the next version and the right checksum.
//! 3. `check`, `get`, `put` and `salvage` of the copy must refuse, name a newer version, and change
//!    nothing.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use thermocline::{Db, KeyspaceOptions, Options};

use crate::place::{self, Place};
use crate::verdict::{Outcome, Verdict};

/// Offsets of the version in the header, and of the checksum of all bytes before it.
const VERSION: usize = 8;
const CHECKSUM: usize = 12;
const HEADER: usize = 16;
/// Magic bytes of the superblocks. There are two, and each must be refused.
const SUPERBLOCK: &[u8] = b"TCSUPERB";
/// Files without a header.
const WITHOUT_HEADER: [&str; 5] = ["LOCK", "lock", "data", "ballast", "tree"];

pub(super) fn run(place: &Place, engine: &str) -> Outcome {
    let original = place.path("original");
    make(&original, engine)?;
    let (mut seen, mut wrong, mut count) = (BTreeSet::new(), Vec::new(), 0);
    for file in place::files_below(&original) {
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned());
        if name.is_none_or(|name| WITHOUT_HEADER.contains(&name.as_str())) {
            continue;
        }
        let Some((magic, newer)) = with_next_version(&fs::read(&file)?) else { continue };
        if magic != SUPERBLOCK && !seen.insert(magic) {
            continue;
        }
        count += 1;
        let relative = file.strip_prefix(&original)?;
        wrong.extend(judge(place, &original, relative, &newer)?);
    }
    let got = match wrong.first() {
        Some(first) => format!("{} of {count} files are not, first {first}", wrong.len()),
        None => format!("{count} files of {engine}, each refused"),
    };
    Ok(Verdict::of(wrong.is_empty() && count > 0, "each file refused as of a newer version", got))
}

/// Makes a database with enough pairs that each kind of file is there.
fn make(directory: &Path, engine: &str) -> Result<(), Box<dyn std::error::Error>> {
    let options = Options { memory_bytes: 64 << 20, ..Options::default() };
    let db = Db::open(directory, options)?;
    let options = KeyspaceOptions { engine: engine.parse()?, ..KeyspaceOptions::default() };
    let keyspace = db.keyspace("main", options)?;
    for index in 0..20_000 {
        keyspace.put(format!("k{index:08}").as_bytes(), &[7; 100])?;
    }
    db.flush()?;
    Ok(db.close()?)
}

/// Returns the magic bytes of a file, and the file with the next version in its header. Returns
/// none if the file has no header.
fn with_next_version(file: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (covered, rest) = file.get(..HEADER)?.split_at(CHECKSUM);
    if crc32c::crc32c(covered).to_le_bytes() != rest {
        return None;
    }
    let (magic, mut newer) = (covered.get(..VERSION)?.to_vec(), file.to_vec());
    let version = u16::from_le_bytes(covered.get(VERSION..VERSION + 2)?.try_into().ok()?);
    newer.get_mut(VERSION..VERSION + 2)?.copy_from_slice(&version.wrapping_add(1).to_le_bytes());
    let checksum = crc32c::crc32c(newer.get(..CHECKSUM)?).to_le_bytes();
    newer.get_mut(CHECKSUM..HEADER)?.copy_from_slice(&checksum);
    Some((magic, newer))
}

/// Returns what is wrong with the answers to one newer file.
fn judge(
    place: &Place,
    original: &Path,
    file: &Path,
    newer: &[u8],
) -> Result<Option<String>, Box<dyn std::error::Error>> {
    let (copy, salvaged) = (place.path("copy"), place.path("salvaged"));
    let mut wrong = None;
    for arguments in [
        &["check", "copy"][..],
        &["get", "copy", "k00000001", "-k", "main", "--memory", "64mb"],
        &["put", "copy", "a", "b", "-k", "main", "--memory", "64mb"],
        &["salvage", "copy", "salvaged", "--memory", "64mb"],
    ] {
        place::copy(original, &copy)?;
        fs::write(copy.join(file), newer)?;
        let before = contents(&copy)?;
        let ran = place.thermocline(arguments)?;
        let text = ran.text.to_lowercase();
        let is_named = text.contains("newer") || text.contains("this version reads up to");
        let is_changed = contents(&copy)? != before;
        if ran.is_success() || !is_named || is_changed {
            let changed = if is_changed { ", files changed" } else { "" };
            let command = arguments.first().unwrap_or(&"");
            wrong = wrong.or_else(|| {
                Some(format!("{}: {command}: {}{changed}", file.display(), ran.summary()))
            });
        }
        fs::remove_dir_all(&copy)?;
        let _ = fs::remove_dir_all(&salvaged);
    }
    Ok(wrong)
}

/// Returns the files of a directory with their checksums; the lock file may be made.
fn contents(directory: &Path) -> Result<Vec<(String, u32)>, Box<dyn std::error::Error>> {
    let mut contents = Vec::new();
    for file in place::files_below(directory) {
        let name = file.display().to_string();
        if !name.ends_with("LOCK") {
            contents.push((name, crc32c::crc32c(&fs::read(&file)?)));
        }
    }
    Ok(contents)
}
