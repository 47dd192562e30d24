//! Changes of the files of a range, as the manifest log has them.
//!
//! A file of the log has a header and frames. A frame has changes, which count together or not at
//! all. The first frame has all files of the range, and later frames change them.

use codec::{Corruption, FileHeader, Format, Reader, Writer, crc32c};
use logc::Member;

use crate::stripes::Stripes;

/// The number of a file, which stays when it gets another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(pub u64);

/// The place of a table: its fragments, each with the same bytes on several StoCs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The number of its files.
    pub number: u64,
    /// Its bytes.
    pub length: u64,
    /// How its bytes are divided.
    pub stripes: Stripes,
    /// The copies of each fragment.
    pub fragments: Vec<Vec<CopyPlace>>,
}

/// The place of a copy of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyPlace {
    /// The StoC.
    pub member: Member,
    /// The nonce of the file, which no other copy has.
    pub nonce: u64,
}

/// A change of the files of a range. Paths are those below the root of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A directory is created.
    CreateDir {
        /// The directory.
        path: String,
    },
    /// A directory is removed, with all that is below it.
    RemoveDir {
        /// The directory.
        path: String,
    },
    /// A file gets a first or another name.
    Name {
        /// The name.
        path: String,
        /// The file.
        node: NodeId,
    },
    /// A name is changed, and replaces a file of the other name.
    Rename {
        /// The name before.
        from: String,
        /// The name after.
        to: String,
    },
    /// A name is removed.
    Remove {
        /// The name.
        path: String,
    },
    /// Bytes of a small file.
    Bytes {
        /// The file.
        node: NodeId,
        /// The offset of the first byte.
        offset: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The length of a small file.
    Length {
        /// The file.
        node: NodeId,
        /// The length.
        length: u64,
    },
    /// The file is a file of the write log.
    Journal {
        /// The file.
        node: NodeId,
        /// The number of the file in the write log.
        file: u64,
    },
    /// The file is a table.
    Table {
        /// The file.
        node: NodeId,
        /// The place of its bytes.
        placement: Placement,
    },
}

const FORMAT: Format = Format::new(*b"TCRFILES", 1, 0);
/// Bytes of a frame before its changes: their length, their number and the checksum.
const FRAME_BYTES: usize = 4 + 4 + 4;
/// The fewest bytes of a change, of a fragment, and of a copy of a fragment.
const CHANGE_BYTES_MIN: usize = 2;
const FRAGMENT_BYTES_MIN: usize = 1;
const COPY_BYTES_MIN: usize = 18;

impl Change {
    fn encode(&self, out: &mut Writer<'_>) {
        match self {
            Self::CreateDir { path } => text(out, 1, path),
            Self::RemoveDir { path } => text(out, 2, path),
            Self::Name { path, node } => {
                text(out, 3, path);
                out.put_varint(node.0);
            }
            Self::Rename { from, to } => {
                text(out, 4, from);
                out.put_prefixed(to.as_bytes());
            }
            Self::Remove { path } => text(out, 5, path),
            Self::Bytes { node, offset, bytes } => {
                numbers(out, 6, [node.0, *offset]);
                out.put_prefixed(bytes);
            }
            Self::Length { node, length } => numbers(out, 7, [node.0, *length]),
            Self::Journal { node, file } => numbers(out, 8, [node.0, *file]),
            Self::Table { node, placement } => {
                numbers(out, 9, [node.0, placement.number]);
                out.put_varint(placement.length);
                out.put_varint(u64::from(placement.stripes.rho));
                out.put_varint(placement.stripes.bytes);
                out.put_varint(placement.fragments.len() as u64);
                for copies in &placement.fragments {
                    out.put_varint(copies.len() as u64);
                    copies.iter().for_each(|copy| copy.encode(out));
                }
            }
        }
    }

    fn decode(fields: &mut Reader<'_>) -> Result<Self, Corruption> {
        let code = fields.take_u8()?;
        Ok(match code {
            1 => Self::CreateDir { path: fields.take_text()? },
            2 => Self::RemoveDir { path: fields.take_text()? },
            3 => Self::Name { path: fields.take_text()?, node: take_node(fields)? },
            4 => Self::Rename { from: fields.take_text()?, to: fields.take_text()? },
            5 => Self::Remove { path: fields.take_text()? },
            6 => Self::Bytes {
                node: take_node(fields)?,
                offset: fields.take_varint_u64()?,
                bytes: fields.take_prefixed()?.to_vec(),
            },
            7 => Self::Length { node: take_node(fields)?, length: fields.take_varint_u64()? },
            8 => Self::Journal { node: take_node(fields)?, file: fields.take_varint_u64()? },
            9 => {
                let (node, number) = (take_node(fields)?, fields.take_varint_u64()?);
                Self::Table { node, placement: Placement::decode(number, fields)? }
            }
            other => return Err(fields.corruption(format!("there is no change {other} of files"))),
        })
    }
}

