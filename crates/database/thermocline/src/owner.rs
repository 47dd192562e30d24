//! The file `KEYSPACE`: to which database and keyspace a directory of files belongs.
//!
//! Each directory `keyspaces/NAME/ID` has one. It proves which directories this database made, so
//! that opening removes no other. It also distinguishes a directory that a crash left from one that
//! only a newer catalog names.
//!
//! 1. A new directory begins with the file under the name [`MAKING`], durable before anything else
//!    is in the directory.
//! 2. The catalog is stored with the keyspace.
//! 3. The file gets its own name, durable before the keyspace takes a write.
//!
//! # Invariants
//! - O1. A directory whose file has the name [`MAKING`] has no write that was acknowledged, unless
//!   the catalog names it: opening does step 3 before the keyspace takes a write.
//! - O2. A directory whose file has its own name was in a catalog. If the catalog gave out its id
//!   and does not name it, it was dropped or cleared. If the catalog never gave out its id, the
//!   catalog is older than the directory.
//!
//! # Format
//! See `docs/formats/catalog.md`.

use std::fmt;

use codec::{Corruption, FileHeader, Format, HeaderError, Reader, Writer};
use device::{Device, Mode, PerProcess, SyncKind};
use sync::locks::Mutex;

use crate::catalog::{self, Catalog, Entry};
use crate::error::{Error, Result};
use crate::open::KEYSPACES_DIR;

/// The file's name.
const FILE: &str = "KEYSPACE";
/// Its name until the catalog names the keyspace.
const MAKING: &str = "KEYSPACE.making";
/// Magic and version of the file.
const FORMAT: Format = Format::new(*b"TCKEYSPC", 1, 0);
/// Bytes of the longest file: an entry has a few strings of at most 64 bytes.
const FILE_BYTES_MAX: u64 = 4096;

/// Locked while the directory of a keyspace's name is made together with one in it, and while one
/// is removed that is empty. Nothing else is locked meanwhile. One for all databases of a process:
/// it is rare, and takes a moment.
static NAMES: PerProcess<Mutex<()>> = PerProcess::new(Mutex::default);

/// The fields of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The database's id.
    pub(crate) database: [u8; 16],
    /// The keyspace, with the options that it was made with.
    pub(crate) entry: Entry,
}

impl Owner {
    fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        let mut writer = Writer::new(&mut body);
        writer.put_bytes(&self.database);
        writer.put_u16(catalog::VERSION);
        self.entry.encode(&mut writer);
        let mut bytes = FORMAT.header(0).encode().to_vec();
        let mut writer = Writer::new(&mut bytes);
        writer.put_u32(codec::crc32c(&body));
        writer.put_bytes(&body);
        bytes
    }

    fn decode(bytes: &[u8], file: &str) -> Result<Self> {
        FORMAT.decode(bytes).map_err(|error| Corruption::from(error).at(file, 0))?;
        Self::decode_body(bytes).map_err(|damage| damage.at(file, 0).into())
    }

    fn decode_body(bytes: &[u8]) -> std::result::Result<Self, Corruption> {
        let mut reader = Reader::new(bytes);
        reader.take_bytes(FileHeader::LEN)?;
        let checksum = reader.take_u32()?;
        if codec::crc32c(reader.rest()) != checksum {
            return Err(reader.corruption("the checksum does not match"));
        }
        Self::decode_content(&mut reader)
    }

    /// Reads the bytes that the checksum covers.
    fn decode_content(reader: &mut Reader<'_>) -> std::result::Result<Self, Corruption> {
        let database = reader.take_array()?;
        let version = reader.take_u16()?;
        if version > catalog::VERSION {
            // A catalog of that version belongs to it, so a newer release wrote both.
            let newest = catalog::VERSION;
            return Err(HeaderError::Version { found: version, newest }.into());
        }
        let entry = Entry::decode(reader, version).map_err(|error| error.into_damage(reader))?;
        reader.clone().finish()?;
        Ok(Self { database, entry })
    }
}

