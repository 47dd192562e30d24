//! Keyspaces and pairs to a stream.
//!
//! Pairs gather to frames of about 256 KiB: large enough that heads and checksums cost nothing,
//! small enough that damage is placed well and a reader needs little memory.

use std::io::{self, Write};

use thermocline::{KEY_BYTES_MAX, KeyspaceOptions, VALUE_BYTES_MAX};

use super::format::{self, FORMAT, Frame, Pairs};

/// A frame is closed once its pairs reach this size in bytes.
const FRAME_PAIRS_BYTES: usize = 256 << 10;

/// Writes a dump; [`Writer::finish`] makes it whole.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    previous: u32,
    pending: Vec<u8>,
    payload: Vec<u8>,
    keyspaces: u64,
    pairs: u64,
    bytes: u64,
}

impl<W: Write> Writer<W> {
    /// Writes the header.
    pub fn new(mut out: W) -> io::Result<Self> {
        let header = FORMAT.header(0).encode();
        out.write_all(&header)?;
        Ok(Self {
            out,
            previous: format::header_check(&header),
            pending: Vec::new(),
            payload: Vec::new(),
            keyspaces: 0,
            pairs: 0,
            bytes: header.len() as u64,
        })
    }

    /// Begins a keyspace. The pairs that follow belong to it; if its values may expire they are
    /// given in their stored form.
    pub fn keyspace(&mut self, name: &str, options: &KeyspaceOptions) -> io::Result<()> {
        self.flush_pairs()?;
        self.keyspaces += 1;
        self.frame(&Frame::keyspace(name, options))
    }

    /// Writes one pair of the present keyspace.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for a key or value longer than any engine takes, and for a
    /// pair before any keyspace; the stream's errors.
    pub fn pair(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        if self.keyspaces == 0 || key.len() > KEY_BYTES_MAX || value.len() > VALUE_BYTES_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if self.pending.len() + key.len() + value.len() > FRAME_PAIRS_BYTES {
            self.flush_pairs()?;
        }
        format::put_pair(&mut self.pending, key, value);
        self.pairs += 1;
        Ok(())
    }

    /// Writes the end, flushes, and returns the stream and the bytes that were written to it.
    pub fn finish(mut self) -> io::Result<(W, u64)> {
        self.flush_pairs()?;
        self.frame(&Frame::End { keyspaces: self.keyspaces, pairs: self.pairs })?;
        self.out.flush()?;
        Ok((self.out, self.bytes))
    }

    /// Keyspaces begun so far.
    pub fn keyspaces(&self) -> u64 {
        self.keyspaces
    }

    /// Pairs given so far.
    pub fn pairs(&self) -> u64 {
        self.pairs
    }

    fn flush_pairs(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let pending = std::mem::take(&mut self.pending);
        let written = self.frame(&Frame::Pairs(Pairs::new(&pending)));
        self.pending = pending;
        self.pending.clear();
        written
    }

    fn frame(&mut self, frame: &Frame<'_>) -> io::Result<()> {
        self.payload.clear();
        let kind = frame.encode(&mut self.payload);
        let length = u32::try_from(self.payload.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let head = format::frame_head(kind, length);
        let check = format::frame_check(self.previous, head, &self.payload);
        self.out.write_all(&head)?;
        self.out.write_all(&self.payload)?;
        self.out.write_all(&check.to_le_bytes())?;
        self.bytes += (head.len() + self.payload.len() + format::FRAME_CHECK_BYTES) as u64;
        self.previous = check;
        Ok(())
    }
}
