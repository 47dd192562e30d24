//! Tables in local files: one file for each table. Its data are one fragment. A table that was
//! copied from elsewhere may have several fragments, sequentially in the file.
//!
//! # Format
//! The file's header (16 bytes), the data, the metadata, zeros up to a multiple of [`UNIT`], of
//! which the footer is the last [`FOOTER_BYTES`]. So the file is read and written in whole blocks,
//! past the page cache where the device is made so. `docs/formats/lsm-table.md` has the bytes.

use std::sync::Arc;

use codec::{Corruption, FileHeader, Format, Place, Reader, Writer};
use device::{Buffer, Device, File, Mode, OnDemandFile, SyncKind};
use engine::{Error, Result};
use sync::locks::Mutex;

use super::held::Home;
use super::metadata::Metadata;
use super::source::{Span, TableSink, TableSource, TableStore};
use super::summary::{Summary, TableId};

/// The file's header.
pub const FORMAT: Format = Format::new(*b"TCLSMTAB", 3, 0);
/// Files are multiples of this, and so are reads and writes past the page cache.
const UNIT: u64 = 4096;
/// Number, nonce, bytes of data, bytes of metadata, zeros, checksum.
const FOOTER_BYTES: usize = 40;
/// Prefix of a file's name.
const PREFIX: &str = "table-";
/// Bytes of the longest write to the device.
const WRITE_BYTES_MAX: usize = 128 << 10;

/// Returns the name of a table's file.
pub(crate) fn file_name(number: u64) -> String {
    format!("{PREFIX}{number}")
}

fn file_number(name: &str) -> Option<u64> {
    let number = name.strip_prefix(PREFIX)?.parse().ok()?;
    (file_name(number) == name).then_some(number)
}

/// The tables in a device's root: a file each.
#[derive(Debug)]
pub struct LocalTables {
    device: Arc<dyn Device>,
    /// Held while a file is made or removed, so that none is once this is set.
    is_closed: Mutex<bool>,
}

impl LocalTables {
    /// Returns the tables in the root of `device`.
    pub fn on(device: Arc<dyn Device>) -> Arc<dyn TableStore> {
        Arc::new(Self { device, is_closed: Mutex::new(false) })
    }
}

impl TableStore for LocalTables {
    fn fragments_max(&self) -> u32 {
        1
    }

    fn create(&self, id: TableId, buffer_bytes: usize) -> Result<Box<dyn TableSink>> {
        let is_closed = self.is_closed.lock();
        if *is_closed {
            return Err(Error::Closed);
        }
        let file = self.device.open_blocks(&file_name(id.number), Mode::CreateNew)?;
        drop(is_closed);
        let buffer_bytes = buffer_bytes.clamp(UNIT as usize, WRITE_BYTES_MAX);
        let buffer = Buffer::zeroed(buffer_bytes.next_multiple_of(UNIT as usize));
        let mut sink = Sink { file, id, buffer, filled: 0, written: 0, fragment: 0 };
        sink.write(&FORMAT.header(0).encode())?;
        Ok(Box::new(sink))
    }

    fn open(&self, summary: &Summary) -> Result<Arc<dyn TableSource>> {
        let name = file_name(summary.id.number);
        let file = OnDemandFile::new(&self.device, name.clone(), Mode::Read);
        let opened = match file.get() {
            Err(device::Error::NotFound { .. }) => {
                let what = "a table that the manifest names is missing";
                return Err(Corruption::new(what, 0).at(&name, 0).into());
            }
            opened => opened?,
        };
        let source = LocalTable {
            file: Arc::new(file),
            name,
            id: summary.id,
            bytes: opened.len()?,
            unit: if opened.alignment() == 1 { 1 } else { UNIT },
            begins: begins(summary.fragments()),
            data: 0,
            metadata: 0,
        };
        Ok(Arc::new(source.verified(summary)?))
    }

