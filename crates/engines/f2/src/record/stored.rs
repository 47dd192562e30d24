//! A record on disk: stamped with a checksum when its page is written, verified when it is read.
//!
//! The checksum covers the record's address and the salt of its segment besides its content, so
//! that a record which belongs elsewhere, or to an earlier life of the file, is not taken for this.

use codec::crc32c;

use super::layout::{ALIGNMENT, Header, Shape, State, WORD_BYTES};
use crate::address::LogAddress;

/// Bytes of the words that have a record's length.
pub(crate) const HEAD_BYTES: usize = 2 * WORD_BYTES;

/// Bits of the checksum that are in the state.
const LOW_BITS: u32 = 64 - State::CHECK_SHIFT;

const _: () = assert!(LOW_BITS + (64 - Header::CHECK_SHIFT) == 32);

/// Damage of the bytes at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damage(pub(crate) &'static str);

/// A whole record, verified; its parts borrow the bytes that were read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored<'a> {
    pub(crate) header: Header,
    pub(crate) key: &'a [u8],
    /// `None` is a tombstone.
    pub(crate) value: Option<&'a [u8]>,
    /// The record's length; the next one begins behind it.
    pub(crate) bytes: usize,
}

fn checksum(salt: u64, at: LogAddress, words: [u64; 2], rest: &[u8]) -> u32 {
    let head = [salt, at.get(), words[0], words[1]].map(u64::to_le_bytes);
    ::crc32c::crc32c_append(crc32c(head.as_flattened()), rest)
}

/// Changes the words of one record in `bytes` from their form in memory to their form on disk, and
/// returns the record's length. Bytes that hold no record become zeros.
pub(crate) fn stamp(bytes: &mut [u8], salt: u64, at: LogAddress) -> usize {
    let Some((head, _)) = bytes.split_first_chunk::<HEAD_BYTES>() else {
        panic!("a record's head lies within its page");
    };
    let (header, state) = split(head);
    assert!(header.is_sound(), "an allocation was left without a record at {at:?}");
    let header = Header(header.0 & !Header::CHECK_MASK);
    let state = state.content();
    let len = length(header, state);
    let (record, _) = bytes.split_at_mut(len);
    let rest = &mut record[HEAD_BYTES..];
    if header.is_filler() {
        rest.fill(0);
    }
    // A filler's content means nothing, so the checksum does not cover it.
    let covered = if header.is_filler() { &[][..] } else { rest };
    let check = u64::from(checksum(salt, at, [header.0, state.0], covered));
    let header = header.0 | check >> LOW_BITS << Header::CHECK_SHIFT;
    let state = state.0 | check << State::CHECK_SHIFT;
    record[..WORD_BYTES].copy_from_slice(&header.to_le_bytes());
    record[WORD_BYTES..HEAD_BYTES].copy_from_slice(&state.to_le_bytes());
    len
}

fn split(head: &[u8; HEAD_BYTES]) -> (Header, State) {
    let [header, state] = [0, WORD_BYTES].map(|at| {
        let mut word = [0; WORD_BYTES];
        word.copy_from_slice(&head[at..at + WORD_BYTES]);
        u64::from_le_bytes(word)
    });
    (Header(header), State(state))
}

fn length(header: Header, state: State) -> usize {
    match header.is_filler() {
        true => header.filler_bytes() as usize,
        false => state.shape().bytes(),
    }
}

impl<'a> Stored<'a> {
    /// Returns the length that the record beginning with `bytes` claims to have, to read all of it.
    /// At least [`HEAD_BYTES`] must be there; a length above `room` is rejected.
    pub(crate) fn claimed_bytes(bytes: &[u8], room: usize) -> Result<usize, Damage> {
        let Some(head) = bytes.first_chunk::<HEAD_BYTES>() else {
            return Err(Damage("a record is cut short"));
        };
        let (header, state) = split(head);
        if !header.is_sound() {
            return Err(Damage("there is no record"));
        }
        let len = length(header, state.content());
        let is_sound = len >= HEAD_BYTES && len.is_multiple_of(ALIGNMENT) && len <= room;
        if is_sound { Ok(len) } else { Err(Damage("a record's length makes no sense")) }
    }

    /// Reads and verifies the record that begins with `bytes`. It must end within them.
    pub(crate) fn decode(bytes: &'a [u8], salt: u64, at: LogAddress) -> Result<Self, Damage> {
        let len = Self::claimed_bytes(bytes, bytes.len())?;
        let (record, _) = bytes.split_at(len);
        let Some((head, rest)) = record.split_first_chunk::<HEAD_BYTES>() else {
            return Err(Damage("a record is cut short"));
        };
        let (header, state) = split(head);
        let check = (header.0 & Header::CHECK_MASK) >> Header::CHECK_SHIFT << LOW_BITS
            | state.0 >> State::CHECK_SHIFT;
        let (header, state) = (Header(header.0 & !Header::CHECK_MASK), state.content());
        let covered = if header.is_filler() { &[][..] } else { rest };
        if u64::from(checksum(salt, at, [header.0, state.0], covered)) != check {
            return Err(Damage("a record's checksum does not match"));
        }
        if header.is_filler() {
            return Ok(Self { header, key: &[], value: None, bytes: len });
        }
        if header.previous() >= at {
            return Err(Damage("a chain leads up the log"));
        }
        let Shape { key_bytes, value_bytes } = state.shape();
        let value_at = (state.shape().value_at() - 2) * WORD_BYTES;
        let parts = rest.get(..key_bytes).zip(rest.get(value_at..value_at + value_bytes));
        let Some((key, value)) = parts else { return Err(Damage("a record is cut short")) };
        let value = (!state.is_tombstone()).then_some(value);
        Ok(Self { header, key, value, bytes: len })
    }
}
