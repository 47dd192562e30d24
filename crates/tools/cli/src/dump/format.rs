//! The bytes of a dump.
//!
//! # Format
//! A header ([`codec::FileHeader`]), then frames up to and including an end frame, then nothing.
//!
//! | offset in frame | size | field | protects against |
//! |---:|---:|---|---|
//! | 0 | 1 | kind | |
//! | 1 | 4 | payload length n: [`FRAME_PAYLOAD_BYTES_MAX`] at most | |
//! | 5 | n | payload | |
//! | 5+n | 4 | [`codec::chain`] of kind, length, payload | damage; a frame lost, doubled or moved |
//!
//! The first frame chains from the header's checksum. Payloads by kind:
//!
//! - 1, keyspace: name and engine, each prefixed with its length as a varint; flags, 1 for
//!   journaled and 2 for values that expire, whose pairs then have the stored form. Then the memory
//!   that it is to have, 8 bytes, 0 for a share of the rest. The last two fields are each prefixed
//!   with their length: its engine's differences from a database's options, in the form of
//!   [`Settings::to_bytes`], and the name of its merge operator, empty for none. The pairs that
//!   follow belong to it.
//! - 2, pairs: The key and the value of each pair, each prefixed with its length as a varint.
//! - 3, end: The numbers of keyspaces and of pairs in the whole dump, 8 bytes each. Without it a
//!   dump is cut short.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use codec::{Corruption, Format, Reader, Writer};
use thermocline::{
    EngineKind, KEY_BYTES_MAX, KeyspaceOptions, MergeName, Settings, VALUE_BYTES_MAX,
};

/// The kind of file. Only the newest of its versions is read.
pub(super) const FORMAT: Format = Format::new(*b"TCDUMPED", 4, 0);

const FLAG_JOURNALED: u8 = 1;
const FLAG_EXPIRING: u8 = 2;

/// Bytes before a frame's payload: kind and length.
pub(super) const FRAME_HEAD_BYTES: usize = 5;

/// Bytes after it: the checksum.
pub(super) const FRAME_CHECK_BYTES: usize = 4;

/// The largest payload: one pair of the largest key and value, and their lengths.
pub const FRAME_PAYLOAD_BYTES_MAX: usize =
    KEY_BYTES_MAX + VALUE_BYTES_MAX + 2 * codec::VARINT_U64_BYTES_MAX;

const KIND_KEYSPACE: u8 = 1;
const KIND_PAIRS: u8 = 2;
const KIND_END: u8 = 3;

/// The content of one frame.
#[expect(clippy::large_enum_variant, reason = "one frame is in memory at a time")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// The keyspace of the pairs that follow.
    Keyspace {
        /// Its name.
        name: &'a str,
        /// The engine it was stored by.
        engine: &'a str,
        /// Whether it was journaled.
        journaled: bool,
        /// Whether its values may expire: then they are in their stored form.
        expiring: bool,
        /// Bytes of the database's memory that it is to have, if that was said.
        memory_bytes: Option<u64>,
        /// Its engine's differences from a database's options. For an engine that this program does
        /// not know they are passed over.
        settings: Option<Settings>,
        /// The operator that merges its values.
        merge: Option<MergeName>,
    },
    /// Pairs, in key order if the keyspace has one.
    Pairs(Pairs<'a>),
    /// The end.
    End {
        /// Keyspaces in the dump.
        keyspaces: u64,
        /// Pairs in the dump.
        pairs: u64,
    },
}

/// The pairs of a frame; their bytes are borrowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pairs<'a> {
    bytes: &'a [u8],
}

impl<'a> Pairs<'a> {
    /// The encoded pairs `bytes`.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The pairs in their order, up to the first that makes no sense.
    pub fn iter(&self) -> impl Iterator<Item = Result<(&'a [u8], &'a [u8]), Corruption>> + use<'a> {
        let mut fields = Reader::new(self.bytes);
        let mut failed = false;
        std::iter::from_fn(move || {
            if failed || fields.is_empty() {
                return None;
            }
            let pair = take_pair(&mut fields);
            failed = pair.is_err();
            Some(pair)
        })
    }
}

fn take_pair<'a>(fields: &mut Reader<'a>) -> Result<(&'a [u8], &'a [u8]), Corruption> {
    let key = fields.take_prefixed()?;
    if key.len() > KEY_BYTES_MAX {
        return Err(fields.corruption("a key longer than any engine takes"));
    }
    let value = fields.take_prefixed()?;
    if value.len() > VALUE_BYTES_MAX {
        return Err(fields.corruption("a value longer than any engine takes"));
    }
    Ok((key, value))
}

/// Appends one pair to the payload of a pairs frame.
pub(super) fn put_pair(payload: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    let mut out = Writer::new(payload);
    out.put_prefixed(key);
    out.put_prefixed(value);
}