impl Placement {
    /// Decodes what follows the number.
    fn decode(number: u64, fields: &mut Reader<'_>) -> Result<Self, Corruption> {
        let length = fields.take_varint_u64()?;
        let (rho, bytes) = (fields.take_varint_u32()?, fields.take_varint_u64()?);
        let mut fragments = Vec::new();
        for _ in 0..fields.take_count(FRAGMENT_BYTES_MIN)? {
            let count = fields.take_count(COPY_BYTES_MIN)?;
            let copies = (0..count).map(|_| CopyPlace::decode(fields));
            fragments.push(copies.collect::<Result<Vec<_>, Corruption>>()?);
        }
        let stripes = Stripes { rho, bytes };
        if rho == 0 || bytes == 0 || fragments.len() != stripes.fragments(length) {
            return Err(fields.corruption("a table has another number of fragments"));
        }
        Ok(Self { number, length, stripes, fragments })
    }
}

impl CopyPlace {
    fn encode(&self, out: &mut Writer<'_>) {
        out.put_varint(u64::from(self.member.node));
        out.put_u64(self.member.cookie);
        out.put_varint(self.member.incarnation);
        out.put_u64(self.nonce);
    }

    fn decode(fields: &mut Reader<'_>) -> Result<Self, Corruption> {
        let (node, cookie) = (fields.take_varint_u32()?, fields.take_u64()?);
        let member = Member { node, cookie, incarnation: fields.take_varint_u64()? };
        Ok(Self { member, nonce: fields.take_u64()? })
    }
}

fn text(out: &mut Writer<'_>, code: u8, path: &str) {
    out.put_u8(code);
    out.put_prefixed(path.as_bytes());
}

fn numbers(out: &mut Writer<'_>, code: u8, numbers: [u64; 2]) {
    out.put_u8(code);
    numbers.iter().for_each(|number| out.put_varint(*number));
}

fn take_node(fields: &mut Reader<'_>) -> Result<NodeId, Corruption> {
    fields.take_varint_u64().map(NodeId)
}

/// Returns the bytes that a file of the log begins with, for all files of the range as changes.
pub fn encode_first(all: &[Change]) -> Vec<u8> {
    let mut bytes = FORMAT.header(0).encode().to_vec();
    bytes.extend(encode_frame(all));
    bytes
}

/// Returns the frame of some changes.
pub fn encode_frame(changes: &[Change]) -> Vec<u8> {
    let mut body = Vec::new();
    changes.iter().for_each(|change| change.encode(&mut Writer::new(&mut body)));
    let mut frame = Vec::with_capacity(FRAME_BYTES + body.len());
    let mut out = Writer::new(&mut frame);
    out.put_u32(body.len() as u32);
    out.put_u32(changes.len() as u32);
    out.put_u32(checksum(changes.len() as u32, &body));
    out.put_bytes(&body);
    frame
}

fn checksum(count: u32, body: &[u8]) -> u32 {
    codec::chain_parts(crc32c(b"files of a range"), &count.to_le_bytes(), body)
}

/// Decodes a file of the log. Returns the changes of each whole frame. The last frame may be cut
/// off, and so may the header, if there is no frame.
///
/// # Errors
/// Damage to the header or to a whole frame.
pub fn decode_file(bytes: &[u8]) -> Result<Vec<Vec<Change>>, Corruption> {
    if bytes.len() < FileHeader::LEN {
        return Ok(Vec::new());
    }
    FORMAT.decode(bytes)?;
    let mut rest = bytes.get(FileHeader::LEN..).unwrap_or_default();
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let at = (bytes.len() - rest.len()) as u64;
        let mut fields = Reader::new(rest);
        let Ok(length) = fields.take_u32() else { break };
        let (Ok(count), Ok(stored)) = (fields.take_u32(), fields.take_u32()) else { break };
        let Ok(body) = fields.take_bytes(length as usize) else { break };
        if checksum(count, body) != stored {
            return Err(Corruption::new("a frame of changes has a wrong checksum", at));
        }
        rest = fields.rest();
        frames.push(decode_body(count, body, at)?);
    }
    Ok(frames)
}

fn decode_body(count: u32, body: &[u8], at: u64) -> Result<Vec<Change>, Corruption> {
    if count as usize > body.len() / CHANGE_BYTES_MIN {
        return Err(Corruption::new("a frame has too many changes", at));
    }
    let mut fields = Reader::new(body);
    let changes = (0..count).map(|_| Change::decode(&mut fields));
    let changes = changes.collect::<Result<_, Corruption>>()?;
    fields.finish()?;
    Ok(changes)
}