/// Decodes the content of a file `KEYSPACE` that no checksum covers, and encodes it again: the
/// entry for fuzzing.
///
/// # Errors
/// The damage.
///
/// # Panics
/// If the result is another owner.
pub fn decode_owner(content: &[u8]) -> std::result::Result<(), Corruption> {
    let owner = Owner::decode_content(&mut Reader::new(content))?;
    let again = Owner::decode_body(&owner.encode());
    assert_eq!(again, Ok(owner), "what was encoded decodes");
    Ok(())
}

/// Makes room for the directory of a new keyspace: removes one that this database left there.
/// Returns false if something else is there, which stays.
pub(crate) fn make_vacant(device: &dyn Device, catalog: &Catalog, entry: &Entry) -> Result<bool> {
    let dir = entry.dir();
    if !device.exists(&dir)? || device.remove_empty_dir(&dir)? {
        return Ok(true);
    }
    let Some(Unnamed::Leftover { dir, is_bare }) = judge(device, catalog, dir)? else {
        return Ok(false);
    };
    remove(device, &dir, is_bare)?;
    Ok(true)
}

/// Step 1: makes the directory of a new keyspace. The names of the directories above it are not
/// durable yet.
pub(crate) fn begin(device: &dyn Device, database: [u8; 16], entry: &Entry) -> Result<()> {
    write(device, database, entry, MAKING)
}

/// Step 3, also for a directory for which it is done.
pub(crate) fn finish(device: &dyn Device, entry: &Entry) -> device::Result<()> {
    let dir = entry.dir();
    let (from, to) = (device::join(&dir, MAKING), device::join(&dir, FILE));
    if device.exists(&from)? {
        device.rename(&from, &to)?;
        device.sync_dir(&dir)?;
    }
    Ok(())
}

/// Writes the file of a copy, whose catalog comes later; durable but for the directory's own name.
pub(crate) fn copy_to(device: &dyn Device, database: [u8; 16], entry: &Entry) -> Result<()> {
    write(device, database, entry, FILE)
}

fn write(device: &dyn Device, database: [u8; 16], entry: &Entry, name: &str) -> Result<()> {
    let dir = entry.dir();
    let making = NAMES.lock();
    device.create_dir(&dir)?;
    drop(making);
    let file = device.open(&device::join(&dir, name), Mode::CreateNew)?;
    file.write_at(0, &Owner { database, entry: entry.clone() }.encode())?;
    file.sync(SyncKind::All)?;
    Ok(device.sync_dir(&dir)?)
}

/// Reads the file in the directory `dir`, and whether it has its own name; `None` if there is none.
fn read(device: &dyn Device, dir: &str) -> Result<Option<(Owner, bool)>> {
    for (name, is_made) in [(FILE, true), (MAKING, false)] {
        let name = device::join(dir, name);
        let file = match device.open(&name, Mode::Read) {
            Ok(file) => file,
            Err(device::Error::NotFound { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        let bytes = catalog::read_whole(&*file, &name, &FORMAT, FILE_BYTES_MAX)?;
        return Ok(Some((Owner::decode(&bytes, &name)?, is_made)));
    }
    Ok(None)
}

/// Refuses the directory of an entry whose file is missing, damaged, or of another keyspace.
///
/// # Errors
/// The damage, with the file's name.
pub(crate) fn check(device: &dyn Device, database: [u8; 16], entry: &Entry) -> Result<()> {
    let dir = entry.dir();
    let damage = |what: String| Corruption::new(what, 0).at(&device::join(&dir, FILE), 0).into();
    let Some((owner, _)) = read(device, &dir)? else {
        let what = format!("the file that says whose files these are is missing from {dir}");
        return Err(damage(what));
    };
    let (found, wanted) = (&owner.entry, entry);
    if owner.database != database {
        return Err(damage("the files are of another database".to_owned()));
    }
    if (found.id, &found.name, found.options.engine)
        != (wanted.id, &wanted.name, wanted.options.engine)
    {
        return Err(damage(format!("the files are those of {found}, not of {wanted}")));
    }
    Ok(())
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, name, options } = self;
        write!(f, "keyspace {name:?} (id {id}, engine {})", options.engine)
    }
}

/// A directory of this database that its catalog does not name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unnamed {
    /// It was dropped or cleared, or its creation did not finish: it can be removed.
    Leftover {
        /// The directory.
        dir: String,
        /// Whether all that is in it is a file [`MAKING`] whose bytes were not durable yet.
        is_bare: bool,
    },
    /// The catalog is older than this keyspace.
    Newer(Box<Entry>),
}

