//! The file `THERMOCLINE`: it marks a directory as a database, and lists the keyspaces.
//!
//! # Format
//! See `docs/formats/catalog.md`. It is replaced as a whole: written to another file, synced,
//! renamed, and the directory synced; so a crash leaves the old one or the new one.
//!
//! # Invariants
//! - I1. A keyspace id is never given twice, so that journal records of a dropped keyspace can
//!   never reach another one.

use codec::{Corruption, Format, Reader, SeqNo, Writer};
use device::{Device, File, Mode, SyncKind};
use engine::Settings;

use crate::drivers::EngineKind;
use crate::error::{Error, Result};
use crate::merge::MergeName;
use crate::open::{JOURNAL_DIR, KEYSPACES_DIR, LOCK_FILE};
use crate::options::KeyspaceOptions;
use crate::owner;

/// The file's name.
pub(crate) const FILE: &str = "THERMOCLINE";
/// The name under which its successor is written.
pub(crate) const FILE_NEXT: &str = "THERMOCLINE.next";
/// The file in a keyspace's directory from which every engine begins.
const SUPERBLOCK: &str = engine::Superblock::NAME;
/// The first bytes of the file.
const FORMAT: Format = Format::new(*b"THERMOCL", VERSION, 0);
/// The version that is written.
pub(crate) const VERSION: u16 = 5;
/// Journaled flag of a keyspace.
const FLAG_JOURNALED: u8 = 1;
/// Flag of a keyspace whose values may expire.
const FLAG_EXPIRING: u8 = 2;
/// From this version on an entry has the bytes of memory for its engine.
const VERSION_OF_MEMORY: u16 = 2;
/// From this version on an entry has its engine's own options, which differ from the database's.
const VERSION_OF_SETTINGS: u16 = 4;
/// From this version on an entry ends with the name of the operator that its values are merged by.
const VERSION_OF_MERGE: u16 = 5;
/// Bytes of the longest file: some hundred thousand keyspaces.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Bytes of the smallest keyspace entry: id, flags, two empty prefixed strings.
const ENTRY_BYTES_MIN: usize = 4 + 1 + 1 + 1;

/// One keyspace as the catalog knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) options: KeyspaceOptions,
}

impl Entry {
    /// Returns the directory of its files, relative to the database's.
    pub(crate) fn dir(&self) -> String {
        format!("{}/{}", keyspace_dir(&self.name), self.id)
    }

    /// Appends its bytes.
    pub(crate) fn encode(&self, writer: &mut Writer<'_>) {
        writer.put_u32(self.id);
        writer.put_u8(flags(self.options));
        writer.put_u64(self.options.memory_bytes.unwrap_or(0));
        writer.put_prefixed(self.options.engine.name().as_bytes());
        writer.put_prefixed(self.name.as_bytes());
        Settings::encode(self.options.settings, writer);
        let merge = self.options.merge;
        writer.put_prefixed(merge.as_ref().map_or("", MergeName::as_str).as_bytes());
    }

    /// Reads its bytes, as a catalog of this version has them.
    pub(crate) fn decode(
        reader: &mut Reader<'_>,
        version: u16,
    ) -> std::result::Result<Self, NoEntry> {
        let id = reader.take_u32()?;
        let flags = reader.take_u8()?;
        let memory = if version < VERSION_OF_MEMORY { 0 } else { reader.take_u64()? };
        let memory_bytes = Some(memory).filter(|bytes| *bytes > 0);
        let engine = text(reader)?.parse::<EngineKind>().map_err(NoEntry::UnknownEngine)?;
        let name = text(reader)?;
        check_keyspace_name(&name).map_err(|error| reader.corruption(error.to_string()))?;
        if flags & !(FLAG_JOURNALED | FLAG_EXPIRING) != 0 {
            let what = format!("a keyspace has unknown flags {flags:#04x}");
            return Err(reader.corruption(what).into());
        }
        let settings = match version < VERSION_OF_SETTINGS {
            true => None,
            false => Settings::decode(engine.driver(), reader)?,
        };
        let merge = match version < VERSION_OF_MERGE {
            true => None,
            false => take_merge(reader)?,
        };
        let journaled = flags & FLAG_JOURNALED != 0;
        let expiring = flags & FLAG_EXPIRING != 0;
        let options =
            KeyspaceOptions { engine, journaled, memory_bytes, expiring, merge, settings };
        Ok(Self { id, name, options })
    }
}

/// The reason why bytes are no entry.
#[derive(Debug)]
pub(crate) enum NoEntry {
    Damage(Corruption),
    /// [`Error::UnknownEngine`]: another build has the engine.
    UnknownEngine(Error),
}

