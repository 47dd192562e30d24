//! The requests of clients to LTCs as messages, and the replies to them.
//!
//! # Format
//! `docs/formats/wire.md`.

use codec::{Corruption, Reader, Writer};
use stoc::RangeId;
use wire::Kind;

type Decoded<T> = std::result::Result<T, Corruption>;

/// The identity of a write, equal in each repetition. (Q1)
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId {
    /// The client.
    pub client: u64,
    /// The number of the write among those of the client; the first has 1.
    pub number: u64,
}

/// A key, and the value that it has or is to have; none for an absent key. Values have their stored
/// form ([`thermocline::Expiring`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Option<Vec<u8>>,
}

/// A request of a client to the owner of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RangeRequest {
    /// Reads keys.
    Get {
        /// The keys.
        keys: Vec<Vec<u8>>,
    },
    /// Reads pairs in the order of their keys.
    Scan {
        /// The first key.
        start: Vec<u8>,
        /// The end, exclusive; none for the end of the keyspace.
        end: Option<Vec<u8>>,
        /// Whether the last pairs come first.
        is_reverse: bool,
        /// The most pairs.
        pairs_max: u32,
        /// Bytes of pairs after which no further one is added.
        bytes_max: u32,
    },
    /// Makes all `steps`, if all keys of `expects` have their values.
    Write {
        /// The identity of the write.
        id: RequestId,
        /// Whether an earlier attempt may be under way.
        is_repeated: bool,
        /// The expected values.
        expects: Vec<Pair>,
        /// The new values.
        steps: Vec<Pair>,
    },
    /// Removes all keys of the range.
    Clear {
        /// The identity of the write.
        id: RequestId,
    },
}

/// The reply to a request that was served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RangeReply {
    /// To [`RangeRequest::Get`], in the order of the keys.
    Values(Vec<Option<Vec<u8>>>),
    /// To [`RangeRequest::Scan`].
    Pairs {
        /// The pairs.
        pairs: Vec<(Vec<u8>, Vec<u8>)>,
        /// The key from which the scan continues: its new start, or in reverse its new end. None
        /// if it is complete.
        next: Option<Vec<u8>>,
    },
    /// All steps are made.
    Written,
    /// A key has another value than expected. Nothing was written.
    Differs,
}

/// The reason why a request was not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// This LTC does not serve the range, or the range has not all of the keys. Nothing has
    /// happened.
    Moved,
    /// The range takes no further request now. Nothing has happened.
    Busy {
        /// Milliseconds after which the client tries again.
        pause_ms: u32,
    },
    /// The LTC has lost the range while it served the request. The write may have happened.
    Lost,
    /// The range knows the client no more, or the number is too old. This attempt did nothing.
    Forgotten,
    /// The database has refused the request.
    Failed {
        /// The meaning for the client.
        kind: FailedKind,
        /// The message.
        text: String,
    },
}

/// The meaning of a failure for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedKind {
    /// No memory or no space is left. Nothing has happened.
    Full,
    /// The request cannot be served by any range. Nothing has happened.
    Rejected,
}

impl RangeRequest {
    /// Returns its kind of message.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Get { .. } => Kind::RangeGet,
            Self::Scan { .. } => Kind::RangeScan,
            Self::Write { .. } => Kind::RangeWrite,
            Self::Clear { .. } => Kind::RangeClear,
        }
    }
}

fn put_pair(fields: &mut Writer<'_>, Pair { key, value }: &Pair) {
    fields.put_prefixed(key);
    put_value(fields, value.as_deref());
}

fn put_value(fields: &mut Writer<'_>, value: Option<&[u8]>) {
    fields.put_u8(u8::from(value.is_some()));
    value.iter().for_each(|value| fields.put_prefixed(value));
}

fn take_value(fields: &mut Reader<'_>) -> Decoded<Option<Vec<u8>>> {
    Ok(if fields.take_flag()? { Some(fields.take_prefixed()?.to_vec()) } else { None })
}

fn put_pairs(fields: &mut Writer<'_>, pairs: &[Pair]) {
    fields.put_varint(pairs.len() as u64);
    pairs.iter().for_each(|pair| put_pair(fields, pair));
}

fn take_pairs(fields: &mut Reader<'_>) -> Decoded<Vec<Pair>> {
    let count = fields.take_count(2)?;
    let pair = |_| Ok(Pair { key: fields.take_prefixed()?.to_vec(), value: take_value(fields)? });
    (0..count).map(pair).collect()
}

fn put_id(fields: &mut Writer<'_>, RequestId { client, number }: RequestId) {
    fields.put_u64(client);
    fields.put_u64(number);
}

fn take_id(fields: &mut Reader<'_>) -> Decoded<RequestId> {
    Ok(RequestId { client: fields.take_u64()?, number: fields.take_u64()? })
}

/// Encodes a request, without its range: a u32 in front.
pub fn encode_range_request(request: &RangeRequest) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut fields = Writer::new(&mut bytes);
    match request {
        RangeRequest::Get { keys } => {
            fields.put_varint(keys.len() as u64);
            keys.iter().for_each(|key| fields.put_prefixed(key));
        }
        RangeRequest::Scan { start, end, is_reverse, pairs_max, bytes_max } => {
            fields.put_prefixed(start);
            put_value(&mut fields, end.as_deref());
            fields.put_u8(u8::from(*is_reverse));
            fields.put_u32(*pairs_max);
            fields.put_u32(*bytes_max);
        }
        RangeRequest::Write { id, is_repeated, expects, steps } => {
            put_id(&mut fields, *id);
            fields.put_u8(u8::from(*is_repeated));
            put_pairs(&mut fields, expects);
            put_pairs(&mut fields, steps);
        }
        RangeRequest::Clear { id } => put_id(&mut fields, *id),
    }
    bytes
}

