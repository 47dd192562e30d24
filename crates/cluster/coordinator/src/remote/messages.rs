//! The calls of a coordinator as messages, and the replies to them.
//!
//! # Format
//! `docs/formats/wire.md`.

use std::time::Duration;

use codec::{Corruption, Reader, Writer};
use stoc::{Epoch, RangeId};
use wire::{Kind, Role};

use crate::coordinator::Order;
use crate::descriptor::Owner;
use crate::error::Error;
use crate::leases::{Beat, BeatReply, LeaseReport, LtcLease, RangeLease};
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

fn put_ranges(fields: &mut Writer<'_>, ranges: &[RangeId]) {
    fields.put_varint(ranges.len() as u64);
    ranges.iter().for_each(|range| fields.put_u32(range.0));
}

fn take_ranges(fields: &mut Reader<'_>) -> Decoded<Vec<RangeId>> {
    let count = fields.take_count(4)?;
    (0..count).map(|_| fields.take_u32().map(RangeId)).collect()
}

/// Encodes a report.
pub fn encode_beat(Beat { owner, number, term, is_ending, ranges }: &Beat) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut fields = Writer::new(&mut bytes);
    fields.put_u32(owner.ltc);
    fields.put_u64(owner.start);
    fields.put_u64(*number);
    fields.put_u64(*term);
    fields.put_u8(u8::from(*is_ending));
    put_ranges(&mut fields, ranges);
    bytes
}

/// Decodes a report.
///
/// # Errors
/// The damage.
pub fn decode_beat(body: &[u8]) -> Decoded<Beat> {
    let mut fields = Reader::new(body);
    let owner = Owner { ltc: fields.take_u32()?, start: fields.take_u64()? };
    let (number, term) = (fields.take_u64()?, fields.take_u64()?);
    let (is_ending, ranges) = (fields.take_flag()?, take_ranges(&mut fields)?);
    fields.finish()?;
    Ok(Beat { owner, number, term, is_ending, ranges })
}

/// Encodes a call that takes ids for clients.
pub fn encode_clients(count: u32) -> Vec<u8> {
    count.to_le_bytes().to_vec()
}

/// Decodes a call that takes ids for clients.
///
/// # Errors
/// The damage.
pub fn decode_clients(body: &[u8]) -> Decoded<u32> {
    let mut fields = Reader::new(body);
    let count = fields.take_u32()?;
    fields.finish()?;
    Ok(count)
}

/// A call that makes a keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MakeKeyspace {
    /// Its name.
    pub name: String,
    /// Its options ([`crate::LogMode::to_options`]).
    pub options: Vec<u8>,
    /// The keys between its ranges.
    pub splits: Vec<Vec<u8>>,
}

/// Encodes a call that makes a keyspace.
pub fn encode_keyspace(MakeKeyspace { name, options, splits }: &MakeKeyspace) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut fields = Writer::new(&mut bytes);
    fields.put_prefixed(name.as_bytes());
    fields.put_prefixed(options);
    fields.put_varint(splits.len() as u64);
    splits.iter().for_each(|split| fields.put_prefixed(split));
    bytes
}

/// Decodes a call that makes a keyspace.
///
/// # Errors
/// The damage.
pub fn decode_keyspace(body: &[u8]) -> Decoded<MakeKeyspace> {
    let mut fields = Reader::new(body);
    let (name, options) = (fields.take_text()?, fields.take_prefixed()?.to_vec());
    let count = fields.take_count(1)?;
    let splits = (0..count).map(|_| Ok(fields.take_prefixed()?.to_vec()));
    let splits = splits.collect::<Decoded<_>>()?;
    fields.finish()?;
    Ok(MakeKeyspace { name, options, splits })
}

/// The reply to a call that only the leader serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaderReply {
    /// To a report.
    Beat(BeatReply),
    /// To a call that takes ids: the first of them.
    Clients(u64),
    /// To a call that makes a keyspace.
    Done,
    /// To a call for the leases.
    Leases(LeaseReport),
}

/// Encodes the reply to a call that only the leader serves.
pub fn encode_leader_reply(reply: &Result<LeaderReply, Error>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut fields = Writer::new(&mut bytes);
    match reply {
        Ok(reply) => {
            fields.put_u8(0);
            put_leader_reply(&mut fields, reply);
        }
        Err(Error::Store(StoreError::Unavailable(cause))) => {
            fields.put_u8(1);
            fields.put_prefixed(cause.as_bytes());
        }
        Err(Error::Store(StoreError::NotLeader)) => fields.put_u8(2),
        Err(Error::OldStart { node, given, last, .. }) => {
            fields.put_u8(3);
            fields.put_u32(*node);
            fields.put_u64(*given);
            fields.put_u64(*last);
        }
        Err(error) => {
            fields.put_u8(4);
            fields.put_prefixed(error.to_string().as_bytes());
        }
    }
    bytes
}