impl NoEntry {
    /// Returns it as damage at the position of `reader`.
    pub(crate) fn into_damage(self, reader: &Reader<'_>) -> Corruption {
        match self {
            Self::Damage(damage) => damage,
            Self::UnknownEngine(error) => reader.corruption(error.to_string()),
        }
    }
}

impl From<Corruption> for NoEntry {
    fn from(damage: Corruption) -> Self {
        Self::Damage(damage)
    }
}

/// Returns the directory of all instances of a keyspace.
pub(crate) fn keyspace_dir(name: &str) -> String {
    format!("{KEYSPACES_DIR}/{name}")
}

/// The contents of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Catalog {
    /// Random, for life.
    pub(crate) id: [u8; 16],
    /// The id that the next keyspace gets.
    pub(crate) next_keyspace: u32,
    /// The newest write when this was stored. If no keyspace is journaled, nothing in the journal
    /// up to here is needed any more.
    pub(crate) newest: SeqNo,
    pub(crate) keyspaces: Vec<Entry>,
}

impl Catalog {
    pub(crate) fn new(id: [u8; 16]) -> Self {
        Self { id, next_keyspace: 1, newest: SeqNo::ZERO, keyspaces: Vec::new() }
    }

    /// Returns the id of the database's journal.
    pub(crate) fn journal_id(&self) -> u64 {
        codec::hash64(0, &self.id)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        let mut writer = Writer::new(&mut body);
        writer.put_bytes(&self.id);
        writer.put_u32(self.next_keyspace);
        writer.put_u64(self.newest.get());
        writer.put_varint(self.keyspaces.len() as u64);
        for entry in &self.keyspaces {
            entry.encode(&mut writer);
        }
        let mut bytes = FORMAT.header(0).encode().to_vec();
        let mut writer = Writer::new(&mut bytes);
        writer.put_u32(codec::crc32c(&body));
        writer.put_bytes(&body);
        bytes
    }

