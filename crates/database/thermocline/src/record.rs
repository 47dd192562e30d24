//! The format of a journal record: the steps of one write, by keyspace.
//!
//! # Format
//! See `docs/formats/write-record.md`. A record is a run of steps up to its end: kind (u8),
//! keyspace id (varint), key (prefixed), and for a put the value (prefixed). A range that is
//! deleted has its first key for the key, and behind it, if it has one, its end (prefixed).

use codec::{Corruption, Reader, Writer};
use engine::Op;

const KIND_PUT: u8 = 1;
const KIND_DELETE: u8 = 2;
const KIND_DELETE_RANGE: u8 = 3;
const KIND_DELETE_FROM: u8 = 4;

/// Appends one step to a record.
pub(crate) fn encode(keyspace: u32, op: &Op<'_>, into: &mut Vec<u8>) {
    let mut writer = Writer::new(into);
    match op {
        Op::Put { key, value } => {
            writer.put_u8(KIND_PUT);
            writer.put_varint(u64::from(keyspace));
            writer.put_prefixed(key);
            writer.put_prefixed(value);
        }
        Op::Delete { key } => {
            writer.put_u8(KIND_DELETE);
            writer.put_varint(u64::from(keyspace));
            writer.put_prefixed(key);
        }
        Op::DeleteRange { start, end } => {
            writer.put_u8(if end.is_some() { KIND_DELETE_RANGE } else { KIND_DELETE_FROM });
            writer.put_varint(u64::from(keyspace));
            writer.put_prefixed(start);
            if let Some(end) = end {
                writer.put_prefixed(end);
            }
        }
    }
}

/// Returns an upper bound of the bytes that [`encode`] appends.
pub(crate) fn encoded_bytes_max(op: &Op<'_>) -> u64 {
    const OVERHEAD: u64 = 1 + 5 + 2 * 10;
    OVERHEAD + op.bytes() as u64
}

/// Decodes a record that no checksum vouches for, encodes its steps and decodes them again: the
/// entry for fuzzing. Returns the number of steps.
///
/// # Errors
/// The damage.
///
/// # Panics
/// If they are not the same.
pub fn decode_write(record: &[u8]) -> Result<usize, Corruption> {
    let steps = decode(record)?;
    let (mut again, mut bytes_max) = (Vec::new(), 0);
    for (keyspace, op) in &steps {
        encode(*keyspace, op, &mut again);
        bytes_max += encoded_bytes_max(op);
    }
    assert!(again.len() as u64 <= bytes_max, "a step takes no more than was said");
    let told = |steps: &[(u32, Op<'_>)]| format!("{steps:?}");
    assert_eq!(
        decode(&again).map(|again| told(&again)),
        Ok(told(&steps)),
        "what was encoded decodes"
    );
    Ok(steps.len())
}

/// Reads a record's steps, in order.
///
/// # Errors
/// The offset in [`Corruption`] counts from the record's first byte.
pub(crate) fn decode(record: &[u8]) -> Result<Vec<(u32, Op<'_>)>, Corruption> {
    let mut reader = Reader::new(record);
    let mut steps = Vec::new();
    while !reader.is_empty() {
        let kind = reader.take_u8()?;
        let keyspace = reader.take_varint_u32()?;
        let key = reader.take_prefixed()?;
        let op = match kind {
            KIND_PUT => Op::Put { key, value: reader.take_prefixed()? },
            KIND_DELETE => Op::Delete { key },
            KIND_DELETE_RANGE => Op::DeleteRange { start: key, end: Some(reader.take_prefixed()?) },
            KIND_DELETE_FROM => Op::DeleteRange { start: key, end: None },
            other => return Err(reader.corruption(format!("a step of unknown kind {other}"))),
        };
        steps.push((keyspace, op));
    }
    Ok(steps)
}