/// Finds the directories that this database made and that `catalog` does not name. All others, and
/// files, do not belong to the database.
pub(crate) fn unnamed(device: &dyn Device, catalog: &Catalog) -> Result<Vec<Unnamed>> {
    let mut found = Vec::new();
    if !device.exists(KEYSPACES_DIR)? {
        return Ok(found);
    }
    for space in device.list(KEYSPACES_DIR)?.into_iter().filter(|space| space.is_dir) {
        let above = catalog::keyspace_dir(&space.name);
        for one in device.list(&above)?.into_iter().filter(|one| one.is_dir) {
            let dir = device::join(&above, &one.name);
            if !catalog.keyspaces.iter().any(|entry| entry.dir() == dir) {
                found.extend(judge(device, catalog, dir)?);
            }
        }
    }
    Ok(found)
}

/// Decides about one directory. `None` if it is not the database's.
fn judge(device: &dyn Device, catalog: &Catalog, dir: String) -> Result<Option<Unnamed>> {
    let (owner, is_made) = match read(device, &dir) {
        Ok(Some(found)) => found,
        // A file that has changed proves nothing.
        Ok(None) | Err(Error::NewerVersion { .. }) => return Ok(None),
        Err(error) if error.corruption().is_some() => {
            let is_bare = is_bare(device, &dir)?;
            return Ok(is_bare.then_some(Unnamed::Leftover { dir, is_bare }));
        }
        Err(error) => return Err(error),
    };
    if owner.database != catalog.id || owner.entry.dir() != dir {
        return Ok(None);
    }
    // [O1], [O2]
    let was_named = is_made && owner.entry.id >= catalog.next_keyspace;
    Ok(Some(match was_named {
        true => Unnamed::Newer(Box::new(owner.entry)),
        false => Unnamed::Leftover { dir, is_bare: false },
    }))
}

/// Returns whether a directory has a file [`MAKING`] of zeros alone, and nothing else: a crash
/// during step 1 leaves it. Nothing in it could be lost.
fn is_bare(device: &dyn Device, dir: &str) -> Result<bool> {
    if !device.list(dir)?.iter().all(|entry| entry.name == MAKING && !entry.is_dir) {
        return Ok(false);
    }
    let file = device.open(&device::join(dir, MAKING), Mode::Read)?;
    let len = file.len()?.min(FILE_BYTES_MAX + 1);
    let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
    file.read_at(0, &mut bytes)?;
    Ok(len <= FILE_BYTES_MAX && bytes.iter().all(|byte| *byte == 0))
}

/// Removes a leftover.
pub(crate) fn remove(device: &dyn Device, dir: &str, is_bare: bool) -> Result<()> {
    if is_bare {
        device.remove(&device::join(dir, MAKING))?;
        return Ok(device.remove_empty_dir(dir).map(drop)?);
    }
    Ok(remove_dropped(device, dir)?)
}

/// Removes the directory of a keyspace that was dropped or cleared, and that of its name if nothing
/// else is in it.
pub(crate) fn remove_dropped(device: &dyn Device, dir: &str) -> device::Result<()> {
    device.remove_dir(dir)?;
    let Some((above, _)) = dir.rsplit_once('/') else { return Ok(()) };
    let _making = NAMES.lock();
    device.remove_empty_dir(above).map(drop)
}

/// Returns the evidence that `catalog` is older than the directories of keyspaces, if there is any.
pub(crate) fn older_than(device: &dyn Device, catalog: &Catalog) -> Result<Option<Corruption>> {
    let newer = unnamed(device, catalog)?.into_iter().find_map(|one| match one {
        Unnamed::Newer(entry) => Some(entry),
        Unnamed::Leftover { .. } => None,
    });
    Ok(newer.map(|entry| is_older(&format!("{} holds {entry}", entry.dir()))))
}

/// Returns the damage of a catalog that `evidence` shows to be older than other files.
pub(crate) fn is_older(evidence: &str) -> Corruption {
    let what = format!(
        "the catalog is older than the rest of the database: {evidence}, of which it does not know"
    );
    Corruption::new(what, 0).at(catalog::FILE, 0)
}
