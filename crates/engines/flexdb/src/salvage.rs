//! All sound data of a store, damaged or not, as writes that rebuild it; nothing is changed.
//!
//! 1. The space has the places of its bytes: the superblock, the tree and the log. If one of them
//!    cannot be read, nothing says which bytes are a store's, and nothing is reported.
//! 2. Each interval is reported in the order of its pairs, the later ones replacing the earlier, up
//!    to the first byte that cannot be read. The bytes behind it in the interval are lost, since
//!    nothing says where the next pair begins; the next interval is reported again.
//!
//! # What is lost
//! The keys from the first of such an interval to that of the next one. If lost data had written or
//! deleted a key that was reported, the key has an older value, or is back.

use std::ops::ControlFlow;
use std::sync::Arc;

use codec::{Corruption, Reader};
use device::Device;
use engine::{LostKeys, Op, Result, SalvageSink, Salvaged, as_damage};
use flexspace::space::Offline;

use crate::check::{self, Interval};
use crate::error::DATA;
use crate::pair::Pair;
use crate::stored_index;

/// Bytes that are read in one step if an interval cannot be read as a whole.
const STEP_BYTES: u64 = 4096;

/// Calls `take` with all sound writes of the store on `device`, interval by interval, in the order
/// of keys. Reads the store once. Memory: an interval.
///
/// # Errors
/// The storage's. Damage is part of the result.
pub fn salvage(device: &Arc<dyn Device>, take: &mut SalvageSink<'_>) -> Result<Salvaged> {
    stored_index::refuse_newer(&**device)?;
    let mut salvaged = Salvaged::default();
    let opened = check::open(&**device);
    let Some(Some(space)) = salvaged.sound(opened, || None)? else { return Ok(salvaged) };
    let header = check::header(&space);
    if let Some(header) = salvaged.sound(header, || None)? {
        salvaged.persisted = header.persisted;
    }
    let mut walk = Walk { salvaged, lost: Vec::new(), greatest: Vec::new() };
    for interval in check::intervals(&space) {
        if walk.tell(&space, &interval, take)?.is_break() {
            break;
        }
    }
    walk.found(None);
    Ok(walk.salvaged)
}

/// A walk over the intervals.
struct Walk {
    salvaged: Salvaged,
    /// Ranges that cannot be read behind the last known first key, each with a key that is no
    /// greater.
    lost: Vec<(Corruption, Vec<u8>)>,
    /// The greatest key of all that were reported.
    greatest: Vec<u8>,
}

impl Walk {
    /// Calls `take` with the pairs of an interval, as far as they can be read.
    fn tell(
        &mut self,
        space: &Offline,
        interval: &Interval,
        take: &mut SalvageSink<'_>,
    ) -> Result<ControlFlow<()>> {
        let (bytes, mut damage) = sound_bytes(space, interval)?;
        let (mut fields, mut first) = (Reader::new(&bytes), None);
        while !fields.is_empty() {
            let pair = match Pair::take(&mut fields) {
                Ok((_, pair)) => pair,
                // A pair that ends where the sound bytes do is cut by the damage behind them.
                Err(found) => {
                    damage.get_or_insert(found.at(DATA, interval.begin));
                    break;
                }
            };
            if first.is_none() {
                self.found(Some(pair.key));
                first = Some(pair.key.to_vec());
            }
            if pair.key > self.greatest.as_slice() {
                self.greatest = pair.key.to_vec();
            }
            let op = match pair.value {
                Some(value) => Op::Put { key: pair.key, value },
                None => Op::Delete { key: pair.key },
            };
            if take(op).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        if let Some(damage) = damage {
            self.salvaged.may_be_outdated |= first.is_some();
            self.lost.push((damage, first.unwrap_or_else(|| self.greatest.clone())));
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Here an interval begins with this key; none of those before it has a greater one.
    fn found(&mut self, first: Option<&[u8]>) {
        for (damage, from) in self.lost.drain(..) {
            let keys = LostKeys { from, to: first.map(<[u8]>::to_vec) };
            self.salvaged.lose(damage, Some(keys));
        }
    }
}

/// The bytes of an interval up to the first that cannot be read, and why it cannot.
fn sound_bytes(space: &Offline, interval: &Interval) -> Result<(Vec<u8>, Option<Corruption>)> {
    let Interval { begin, end } = *interval;
    let damage = match read(space, begin, end)? {
        Ok(bytes) => return Ok((bytes, None)),
        Err(damage) => damage,
    };
    let mut bytes = Vec::new();
    for piece in space.extents(begin..end) {
        let (mut from, to) = (piece.offset, piece.offset + u64::from(piece.length));
        while from < to {
            let next = to.min(from + STEP_BYTES);
            match read(space, from, next)? {
                Ok(more) => bytes.extend(more),
                Err(damage) => return Ok((bytes, Some(damage))),
            }
            from = next;
        }
    }
    Ok((bytes, Some(damage)))
}

/// Returns the bytes that were read, or the damage.
fn read(space: &Offline, begin: u64, end: u64) -> Result<std::result::Result<Vec<u8>, Corruption>> {
    match check::read(space, begin, end).map_err(as_damage) {
        Ok(bytes) => Ok(Ok(bytes)),
        Err(engine::Error::Corruption(damage)) => Ok(Err(damage)),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