fn put_leader_reply(fields: &mut Writer<'_>, reply: &LeaderReply) {
    match reply {
        LeaderReply::Beat(BeatReply { term, lease, next, open, moving, close }) => {
            fields.put_u64(*term);
            for time in [lease, next] {
                fields.put_u32(u32::try_from(time.as_millis()).unwrap_or(u32::MAX));
            }
            fields.put_varint(open.len() as u64);
            for Order { range, epoch, .. } in open {
                fields.put_u32(range.0);
                fields.put_u64(epoch.0);
            }
            put_ranges(fields, moving);
            put_ranges(fields, close);
        }
        LeaderReply::Clients(first) => fields.put_u64(*first),
        LeaderReply::Done => {}
        LeaderReply::Leases(report) => put_report(fields, report),
    }
}

fn put_report(fields: &mut Writer<'_>, LeaseReport { term, moves, ltcs, ranges }: &LeaseReport) {
    fields.put_u64(*term);
    fields.put_u64(*moves);
    fields.put_varint(ltcs.len() as u64);
    for LtcLease { owner, silent, left, ranges, is_ending } in ltcs {
        fields.put_u32(owner.ltc);
        fields.put_u64(owner.start);
        for time in [silent, left] {
            fields.put_u64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        }
        fields.put_u32(*ranges);
        fields.put_u8(u8::from(*is_ending));
    }
    fields.put_varint(ranges.len() as u64);
    for RangeLease { range, is_covered, ordered } in ranges {
        fields.put_u32(range.0);
        fields.put_u8(u8::from(*is_covered));
        fields.put_u8(u8::from(ordered.is_some()));
        ordered.iter().for_each(|ltc| fields.put_u32(*ltc));
    }
}

fn take_report(fields: &mut Reader<'_>) -> Decoded<LeaseReport> {
    let (term, moves) = (fields.take_u64()?, fields.take_u64()?);
    let (mut ltcs, mut ranges) = (Vec::new(), Vec::new());
    for _ in 0..fields.take_count(33)? {
        ltcs.push(LtcLease {
            owner: Owner { ltc: fields.take_u32()?, start: fields.take_u64()? },
            silent: Duration::from_millis(fields.take_u64()?),
            left: Duration::from_millis(fields.take_u64()?),
            ranges: fields.take_u32()?,
            is_ending: fields.take_flag()?,
        });
    }
    for _ in 0..fields.take_count(6)? {
        let (range, is_covered) = (RangeId(fields.take_u32()?), fields.take_flag()?);
        let ordered = if fields.take_flag()? { Some(fields.take_u32()?) } else { None };
        ranges.push(RangeLease { range, is_covered, ordered });
    }
    Ok(LeaseReport { term, moves, ltcs, ranges })
}

/// Decodes the reply to a call of this kind, which only the leader serves.
///
/// # Errors
/// The damage.
pub fn decode_leader_reply(kind: Kind, body: &[u8]) -> Decoded<Result<LeaderReply, Error>> {
    let mut fields = Reader::new(body);
    let reply = match fields.take_u8()? {
        0 => Ok(take_leader_reply(kind, &mut fields)?),
        1 => Err(StoreError::Unavailable(fields.take_text()?).into()),
        2 => Err(StoreError::NotLeader.into()),
        3 => {
            let (role, node) = (Role::Ltc, fields.take_u32()?);
            let (given, last) = (fields.take_u64()?, fields.take_u64()?);
            Err(Error::OldStart { role, node, given, last })
        }
        4 => Err(Error::Rejected(fields.take_text()?)),
        other => return Err(fields.corruption(format!("a reply begins with {other}"))),
    };
    fields.finish()?;
    Ok(reply)
}

fn take_leader_reply(kind: Kind, fields: &mut Reader<'_>) -> Decoded<LeaderReply> {
    Ok(match kind {
        Kind::Beat => {
            let term = fields.take_u64()?;
            let lease = Duration::from_millis(fields.take_u32()?.into());
            let next = Duration::from_millis(fields.take_u32()?.into());
            let mut open = Vec::new();
            for _ in 0..fields.take_count(12)? {
                let (range, epoch) = (RangeId(fields.take_u32()?), Epoch(fields.take_u64()?));
                open.push(Order { range, epoch, term });
            }
            let (moving, close) = (take_ranges(fields)?, take_ranges(fields)?);
            LeaderReply::Beat(BeatReply { term, lease, next, open, moving, close })
        }
        Kind::Clients => LeaderReply::Clients(fields.take_u64()?),
        Kind::MakeKeyspace => LeaderReply::Done,
        Kind::Leases => LeaderReply::Leases(take_report(fields)?),
        other => return Err(fields.corruption(format!("{other:?} is no call of the leader"))),
    })
}