    fn remove(&self, number: u64) -> Result<()> {
        let is_closed = self.is_closed.lock();
        if *is_closed {
            return Ok(());
        }
        match self.device.remove(&file_name(number)) {
            Err(device::Error::NotFound { .. }) => Ok(()),
            removed => Ok(removed?),
        }
    }

    fn close(&self) {
        *self.is_closed.lock() = true;
    }

    fn list(&self) -> Result<Vec<u64>> {
        let entries = self.device.list("")?;
        Ok(entries.iter().filter_map(|entry| file_number(&entry.name)).collect())
    }

    fn sync_names(&self) -> Result<()> {
        Ok(self.device.sync_dir("")?)
    }
}

/// Returns the summary of the table with this number, as far as its file has it. The file has
/// neither the number of the write that ingested the table, if one did, nor the table's level.
pub fn summary_in_file(device: &dyn Device, number: u64) -> Result<Summary> {
    let name = file_name(number);
    let file = device.open(&name, Mode::Read)?;
    let stored_bytes = file.len()?;
    let too_short = || Corruption::new("a table is cut short", 0).at(&name, 0);
    let at = stored_bytes.checked_sub(FOOTER_BYTES as u64).ok_or_else(too_short)?;
    let mut footer = [0; FOOTER_BYTES];
    file.read_at(at, &mut footer)?;
    let placed = |damage: Corruption| damage.at(&name, at);
    let mut fields = Reader::new(&footer);
    fields.take_u64().map_err(placed)?;
    // The checksum covers the number and this.
    let id = TableId { number, nonce: fields.take_u64().map_err(placed)? };
    let footer = Footer::decode(&footer, id, stored_bytes).map_err(placed)?;
    let mut metadata = vec![0; footer.metadata as usize];
    let begin = FileHeader::LEN as u64 + footer.data;
    file.read_at(begin, &mut metadata)?;
    let metadata = Metadata::decode(&metadata, id, Home::Own);
    let metadata = metadata.map_err(|damage| damage.at(&name, begin))?;
    Ok(Summary { id, stored_bytes, ingested: None, properties: metadata.properties })
}

/// A file that is being written.
struct Sink {
    file: Arc<dyn File>,
    id: TableId,
    buffer: Buffer,
    filled: usize,
    /// Bytes before the buffer.
    written: u64,
    /// The one that was appended to last.
    fragment: u32,
}

impl Sink {
    fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let (_, room) = self.buffer.split_at_mut(self.filled);
            let (now, later) = bytes.split_at(bytes.len().min(room.len()));
            let (room, _) = room.split_at_mut(now.len());
            room.copy_from_slice(now);
            self.filled += now.len();
            bytes = later;
            if self.filled == self.buffer.len() {
                self.write_out()?;
            }
        }
        Ok(())
    }

    /// Writes the content of the buffer, whole blocks.
    fn write_out(&mut self) -> Result<()> {
        let (filled, _) = self.buffer.split_at(self.filled);
        self.file.write_at(self.written, filled)?;
        self.written += self.filled as u64;
        self.filled = 0;
        Ok(())
    }

    fn offset(&self) -> u64 {
        self.written + self.filled as u64
    }
}

impl TableSink for Sink {
    fn append(&mut self, fragment: u32, bytes: &[u8]) -> Result<()> {
        assert!(fragment >= self.fragment, "fragments are appended in order");
        self.fragment = fragment;
        self.write(bytes)
    }

    fn finish(mut self: Box<Self>, metadata: &[u8]) -> Result<u64> {
        let data = self.offset() - FileHeader::LEN as u64;
        self.write(metadata)?;
        let bytes = (self.offset() + FOOTER_BYTES as u64).next_multiple_of(UNIT);
        let footer = Footer { id: self.id, data, metadata: metadata.len() as u64 };
        let gap = bytes - FOOTER_BYTES as u64 - self.offset();
        self.write(&vec![0; gap as usize])?;
        self.write(&footer.encode(bytes))?;
        if self.filled > 0 {
            self.write_out()?;
        }
        self.file.sync(SyncKind::All)?;
        Ok(bytes)
    }