/// Decodes a request with its range.
///
/// # Errors
/// The damage; a message of another kind.
pub fn decode_range_request(kind: Kind, body: &[u8]) -> Decoded<(RangeId, RangeRequest)> {
    let mut fields = Reader::new(body);
    let range = RangeId(fields.take_u32()?);
    let request = match kind {
        Kind::RangeGet => {
            let count = fields.take_count(1)?;
            let keys = (0..count).map(|_| Ok(fields.take_prefixed()?.to_vec()));
            RangeRequest::Get { keys: keys.collect::<Decoded<_>>()? }
        }
        Kind::RangeScan => {
            let start = fields.take_prefixed()?.to_vec();
            let (end, is_reverse) = (take_value(&mut fields)?, fields.take_flag()?);
            let (pairs_max, bytes_max) = (fields.take_u32()?, fields.take_u32()?);
            RangeRequest::Scan { start, end, is_reverse, pairs_max, bytes_max }
        }
        Kind::RangeWrite => {
            let (id, is_repeated) = (take_id(&mut fields)?, fields.take_flag()?);
            let expects = take_pairs(&mut fields)?;
            RangeRequest::Write { id, is_repeated, expects, steps: take_pairs(&mut fields)? }
        }
        Kind::RangeClear => RangeRequest::Clear { id: take_id(&mut fields)? },
        other => return Err(fields.corruption(format!("{other:?} is no request of a client"))),
    };
    fields.finish()?;
    Ok((range, request))
}

/// Encodes the reply to a request.
pub fn encode_range_reply(reply: &std::result::Result<RangeReply, Refused>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut fields = Writer::new(&mut bytes);
    match reply {
        Ok(reply) => {
            fields.put_u8(0);
            put_reply(&mut fields, reply);
        }
        Err(Refused::Moved) => fields.put_u8(1),
        Err(Refused::Busy { pause_ms }) => {
            fields.put_u8(2);
            fields.put_u32(*pause_ms);
        }
        Err(Refused::Lost) => fields.put_u8(3),
        Err(Refused::Forgotten) => fields.put_u8(4),
        Err(Refused::Failed { kind, text }) => {
            fields.put_u8(5);
            fields.put_u8(match kind {
                FailedKind::Full => 1,
                FailedKind::Rejected => 2,
            });
            fields.put_prefixed(text.as_bytes());
        }
    }
    bytes
}

fn put_reply(fields: &mut Writer<'_>, reply: &RangeReply) {
    match reply {
        RangeReply::Values(values) => {
            fields.put_varint(values.len() as u64);
            values.iter().for_each(|value| put_value(fields, value.as_deref()));
        }
        RangeReply::Pairs { pairs, next } => {
            fields.put_varint(pairs.len() as u64);
            for (key, value) in pairs {
                fields.put_prefixed(key);
                fields.put_prefixed(value);
            }
            put_value(fields, next.as_deref());
        }
        RangeReply::Written => fields.put_u8(0),
        RangeReply::Differs => fields.put_u8(1),
    }
}

/// Decodes the reply to a request of this kind.
///
/// # Errors
/// The damage.
pub fn decode_range_reply(
    kind: Kind,
    body: &[u8],
) -> Decoded<std::result::Result<RangeReply, Refused>> {
    let mut fields = Reader::new(body);
    let reply = match fields.take_u8()? {
        0 => Ok(take_reply(kind, &mut fields)?),
        1 => Err(Refused::Moved),
        2 => Err(Refused::Busy { pause_ms: fields.take_u32()? }),
        3 => Err(Refused::Lost),
        4 => Err(Refused::Forgotten),
        5 => {
            let kind = match fields.take_u8()? {
                1 => FailedKind::Full,
                2 => FailedKind::Rejected,
                code => return Err(fields.corruption(format!("there is no failure {code}"))),
            };
            Err(Refused::Failed { kind, text: fields.take_text()? })
        }
        code => return Err(fields.corruption(format!("a reply begins with {code}"))),
    };
    fields.finish()?;
    Ok(reply)
}

fn take_reply(kind: Kind, fields: &mut Reader<'_>) -> Decoded<RangeReply> {
    Ok(match kind {
        Kind::RangeGet => {
            let count = fields.take_count(1)?;
            let values = (0..count).map(|_| take_value(fields));
            RangeReply::Values(values.collect::<Decoded<_>>()?)
        }
        Kind::RangeScan => {
            let count = fields.take_count(2)?;
            let pair = |_| Ok((fields.take_prefixed()?.to_vec(), fields.take_prefixed()?.to_vec()));
            let pairs = (0..count).map(pair).collect::<Decoded<_>>()?;
            RangeReply::Pairs { pairs, next: take_value(fields)? }
        }
        Kind::RangeWrite | Kind::RangeClear => match fields.take_flag()? {
            false => RangeReply::Written,
            true => RangeReply::Differs,
        },
        other => return Err(fields.corruption(format!("{other:?} is no request of a client"))),
    })
}
