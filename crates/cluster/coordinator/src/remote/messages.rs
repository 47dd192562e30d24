//! The calls of a store as messages, and the replies to them.
//!
//! # Format
//! `docs/formats/wire.md`.

use codec::{Corruption, Reader, Writer};
use wire::Kind;

use crate::store::{Compare, Revision, StoreError, Versioned, Write};

/// A call of a [`crate::Store`]. Each variant is the method with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreRequest {
    /// [`crate::Store::get`].
    Get {
        /// The key.
        key: String,
    },
    /// [`crate::Store::list`].
    List {
        /// The first part of the keys.
        prefix: String,
    },
    /// [`crate::Store::commit`].
    Commit {
        /// The expected revisions.
        compares: Vec<Compare>,
        /// The writes.
        writes: Vec<Write>,
    },
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreReply {
    /// To [`StoreRequest::Get`].
    Record(Option<Versioned>),
    /// To [`StoreRequest::List`].
    Records(Vec<(String, Versioned)>),
    /// To [`StoreRequest::Commit`]: whether the writes were made.
    Committed(bool),
}

type Decoded<T> = Result<T, Corruption>;

fn put_record(fields: &mut Writer<'_>, Versioned { value, revision }: &Versioned) {
    fields.put_u64(revision.0);
    fields.put_prefixed(value);
}

fn take_record(fields: &mut Reader<'_>) -> Decoded<Versioned> {
    let revision = Revision(fields.take_u64()?);
    Ok(Versioned { value: fields.take_prefixed()?.to_vec(), revision })
}

/// Encodes a call.
pub fn encode_store_request(request: &StoreRequest) -> (Kind, Vec<u8>) {
    let mut bytes = Vec::new();
    let mut fields = Writer::new(&mut bytes);
    let kind = match request {
        StoreRequest::Get { key } => {
            fields.put_prefixed(key.as_bytes());
            Kind::StoreGet
        }
        StoreRequest::List { prefix } => {
            fields.put_prefixed(prefix.as_bytes());
            Kind::StoreList
        }
        StoreRequest::Commit { compares, writes } => {
            fields.put_varint(compares.len() as u64);
            for Compare { key, revision } in compares {
                fields.put_prefixed(key.as_bytes());
                fields.put_u8(u8::from(revision.is_some()));
                revision.iter().for_each(|revision| fields.put_u64(revision.0));
            }
            fields.put_varint(writes.len() as u64);
            for Write { key, value } in writes {
                fields.put_prefixed(key.as_bytes());
                fields.put_u8(u8::from(value.is_some()));
                value.iter().for_each(|value| fields.put_prefixed(value));
            }
            Kind::StoreCommit
        }
    };
    (kind, bytes)
}

/// Decodes a call.
///
/// # Errors
/// The damage; a message of another kind.
pub fn decode_store_request(kind: Kind, body: &[u8]) -> Decoded<StoreRequest> {
    let mut fields = Reader::new(body);
    let request = match kind {
        Kind::StoreGet => StoreRequest::Get { key: fields.take_text()? },
        Kind::StoreList => StoreRequest::List { prefix: fields.take_text()? },
        Kind::StoreCommit => {
            let mut compares = Vec::new();
            for _ in 0..fields.take_count(2)? {
                let key = fields.take_text()?;
                let has_revision = fields.take_flag()?;
                let revision = if has_revision { Some(Revision(fields.take_u64()?)) } else { None };
                compares.push(Compare { key, revision });
            }
            let mut writes = Vec::new();
            for _ in 0..fields.take_count(2)? {
                let key = fields.take_text()?;
                let has_value = fields.take_flag()?;
                let value = if has_value { Some(fields.take_prefixed()?.to_vec()) } else { None };
                writes.push(Write { key, value });
            }
            StoreRequest::Commit { compares, writes }
        }
        other => return Err(fields.corruption(format!("{other:?} is no call of a store"))),
    };
    fields.finish()?;
    Ok(request)
}

/// Encodes the result of a call.
pub fn encode_store_reply(reply: &Result<StoreReply, StoreError>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut fields = Writer::new(&mut bytes);
    fields.put_u8(match reply {
        Ok(_) => 0,
        Err(StoreError::Unavailable(_)) => 1,
        Err(StoreError::NotLeader) => 2,
    });
    match reply {
        Ok(StoreReply::Record(record)) => {
            fields.put_u8(u8::from(record.is_some()));
            record.iter().for_each(|record| put_record(&mut fields, record));
        }
        Ok(StoreReply::Records(records)) => {
            fields.put_varint(records.len() as u64);
            for (key, record) in records {
                fields.put_prefixed(key.as_bytes());
                put_record(&mut fields, record);
            }
        }
        Ok(StoreReply::Committed(is_done)) => fields.put_u8(u8::from(*is_done)),
        Err(StoreError::Unavailable(cause)) => fields.put_prefixed(cause.as_bytes()),
        Err(StoreError::NotLeader) => {}
    }
    bytes
}

/// Decodes the result of a call of this kind.
///
/// # Errors
/// The damage.
pub fn decode_store_reply(kind: Kind, body: &[u8]) -> Decoded<Result<StoreReply, StoreError>> {
    let mut fields = Reader::new(body);
    let reply = match fields.take_u8()? {
        0 => Ok(take_result(kind, &mut fields)?),
        1 => Err(StoreError::Unavailable(fields.take_text()?)),
        2 => Err(StoreError::NotLeader),
        other => return Err(fields.corruption(format!("a reply begins with {other}"))),
    };
    fields.finish()?;
    Ok(reply)
}

fn take_result(kind: Kind, fields: &mut Reader<'_>) -> Decoded<StoreReply> {
    Ok(match kind {
        Kind::StoreGet => StoreReply::Record(match fields.take_flag()? {
            true => Some(take_record(fields)?),
            false => None,
        }),
        Kind::StoreList => {
            let mut records = Vec::new();
            for _ in 0..fields.take_count(10)? {
                records.push((fields.take_text()?, take_record(fields)?));
            }
            StoreReply::Records(records)
        }
        Kind::StoreCommit => StoreReply::Committed(fields.take_flag()?),
        other => return Err(fields.corruption(format!("{other:?} is no call of a store"))),
    })
}
