//! A log: a file that grows by appends, each with a checksum. (S3)
//!
//! An append is written behind the last one and synced, before it is acknowledged. An opening reads
//! the whole log, and cuts what follows the last whole append.

use std::sync::Arc;

use codec::Corruption;
use device::{Device, File, Mode, SyncKind};

use crate::error::{Error, Result};
use crate::format::{
    APPEND_BYTES_MAX, APPEND_HEAD_BYTES, AppendHead, Appends, HEAD_BYTES, Head, append_bytes,
    walk_appends,
};

/// Bytes of a file that one read of the device has, if they are of several appends.
const READ_BYTES_MAX: u64 = 1 << 20;

/// An append of a log, by its place in the content and in the file.
#[derive(Clone, Copy, Debug)]
struct Piece {
    head: AppendHead,
    /// The offset of the append in the file.
    at: u64,
}

/// A log on the device.
#[derive(Debug)]
pub(crate) struct LogFile {
    pub(crate) head: Head,
    file: Arc<dyn File>,
    /// Ascending, without gaps.
    pieces: Vec<Piece>,
    length: u64,
    /// The length at which the range has sealed it.
    sealed: Option<u64>,
    /// The part of the content that was synced before the last append.
    synced: u64,
    /// The offset of the next append in the file.
    end: u64,
}

impl LogFile {
    /// Makes an empty log. It is durable on return, with its name.
    ///
    /// # Errors
    /// The device's. Then there may be a file of that name.
    pub(crate) fn create(device: &dyn Device, head: Head) -> Result<Self> {
        let part = head.name.part_path();
        let file = device.open(&part, Mode::CreateNew)?;
        file.write_at(0, &head.encode())?;
        file.sync(SyncKind::All).map_err(Error::Sync)?;
        // So a log by its own name has its first block.
        device.rename_synced(&part, &head.name.path()).map_err(Error::Sync)?;
        let (pieces, length, synced, end) = (Vec::new(), 0, 0, HEAD_BYTES as u64);
        Ok(Self { head, file, pieces, length, sealed: None, synced, end })
    }

    /// Opens a log, and cuts what follows its last whole append.
    ///
    /// # Errors
    /// The device's. Damage, also if the log would lose bytes that were synced.
    pub(crate) fn open(device: &dyn Device, head: Head) -> Result<Self> {
        let (file, bytes, found) = find_appends(device, &head, Mode::Write)?;
        let end = (HEAD_BYTES + found.end) as u64;
        if end < bytes {
            file.set_len(end)?;
        }
        // The last appends may be in the page cache alone.
        file.sync(SyncKind::All).map_err(Error::Sync)?;
        let piece = |(head, at): (AppendHead, usize)| Piece { head, at: (HEAD_BYTES + at) as u64 };
        let pieces = found.all.into_iter().map(piece).collect();
        let (length, synced) = (found.length, found.length);
        Ok(Self { head, file, pieces, length, sealed: None, synced, end })
    }

    /// Reads a log, and changes nothing. Returns the bytes of its content.
    ///
    /// # Errors
    /// As [`LogFile::open`].
    pub(crate) fn check(device: &dyn Device, head: &Head) -> Result<u64> {
        find_appends(device, head, Mode::Read).map(|(_, _, found)| found.length)
    }

    /// Returns the bytes by which appends of `bytes` bytes of content grow the file, at most.
    pub(crate) fn growth(bytes: usize) -> u64 {
        let parts = bytes.div_ceil(APPEND_BYTES_MAX).max(1);
        (bytes + parts * append_bytes(1)) as u64
    }

    /// Returns the length of the content that counts. Each byte of it is synced.
    pub(crate) fn length(&self) -> u64 {
        self.sealed.map_or(self.length, |sealed| sealed.min(self.length))
    }

    /// Returns the length at which the range has sealed it.
    pub(crate) fn sealed(&self) -> Option<u64> {
        self.sealed
    }