impl<'a> Frame<'a> {
    /// The keyspace `name` with these options.
    pub(super) fn keyspace(name: &'a str, options: &KeyspaceOptions) -> Self {
        let KeyspaceOptions { engine, journaled, memory_bytes, expiring, merge, settings } =
            *options;
        let engine = engine.name();
        Self::Keyspace { name, engine, journaled, expiring, memory_bytes, settings, merge }
    }

    /// Appends its payload to `out` and returns its kind.
    pub(super) fn encode(&self, out: &mut Vec<u8>) -> u8 {
        let mut fields = Writer::new(out);
        match self {
            Self::Keyspace { name, engine, journaled, expiring, memory_bytes, settings, merge } => {
                fields.put_prefixed(name.as_bytes());
                fields.put_prefixed(engine.as_bytes());
                let journaled = if *journaled { FLAG_JOURNALED } else { 0 };
                let expiring = if *expiring { FLAG_EXPIRING } else { 0 };
                fields.put_u8(journaled | expiring);
                fields.put_u64(memory_bytes.unwrap_or(0));
                fields.put_prefixed(&Settings::to_bytes(*settings));
                let merge = merge.as_ref().map_or("", MergeName::as_str);
                fields.put_prefixed(merge.as_bytes());
                KIND_KEYSPACE
            }
            Self::Pairs(pairs) => {
                fields.put_bytes(pairs.bytes);
                KIND_PAIRS
            }
            Self::End { keyspaces, pairs } => {
                fields.put_u64(*keyspaces);
                fields.put_u64(*pairs);
                KIND_END
            }
        }
    }

    /// Reads a frame from its kind and payload. Pairs are checked when they are walked.
    ///
    /// # Errors
    /// An unknown kind, or fields that do not fill the payload exactly.
    pub(super) fn decode(kind: u8, payload: &'a [u8]) -> Result<Self, Corruption> {
        let mut fields = Reader::new(payload);
        let frame = match kind {
            KIND_KEYSPACE => {
                let (name, engine) = (take_text(&mut fields)?, take_text(&mut fields)?);
                let flags = take_flags(&mut fields)?;
                let memory_bytes = Some(fields.take_u64()?).filter(|bytes| *bytes > 0);
                let settings = take_settings(engine, &mut fields)?;
                let merge = take_merge(&mut fields)?;
                let journaled = flags & FLAG_JOURNALED != 0;
                let expiring = flags & FLAG_EXPIRING != 0;
                Self::Keyspace { name, engine, journaled, expiring, memory_bytes, settings, merge }
            }
            KIND_PAIRS => return Ok(Self::Pairs(Pairs::new(payload))),
            KIND_END => Self::End { keyspaces: fields.take_u64()?, pairs: fields.take_u64()? },
            other => return Err(Corruption::new(format!("unknown kind of frame {other}"), 0)),
        };
        fields.finish()?;
        Ok(frame)
    }
}

fn take_text<'a>(fields: &mut Reader<'a>) -> Result<&'a str, Corruption> {
    let bytes = fields.take_prefixed()?;
    std::str::from_utf8(bytes).map_err(|_| fields.corruption("a name is not UTF-8"))
}

fn take_flags(fields: &mut Reader<'_>) -> Result<u8, Corruption> {
    let flags = fields.take_u8()?;
    match flags & !(FLAG_JOURNALED | FLAG_EXPIRING) {
        0 => Ok(flags),
        unknown => Err(fields.corruption(format!("a keyspace has unknown flags {unknown:#04x}"))),
    }
}

fn take_settings(engine: &str, fields: &mut Reader<'_>) -> Result<Option<Settings>, Corruption> {
    let own = fields.take_prefixed()?;
    let Ok(engine) = engine.parse::<EngineKind>() else { return Ok(None) };
    Settings::of_bytes(engine.driver(), own).map_err(|damage| fields.corruption(damage.what))
}

fn take_merge(fields: &mut Reader<'_>) -> Result<Option<MergeName>, Corruption> {
    match take_text(fields)? {
        "" => Ok(None),
        name => name
            .parse()
            .map(Some)
            .map_err(|error: thermocline::Error| fields.corruption(error.to_string())),
    }
}

/// The bytes before a frame's payload.
pub(super) fn frame_head(kind: u8, payload_bytes: u32) -> [u8; FRAME_HEAD_BYTES] {
    let [l0, l1, l2, l3] = payload_bytes.to_le_bytes();
    [kind, l0, l1, l2, l3]
}

/// The checksum of a frame after one with the checksum `previous`.
pub(super) fn frame_check(previous: u32, head: [u8; FRAME_HEAD_BYTES], payload: &[u8]) -> u32 {
    // Two links of the chain, so that head and payload need not be adjacent.
    codec::chain(codec::chain(previous, &head), payload)
}

/// Returns the checksum that the first frame chains from: the header's own. (A checksum of the
/// whole header would be one constant for every header: it covers its own checksum.)
pub(super) fn header_check(header: &[u8; codec::FileHeader::LEN]) -> u32 {
    let [.., c0, c1, c2, c3] = *header;
    u32::from_le_bytes([c0, c1, c2, c3])
}
