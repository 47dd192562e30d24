//! The records of the cluster, of StoCs, LTCs and keyspaces.

use codec::Corruption;
use stoc::RangeId;

use crate::fields::{decode, encode};

/// The record of the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterRecord {
    /// A random number, by which StoCs and clients recognise the cluster.
    pub id: u64,
    /// The number of the next range.
    pub next_range: u32,
    /// The id of the next client.
    pub next_client: u64,
}

/// The record of a StoC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StocRecord {
    /// The identity of its storage; none before its first start has completed.
    pub cookie: Option<u64>,
    /// The last start that it was given.
    pub given: u64,
    /// The last start that has completed, with this storage.
    pub completed: Option<u64>,
    /// The address at which it listens; none of a StoC of this process.
    pub place: Option<String>,
    /// Its failure domain, such as a rack; a StoC without one is a domain of its own.
    pub domain: Option<String>,
}

/// The record of an LTC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LtcRecord {
    /// The last start that it was given.
    pub given: u64,
    /// The address at which it serves clients; none before its first start has completed.
    pub place: Option<String>,
    /// Whether it gets no further range, and leaves the ones that it has.
    pub is_draining: bool,
}

/// The record of a keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyspaceRecord {
    /// Its name.
    pub name: String,
    /// Its options ([`crate::LogMode::to_options`]).
    pub options: Vec<u8>,
    /// Its ranges, in the order of their keys.
    pub ranges: Vec<RangeId>,
}

impl ClusterRecord {
    /// Returns its bytes.
    pub fn encode(&self) -> Vec<u8> {
        encode(|out| {
            out.put_u64(self.id);
            out.put_u32(self.next_range);
            out.put_u64(self.next_client);
        })
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// The damage.
    pub fn decode(bytes: &[u8]) -> Result<Self, Corruption> {
        decode(bytes, |fields| {
            let (id, next_range) = (fields.take_u64()?, fields.take_u32()?);
            Ok(Self { id, next_range, next_client: fields.take_u64()? })
        })
    }
}

impl StocRecord {
    /// Returns its bytes.
    pub fn encode(&self) -> Vec<u8> {
        encode(|out| {
            out.put_u64(self.given);
            for number in [self.cookie, self.completed] {
                out.put_u8(u8::from(number.is_some()));
                number.iter().for_each(|number| out.put_u64(*number));
            }
            for text in [&self.place, &self.domain] {
                out.put_u8(u8::from(text.is_some()));
                text.iter().for_each(|text| out.put_prefixed(text.as_bytes()));
            }
        })
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// The damage.
    pub fn decode(bytes: &[u8]) -> Result<Self, Corruption> {
        decode(bytes, |fields| {
            let given = fields.take_u64()?;
            let mut numbers = [None; 2];
            for number in &mut numbers {
                if fields.take_flag()? {
                    *number = Some(fields.take_u64()?);
                }
            }
            let mut texts = [None, None];
            for text in &mut texts {
                if fields.take_flag()? {
                    *text = Some(fields.take_text()?);
                }
            }
            let ([cookie, completed], [place, domain]) = (numbers, texts);
            Ok(Self { cookie, given, completed, place, domain })
        })
    }
}

impl LtcRecord {
    /// Returns its bytes.
    pub fn encode(&self) -> Vec<u8> {
        encode(|out| {
            out.put_u64(self.given);
            out.put_u8(u8::from(self.place.is_some()));
            self.place.iter().for_each(|place| out.put_prefixed(place.as_bytes()));
            out.put_u8(u8::from(self.is_draining));
        })
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// The damage.
    pub fn decode(bytes: &[u8]) -> Result<Self, Corruption> {
        decode(bytes, |fields| {
            let given = fields.take_u64()?;
            let place = if fields.take_flag()? { Some(fields.take_text()?) } else { None };
            Ok(Self { given, place, is_draining: fields.take_flag()? })
        })
    }
}

/// Returns the bytes of the number of a leadership.
pub(crate) fn encode_term(term: u64) -> Vec<u8> {
    encode(|out| out.put_u64(term))
}

/// Decodes the number of a leadership.
///
/// # Errors
/// The damage.
pub(crate) fn decode_term(bytes: &[u8]) -> Result<u64, Corruption> {
    decode(bytes, |fields| fields.take_u64())
}

impl KeyspaceRecord {
    /// Returns its bytes.
    pub fn encode(&self) -> Vec<u8> {
        encode(|out| {
            out.put_prefixed(self.name.as_bytes());
            out.put_prefixed(&self.options);
            out.put_varint(self.ranges.len() as u64);
            self.ranges.iter().for_each(|range| out.put_u32(range.0));
        })
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// The damage.
    pub fn decode(bytes: &[u8]) -> Result<Self, Corruption> {
        decode(bytes, |fields| {
            let (name, options) = (fields.take_text()?, fields.take_prefixed()?.to_vec());
            let count = fields.take_count(4)?;
            let ranges = (0..count).map(|_| Ok(RangeId(fields.take_u32()?)));
            Ok(Self { name, options, ranges: ranges.collect::<Result<_, Corruption>>()? })
        })
    }
}