    /// Reads the file's bytes.
    ///
    /// # Errors
    /// [`Error::NewerVersion`]; [`Error::UnknownEngine`]; [`Error::Engine`] with the place of
    /// damage.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let header = FORMAT.decode(bytes).map_err(|error| Corruption::from(error).at(FILE, 0))?;
        Self::decode_body(bytes, header.version).map_err(|error| match error {
            NoEntry::Damage(damage) => damage.at(FILE, 0).into(),
            NoEntry::UnknownEngine(error) => error,
        })
    }

    fn decode_body(bytes: &[u8], version: u16) -> std::result::Result<Self, NoEntry> {
        let mut reader = Reader::new(bytes);
        reader.take_bytes(codec::FileHeader::LEN)?;
        let checksum = reader.take_u32()?;
        if codec::crc32c(reader.rest()) != checksum {
            return Err(reader.corruption("the catalog's checksum does not match").into());
        }
        Self::decode_content(&mut reader, version)
    }

    /// Decodes the bytes that the checksum covers.
    fn decode_content(reader: &mut Reader<'_>, version: u16) -> std::result::Result<Self, NoEntry> {
        let id = reader.take_array()?;
        let next_keyspace = reader.take_u32()?;
        let newest = SeqNo::new(reader.take_u64()?);
        let count = reader.take_count(ENTRY_BYTES_MIN)?;
        let mut keyspaces = Vec::with_capacity(count);
        for _ in 0..count {
            keyspaces.push(Entry::decode(reader, version)?);
        }
        reader.clone().finish()?;
        Ok(Self { id, next_keyspace, newest, keyspaces })
    }

    /// Reads the file; `None` if there is none.
    pub(crate) fn load(device: &dyn Device) -> Result<Option<Self>> {
        let file = match device.open(FILE, Mode::Read) {
            Ok(file) => file,
            Err(device::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        Self::decode(&read_whole(&*file, FILE, &FORMAT, FILE_BYTES_MAX)?).map(Some)
    }

    /// Reads the file of a database that must exist; `place` is the database's name in messages.
    ///
    /// # Errors
    /// [`Error::NotADatabase`] with an entry of the directory, a database's own if there is one; as
    /// [`Self::load`].
    pub(crate) fn existing(device: &dyn Device, place: &str) -> Result<Self> {
        if let Some(catalog) = Self::load(device)? {
            return Ok(catalog);
        }
        let mut names: Vec<String> = device.list("")?.into_iter().map(|entry| entry.name).collect();
        names.retain(|name| name != LOCK_FILE);
        let own = names.iter().position(|name| [KEYSPACES_DIR, JOURNAL_DIR].contains(&&**name));
        let found = own.map(|at| names.swap_remove(at)).or_else(|| names.pop());
        Err(Error::NotADatabase { path: place.to_owned(), found })
    }

    /// Replaces the file; durable when this returns.
    pub(crate) fn store(&self, device: &dyn Device) -> Result<()> {
        match device.remove(FILE_NEXT) {
            Ok(()) | Err(device::Error::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let file = device.open(FILE_NEXT, Mode::CreateNew)?;
        file.write_at(0, &self.encode())?;
        file.sync(SyncKind::All)?;
        device.rename_synced(FILE_NEXT, FILE)?;
        Ok(())
    }
}

/// Reads a file whose bytes one checksum covers, and of which no release writes more than
/// `bytes_max`. A longer one is damage: its length is not believed, so no memory is taken for it.
pub(crate) fn read_whole(
    file: &dyn File,
    name: &str,
    format: &Format,
    bytes_max: u64,
) -> Result<Vec<u8>> {
    let len = file.len()?;
    let mut header =
        vec![0; codec::FileHeader::LEN.min(usize::try_from(len).unwrap_or(usize::MAX))];
    file.read_at(0, &mut header)?;
    // Before the length, which another version may change.
    format.refuse_newer(&header, name).map_err(Error::NewerVersion)?;
    if len > bytes_max {
        let what = format!("the file has {len} bytes, at most {bytes_max} are expected");
        return Err(Corruption::new(what, 0).at(name, 0).into());
    }
    let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
    file.read_at(0, &mut bytes)?;
    Ok(bytes)
}

/// Decodes the content of a catalog that no checksum vouches for, and encodes it again: the entry
/// for fuzzing. Returns the number of keyspaces.
///
/// # Errors
/// The damage.
///
/// # Panics
/// If the result is another catalog.
pub fn decode_catalog(content: &[u8]) -> std::result::Result<usize, Corruption> {
    let mut reader = Reader::new(content);
    let catalog = Catalog::decode_content(&mut reader, VERSION);
    let catalog = catalog.map_err(|error| error.into_damage(&reader))?;
    let again = Catalog::decode(&catalog.encode()).expect("what was encoded decodes");
    assert_eq!(again, catalog);
    Ok(catalog.keyspaces.len())
}

fn flags(options: KeyspaceOptions) -> u8 {
    let journaled = if options.journaled { FLAG_JOURNALED } else { 0 };
    let expiring = if options.expiring { FLAG_EXPIRING } else { 0 };
    journaled | expiring
}

/// Reads the name of an operator; returns `None` if it is empty.
fn take_merge(reader: &mut Reader<'_>) -> std::result::Result<Option<MergeName>, Corruption> {
    match text(reader)?.as_str() {
        "" => Ok(None),
        name => match name.parse() {
            Ok(name) => Ok(Some(name)),
            Err(error) => Err(reader.corruption(error.to_string())),
        },
    }
}

fn text(reader: &mut Reader<'_>) -> std::result::Result<String, Corruption> {
    let bytes = reader.take_prefixed()?;
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(reader.corruption("a name is not UTF-8")),
    }
}

/// Returns whether anything at all is where the files of an entry belong.
pub(crate) fn has_files(device: &dyn Device, entry: &Entry) -> Result<bool> {
    let dir = entry.dir();
    Ok(device.exists(&dir)? && !device.list(&dir)?.is_empty())
}

/// Refuses an entry that has no files, or no superblock among them. Every engine's files were
/// durable before the catalog named it, so an empty directory is no new keyspace but a lost one.
/// Also refuses an entry whose files belong to another keyspace, by the file that names it
/// ([`crate::owner`]).
pub(crate) fn check_present(device: &dyn Device, database: [u8; 16], entry: &Entry) -> Result<()> {
    let dir = entry.dir();
    let (what, place) = if !has_files(device, entry)? {
        (format!("the files of keyspace {} are missing", entry.name), dir)
    } else {
        let superblock = format!("{dir}/{SUPERBLOCK}");
        if device.exists(&superblock)? {
            return owner::check(device, database, entry);
        }
        (format!("the superblock of keyspace {} is missing", entry.name), superblock)
    };
    Err(Corruption::new(what, 0).at(&place, 0).into())
}

/// Accepts a keyspace's name.
pub(crate) fn check_keyspace_name(name: &str) -> Result<()> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let good = (1..=64).contains(&name.len())
        && name.bytes().all(allowed)
        && !name.starts_with(['.', '-']);
    if good { Ok(()) } else { Err(Error::BadKeyspaceName { name: name.to_owned() }) }
}