    /// Returns the bytes of the file.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.end
    }

    /// Appends bytes at `offset`, durably. Returns the bytes by which the file has grown.
    ///
    /// # Errors
    /// [`Error::NotAtEnd`], [`Error::OtherBytes`]; the device's.
    pub(crate) fn append(&mut self, offset: u64, bytes: &[u8]) -> Result<u64> {
        let (name, length) = (self.head.name, self.length());
        if offset < length {
            return match self.read(offset, bytes.len() as u64) {
                Ok(there) if there == bytes => Ok(0),
                Ok(_) => Err(Error::OtherBytes { name, offset }),
                Err(Error::PastEnd { .. }) => Err(Error::NotAtEnd { name, length }),
                Err(error) => Err(error),
            };
        }
        if offset > length || self.sealed.is_some() {
            return Err(Error::NotAtEnd { name, length });
        }
        let (pieces, before) = (self.pieces.len(), self.end);
        let mut parts = bytes.chunks(APPEND_BYTES_MAX);
        let written = parts.try_for_each(|part| self.write(part));
        let synced = written.and_then(|()| self.file.sync(SyncKind::Data).map_err(Error::Sync));
        if let Err(error) = synced {
            // It does not count. The next append overwrites its bytes, if there is one.
            self.pieces.truncate(pieces);
            (self.length, self.end) = (length, before);
            return Err(error);
        }
        self.synced = self.length;
        Ok(self.end - before)
    }

    /// Writes one append.
    fn write(&mut self, content: &[u8]) -> Result<()> {
        let (offset, synced) = (self.length, self.synced);
        let head = AppendHead { offset, bytes: content.len() as u32, synced };
        let bytes = head.encode(self.head.identity(), content);
        self.file.write_at(self.end, &bytes)?;
        self.pieces.push(Piece { head, at: self.end });
        self.length += content.len() as u64;
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// Reads bytes of the content. Verifies the appends that have them.
    ///
    /// # Errors
    /// [`Error::PastEnd`]; the device's; damage.
    pub(crate) fn read(&self, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        let end = offset.saturating_add(bytes);
        if end > self.length() {
            return Err(Error::PastEnd { name: self.head.name, length: self.length() });
        }
        let first = self.pieces.partition_point(|piece| piece.end() <= offset);
        let last = self.pieces.partition_point(|piece| piece.head.offset < end);
        let mut pieces = self.pieces.get(first..last).unwrap_or_default();
        let mut read = Vec::with_capacity(bytes as usize);
        while let Some(front) = pieces.first() {
            let fits = |piece: &Piece| piece.stored_end() - front.at <= READ_BYTES_MAX;
            let (run, rest) = pieces.split_at(pieces.partition_point(fits).max(1));
            self.read_run(run, |piece, content| {
                let from = offset.saturating_sub(piece.head.offset) as usize;
                let to = (end - piece.head.offset).min(u64::from(piece.head.bytes)) as usize;
                read.extend_from_slice(content.get(from..to).unwrap_or_default());
            })?;
            pieces = rest;
        }
        Ok(read)
    }

    /// Reads successive appends with one call of the device. Passes on the content of each,
    /// verified.
    fn read_run(&self, run: &[Piece], mut visit: impl FnMut(&Piece, &[u8])) -> Result<()> {
        let (Some(front), Some(back)) = (run.first(), run.last()) else { return Ok(()) };
        let mut stored = vec![0; (back.stored_end() - front.at) as usize];
        self.file.read_at(front.at, &mut stored)?;
        for piece in run {
            let (from, to) = (piece.at - front.at, piece.stored_end() - front.at);
            let bytes = stored.get(from as usize..to as usize).unwrap_or_default();
            let content = content_of(bytes, &piece.head);
            if piece.head.encode(self.head.identity(), content) != bytes {
                let what = "an append has a wrong checksum";
                return Err(Corruption::new(what, piece.at).at(&self.head.name.path(), 0).into());
            }
            visit(piece, content);
        }
        Ok(())
    }

    /// Notes the length at which the range has sealed the log. Bytes behind it do not count any
    /// more, and no append follows.
    pub(crate) fn seal(&mut self, length: u64) {
        self.sealed = Some(length);
    }
}

/// Reads the appends of a log. Returns its file and the bytes of that.
fn find_appends(
    device: &dyn Device,
    head: &Head,
    mode: Mode,
) -> Result<(Arc<dyn File>, u64, Appends)> {
    let path = head.name.path();
    let file = device.open(&path, mode)?;
    let bytes = file.len()?;
    let mut content = vec![0; bytes.saturating_sub(HEAD_BYTES as u64) as usize];
    file.read_at(HEAD_BYTES as u64, &mut content)?;
    let found = walk_appends(&content, head.identity());
    if let Some(synced) = found.lost {
        let what = format!("a log ends at byte {}, and had {synced} bytes synced", found.length);
        let end = (HEAD_BYTES + found.end) as u64;
        return Err(Corruption::new(what, end).at(&path, 0).into());
    }
    Ok((file, bytes, found))
}

impl Piece {
    /// Returns where its bytes end in the content.
    fn end(&self) -> u64 {
        self.head.offset + u64::from(self.head.bytes)
    }

    /// Returns where it ends in the file.
    fn stored_end(&self) -> u64 {
        self.at + append_bytes(self.head.bytes as usize) as u64
    }
}

/// Returns the content in the bytes of an append.
fn content_of<'b>(bytes: &'b [u8], head: &AppendHead) -> &'b [u8] {
    let end = APPEND_HEAD_BYTES + head.bytes as usize;
    bytes.get(APPEND_HEAD_BYTES..end).unwrap_or_default()
}
