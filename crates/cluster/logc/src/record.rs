//! The record of a log: its segments, as the coordinator keeps them.

use codec::{Corruption, Reader, Writer};
use stoc::{FileName, Identity, Kind, RangeId};

/// The version of the encoding.
const VERSION: u8 = 1;
const HAS_PART: u8 = 1;
const IS_SEALED: u8 = 2;
const IS_IN_MEMORY: u8 = 4;
/// The fewest bytes of a segment, and of a member.
const SEGMENT_BYTES_MIN: usize = 11;
const MEMBER_BYTES_MIN: usize = 10;

/// The place where StoCs keep the bytes of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// On their devices, synced before an append is acknowledged.
    #[default]
    Durable,
    /// In their memories alone. The bytes end with the start of the StoC.
    Memory,
}

/// A StoC of an ensemble, at the time when the segment was registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its number.
    pub node: u32,
    /// The identity of its storage: a StoC with another one does not count.
    pub cookie: u64,
    /// Its start.
    pub incarnation: u64,
}

/// The place of a segment's bytes in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    /// The file.
    pub file: u64,
    /// The offset in the file at which the segment begins.
    pub offset: u64,
}

/// A segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its number, which grows.
    pub index: u64,
    /// The nonce of its log files: another attempt to make the segment has another one.
    pub nonce: u64,
    /// The place where the StoCs keep it.
    pub mode: Mode,
    /// The StoCs that hold it.
    pub ensemble: Vec<Member>,
    /// Its part of the log. Only a sealed segment has it here; any other has it in its header.
    pub part: Option<Part>,
    /// The length at which it is sealed, with the header.
    pub sealed: Option<u64>,
}

/// The segments of one log, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogRecord {
    /// The segments. The last ones, at most two, are not sealed. (L4)
    pub segments: Vec<Segment>,
}

impl Member {
    /// Returns the StoC with this identity as a member.
    pub fn of(identity: Identity) -> Self {
        let Identity { node, cookie, incarnation, .. } = identity;
        Self { node, cookie, incarnation }
    }
}

impl Segment {
    /// Returns the name of its log files.
    pub fn name(&self, range: RangeId, kind: Kind) -> FileName {
        FileName { range, kind, number: self.index, nonce: self.nonce, part: 0 }
    }

    /// Returns whether `found` has the bytes that `member` was registered with: it has the same
    /// storage, and for a segment in memory it is the same start. (L6)
    pub(crate) fn is_of(&self, member: &Member, found: &Member) -> bool {
        let is_same_start = match self.mode {
            Mode::Durable => true,
            Mode::Memory => found.incarnation == member.incarnation,
        };
        found.cookie == member.cookie && is_same_start
    }

    /// Returns the start of a StoC that an append to a segment in memory names; none for a segment
    /// on devices.
    pub(crate) fn start_of(&self, member: &Member) -> Option<u64> {
        (self.mode == Mode::Memory).then_some(member.incarnation)
    }

    /// Returns the numbers of its StoCs.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = u32> {
        self.ensemble.iter().map(|member| member.node)
    }
}

impl LogRecord {
    /// Returns the segments that are not sealed.
    pub(crate) fn open_segments(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter().filter(|segment| segment.sealed.is_none())
    }

    /// Returns the number of the newest segment; 0 if there is none.
    pub(crate) fn last_index(&self) -> u64 {
        self.segments.last().map_or(0, |segment| segment.index)
    }

    /// Returns the bytes of the record, for the coordinator's store.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        let mut out = Writer::new(&mut bytes);
        out.put_varint(self.segments.len() as u64);
        for Segment { index, nonce, mode, ensemble, part, sealed } in &self.segments {
            let is_sealed = if sealed.is_some() { IS_SEALED } else { 0 };
            let is_in_memory = if *mode == Mode::Memory { IS_IN_MEMORY } else { 0 };
            let has_part = if part.is_some() { HAS_PART } else { 0 };
            out.put_u8(is_sealed | is_in_memory | has_part);
            out.put_varint(*index);
            out.put_u64(*nonce);
            out.put_varint(ensemble.len() as u64);
            for Member { node, cookie, incarnation } in ensemble {
                out.put_varint(u64::from(*node));
                out.put_u64(*cookie);
                out.put_varint(*incarnation);
            }
            if let Some(Part { file, offset }) = part {
                out.put_varint(*file);
                out.put_varint(*offset);
            }
            sealed.iter().for_each(|length| out.put_varint(*length));
        }
        bytes
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// The damage; that a newer release wrote it.
    pub fn decode(bytes: &[u8]) -> Result<Self, Corruption> {
        let mut fields = Reader::new(bytes);
        let version = fields.take_u8()?;
        if version != VERSION {
            return Err(
                fields.corruption(format!("records of logs have version {VERSION}, not {version}"))
            );
        }
        let count = fields.take_count(SEGMENT_BYTES_MIN)?;
        let mut segments: Vec<Segment> = Vec::with_capacity(count);
        for _ in 0..count {
            let flags = fields.take_u8()?;
            if flags & !(HAS_PART | IS_SEALED | IS_IN_MEMORY) != 0 {
                return Err(fields.corruption(format!("a segment has unknown flags {flags:#x}")));
            }
            let (index, nonce) = (fields.take_varint_u64()?, fields.take_u64()?);
            if segments.last().is_some_and(|before| before.index >= index) {
                return Err(fields.corruption("the numbers of segments do not grow"));
            }
            let members = fields.take_count(MEMBER_BYTES_MIN)?;
            let mut ensemble = Vec::with_capacity(members);
            for _ in 0..members {
                let (node, cookie) = (fields.take_varint_u32()?, fields.take_u64()?);
                ensemble.push(Member { node, cookie, incarnation: fields.take_varint_u64()? });
            }
            let part = match flags & HAS_PART {
                0 => None,
                _ => Some(Part {
                    file: fields.take_varint_u64()?,
                    offset: fields.take_varint_u64()?,
                }),
            };
            let sealed = match flags & IS_SEALED {
                0 => None,
                _ => Some(fields.take_varint_u64()?),
            };
            let mode = match flags & IS_IN_MEMORY {
                0 => Mode::Durable,
                _ => Mode::Memory,
            };
            segments.push(Segment { index, nonce, mode, ensemble, part, sealed });
        }
        fields.finish()?;
        Ok(Self { segments })
    }
}
