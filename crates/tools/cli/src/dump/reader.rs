//! A stream to keyspaces and pairs.
//!
//! # Invariants
//! 1. Nothing of a frame is shown before its checksum was verified.
//! 2. Memory grows with the bytes that were received, never with a length that was declared.
//! 3. A dump is whole only if it ended with an end frame whose counts match the keyspaces and pairs
//!    that were shown. A stream that just stops is damage, not success.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::io::{self, Read};

use codec::{Corruption, FileHeader, HeaderError};

use super::format::{
    self, FORMAT, FRAME_CHECK_BYTES, FRAME_HEAD_BYTES, FRAME_PAYLOAD_BYTES_MAX, Frame,
};

/// Why a dump could not be read on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The stream failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// No dump, or one of a newer version.
    #[error("{0}")]
    Header(#[from] HeaderError),
    /// A dump of a version that is not read any more.
    #[error(
        "the dump has format version {found}, this release reads {} alone: dump the database again",
        FORMAT.version
    )]
    Older {
        /// The dump's version.
        found: u16,
    },
    /// Some of the written bytes have changed, or are missing.
    #[error("damaged dump: {} at byte {}", .0.what, .0.offset)]
    Damaged(Corruption),
}

/// Reads a dump frame by frame.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    /// The checksum of the frame before.
    previous: u32,
    /// Bytes read: the place of the next frame.
    offset: u64,
    payload: Vec<u8>,
    keyspaces: u64,
    pairs: u64,
    ended: bool,
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// [`Error::Header`], [`Error::Older`]; failures of the stream.
    pub fn new(mut input: R) -> Result<Self, Error> {
        let mut header = Vec::new();
        input.by_ref().take(FileHeader::LEN as u64).read_to_end(&mut header)?;
        let found = FORMAT.decode(&header)?.version;
        if found < FORMAT.version {
            return Err(Error::Older { found });
        }
        let short = |_| HeaderError::Short { found: header.len() };
        let header: [u8; FileHeader::LEN] = header.as_slice().try_into().map_err(short)?;
        Ok(Self {
            input,
            previous: format::header_check(&header),
            offset: FileHeader::LEN as u64,
            payload: Vec::new(),
            keyspaces: 0,
            pairs: 0,
            ended: false,
        })
    }

    /// Returns the place of the next frame, in bytes from the start.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the next frame; `None` after the end frame, and after an error.
    ///
    /// # Errors
    /// Damage with its offset; failures of the stream.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, Error> {
        // Set until a frame is there: an error ends the dump too.
        if std::mem::replace(&mut self.ended, true) {
            return Ok(None);
        }
        let start = self.offset;
        let kind = self.read_frame()?;
        let is_end = self.judge(kind).map_err(|damage| {
            // Frame fields are counted from the payload's first byte.
            Error::Damaged(damage.at("dump", start + FRAME_HEAD_BYTES as u64))
        })?;
        if is_end && self.input.by_ref().take(1).read_to_end(&mut Vec::new())? > 0 {
            return Err(damaged("bytes after the end", self.offset));
        }
        let frame = Frame::decode(kind, &self.payload).map_err(Error::Damaged)?;
        self.ended = is_end;
        Ok(Some(frame))
    }

    /// Reads a frame's bytes into `payload`, verifies them, and returns its kind.
    fn read_frame(&mut self) -> Result<u8, Error> {
        let start = self.offset;
        let mut head = [0; FRAME_HEAD_BYTES];
        self.fill(&mut head, start)?;
        let [kind, l0, l1, l2, l3] = head;
        let length = u32::from_le_bytes([l0, l1, l2, l3]);
        if length as usize > FRAME_PAYLOAD_BYTES_MAX {
            return Err(damaged(format!("a frame of {length} bytes"), start));
        }
        self.payload.clear();
        // `read_to_end` grows the buffer as bytes come in.
        let read = self.input.by_ref().take(u64::from(length)).read_to_end(&mut self.payload)?;
        if read < length as usize {
            return Err(damaged("the dump is cut short inside a frame", start));
        }
        let mut check = [0; FRAME_CHECK_BYTES];
        self.fill(&mut check, start)?;
        let computed = format::frame_check(self.previous, head, &self.payload);
        if u32::from_le_bytes(check) != computed {
            return Err(damaged("a frame's checksum does not match", start));
        }
        self.previous = computed;
        self.offset += (FRAME_HEAD_BYTES + FRAME_CHECK_BYTES) as u64 + u64::from(length);
        Ok(kind)
    }

    /// Checks a frame against the frames before it. Returns whether it is the end frame.
    fn judge(&mut self, kind: u8) -> Result<bool, Corruption> {
        match Frame::decode(kind, &self.payload)? {
            Frame::Keyspace { .. } => self.keyspaces += 1,
            Frame::Pairs(_) if self.keyspaces == 0 => {
                return Err(Corruption::new("pairs before any keyspace", 0));
            }
            Frame::Pairs(pairs) => {
                for pair in pairs.iter() {
                    pair?;
                    self.pairs += 1;
                }
            }
            Frame::End { keyspaces, pairs } => {
                if (keyspaces, pairs) != (self.keyspaces, self.pairs) {
                    let what = format!(
                        "the end counts {keyspaces} keyspaces and {pairs} pairs, there were {} \
                         and {}",
                        self.keyspaces, self.pairs
                    );
                    return Err(Corruption::new(what, 0));
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn fill(&mut self, into: &mut [u8], start: u64) -> Result<(), Error> {
        self.input.read_exact(into).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => damaged("the dump is cut short", start),
            _ => Error::Io(error),
        })
    }
}

fn damaged(what: impl Into<String>, offset: u64) -> Error {
    Error::Damaged(Corruption::new(what, offset).at("dump", 0))
}