    fn memory(&self) -> usize {
        self.buffer.len()
    }
}

/// The end of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Footer {
    id: TableId,
    data: u64,
    metadata: u64,
}

/// Returns the place of the footer of a file of `bytes` bytes.
fn footer_place(id: TableId, bytes: u64) -> Place {
    Place { file: id.number, offset: bytes - FOOTER_BYTES as u64, generation: id.nonce }
}

impl Footer {
    /// Encodes the footer of a file of `bytes` bytes.
    fn encode(&self, bytes: u64) -> Vec<u8> {
        let mut footer = Vec::new();
        let mut out = Writer::new(&mut footer);
        for field in [self.id.number, self.id.nonce, self.data, self.metadata] {
            out.put_u64(field);
        }
        out.put_u32(0);
        let checksum = footer_place(self.id, bytes).crc32c(&footer);
        footer.extend_from_slice(&checksum.to_le_bytes());
        footer
    }

    /// Decodes the footer of the file of `id`, which has `bytes` bytes.
    fn decode(footer: &[u8], id: TableId, bytes: u64) -> std::result::Result<Self, Corruption> {
        let Some((content, checksum)) = footer.split_last_chunk::<4>() else {
            return Err(Corruption::new("a table's footer is cut short", 0));
        };
        if footer_place(id, bytes).crc32c(content) != u32::from_le_bytes(*checksum) {
            return Err(Corruption::new("the checksum of a table's footer does not match", 0));
        }
        let mut reader = Reader::new(content);
        let found = TableId { number: reader.take_u64()?, nonce: reader.take_u64()? };
        let footer = Self { id: found, data: reader.take_u64()?, metadata: reader.take_u64()? };
        let room = bytes - (FileHeader::LEN + FOOTER_BYTES) as u64;
        let fits = footer.data.checked_add(footer.metadata).is_some_and(|sum| sum <= room);
        if found != id || !fits {
            return Err(Corruption::new("a table's footer is not this file's", 0));
        }
        Ok(footer)
    }
}

/// Encodes a footer of a file of `bytes` bytes with a correct checksum, and decodes it: the entry
/// for fuzzing. Returns the number of bytes of data.
///
/// # Errors
/// The damage.
///
/// # Panics
/// If another footer comes back.
pub fn decode_footer(fields: [u64; 4], bytes: u64) -> std::result::Result<u64, Corruption> {
    let [number, nonce, data, metadata] = fields;
    let bytes = bytes.max((FileHeader::LEN + FOOTER_BYTES) as u64);
    let written = Footer { id: TableId { number, nonce }, data, metadata };
    let encoded = written.encode(bytes);
    let footer = Footer::decode(&encoded, written.id, bytes)?;
    assert_eq!(footer, written);
    Ok(footer.data)
}

/// A file, which is opened when it is read. No span opens it: lookups ask for spans (law L9).
#[derive(Debug)]
struct LocalTable {
    file: Arc<OnDemandFile>,
    name: String,
    id: TableId,
    bytes: u64,
    /// The offset and the length of each read are multiples of this.
    unit: u64,
    /// Offset at which each fragment begins.
    begins: Vec<u64>,
    data: u64,
    metadata: u64,
}

/// Returns the offsets at which fragments of these lengths begin in a file.
fn begins(fragments: &[u64]) -> Vec<u64> {
    let header = FileHeader::LEN as u64;
    let begins = fragments.iter().scan(header, |next, len| {
        let begin = *next;
        *next = begin.saturating_add(*len);
        Some(begin)
    });
    begins.collect()
}

impl LocalTable {
    /// Returns the offset in the file of a place of a fragment.
    fn place_in_file(&self, fragment: u32, offset: u64) -> u64 {
        let begin = self.begins.get(fragment as usize);
        debug_assert!(begin.is_some(), "the summary has this fragment");
        begin.map_or(self.bytes, |begin| begin + offset)
    }

    /// Returns this table after a check that its length, header and footer match `summary`.
    fn verified(mut self, summary: &Summary) -> Result<Self> {
        let (bytes, expected) = (self.bytes, summary.stored_bytes);
        if bytes != expected || bytes < UNIT || bytes % UNIT != 0 {
            let what = format!("a table of {expected} bytes has {bytes}");
            return Err(Corruption::new(what, 0).at(&self.name, 0).into());
        }
        let mut header = [0; FileHeader::LEN];
        self.read_at(0, &mut header)?;
        FORMAT.decode(&header).map_err(|error| Corruption::from(error).at(&self.name, 0))?;
        let mut footer = [0; FOOTER_BYTES];
        let at = bytes - FOOTER_BYTES as u64;
        self.read_at(at, &mut footer)?;
        let footer = Footer::decode(&footer, self.id, bytes);
        let footer = footer.map_err(|damage| damage.at(&self.name, at))?;
        (self.data, self.metadata) = (footer.data, footer.metadata);
        let data = summary.fragments().iter().try_fold(0u64, |sum, len| sum.checked_add(*len));
        if data != Some(footer.data) {
            let what = "a table's data are not as long as the manifest says";
            return Err(Corruption::new(what, 0).at(&self.name, at).into());
        }
        Ok(self)
    }

    /// Returns the span of `len` bytes of the file.
    fn span_at(&self, wanted: u64, len: usize) -> Span {
        let offset = wanted - wanted % self.unit;
        let end = (wanted + len as u64).next_multiple_of(self.unit);
        let skipped = (wanted - offset) as usize;
        let read_len = (end - offset) as usize;
        let file = Arc::clone(&self.file) as Arc<dyn File>;
        Span { file, offset, read_len, skipped, len }
    }

    /// Reads, in whole blocks if the file requires them.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        if self.unit == 1 {
            return Ok(self.file.read_at(offset, into)?);
        }
        let span = self.span_at(offset, into.len());
        let mut whole = Buffer::zeroed(span.read_len);
        span.file.read_at(span.offset, &mut whole)?;
        let (_, wanted) = whole.split_at(span.skipped);
        let (wanted, _) = wanted.split_at(into.len());
        into.copy_from_slice(wanted);
        Ok(())
    }
}

impl TableSource for LocalTable {
    fn read(&self, fragment: u32, offset: u64, into: &mut [u8]) -> Result<()> {
        self.read_at(self.place_in_file(fragment, offset), into)
    }

    fn span(&self, fragment: u32, offset: u64, len: usize) -> Result<Span> {
        Ok(self.span_at(self.place_in_file(fragment, offset), len))
    }

    fn span_of_metadata(&self) -> Result<Span> {
        let offset = FileHeader::LEN as u64 + self.data;
        Ok(self.span_at(offset, self.metadata as usize))
    }

    fn metadata(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.metadata as usize];
        self.read_at(FileHeader::LEN as u64 + self.data, &mut bytes)?;
        Ok(bytes)
    }

    fn place_of(&self, fragment: u32, offset: u64) -> (String, u64) {
        (self.name.clone(), self.place_in_file(fragment, offset))
    }

    fn place_of_metadata(&self) -> (String, u64) {
        (self.name.clone(), FileHeader::LEN as u64 + self.data)
    }

    /// Verifies the zeros before the footer.
    fn check(&self) -> Result<()> {
        let from = FileHeader::LEN as u64 + self.data + self.metadata;
        let to = self.bytes - FOOTER_BYTES as u64;
        let mut gap = vec![0; to.saturating_sub(from).min(UNIT) as usize];
        self.read_at(from, &mut gap)?;
        if gap.iter().any(|byte| *byte != 0) {
            let what = "there is something between a table's metadata and its footer";
            return Err(Corruption::new(what, 0).at(&self.name, from).into());
        }
        Ok(())
    }
}
