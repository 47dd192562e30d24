//! Scans over the ranges of a keyspace.

use std::collections::VecDeque;

use crate::error::Result;
use crate::keyspace::{Keyspace, other_reply, wait};
use crate::protocol::{RangeReply, RangeRequest};

/// Pairs and bytes of one piece, at most.
const PAIRS_MAX: u32 = 1000;
const BYTES_MAX: u32 = 1 << 20;

/// The pairs of a range of keys, in order.
#[derive(Debug)]
pub struct Scan {
    keyspace: Keyspace,
    /// The part that was not read yet; none if all was.
    left: Option<(Vec<u8>, Option<Vec<u8>>)>,
    is_reverse: bool,
    is_stored: bool,
    /// Pairs of one piece, at most.
    pairs_max: u32,
    pairs: VecDeque<(Vec<u8>, Vec<u8>)>,
}

impl Scan {
    pub(crate) fn new(
        keyspace: Keyspace,
        left: Option<(Vec<u8>, Option<Vec<u8>>)>,
        is_reverse: bool,
    ) -> Self {
        let (is_stored, pairs_max, pairs) = (false, PAIRS_MAX, VecDeque::new());
        Self { keyspace, left, is_reverse, is_stored, pairs_max, pairs }
    }

    /// Returns the same scan with values in their stored form.
    pub(crate) fn stored(self) -> Self {
        Self { is_stored: true, ..self }
    }

    /// Returns the same scan, which reads pieces of at most `pairs` pairs. A caller that needs few
    /// pairs reads no others.
    #[must_use]
    pub fn in_pieces(self, pairs: u32) -> Self {
        Self { pairs_max: pairs.clamp(1, PAIRS_MAX), ..self }
    }

    /// Reads the next piece.
    fn read(&mut self, (start, end): (Vec<u8>, Option<Vec<u8>>)) -> Result<()> {
        let (is_reverse, pairs_max, bytes_max) = (self.is_reverse, self.pairs_max, BYTES_MAX);
        let place = match is_reverse {
            true => (end.clone().unwrap_or_default(), true),
            false => (start.clone(), false),
        };
        let (from, to) = (start.clone(), end.clone());
        let request = RangeRequest::Scan { start: from, end: to, is_reverse, pairs_max, bytes_max };
        let reply = wait(|on_done| self.keyspace.send(place, request, on_done))?;
        let RangeReply::Pairs { pairs, next } = reply else { return Err(other_reply()) };
        for (key, stored) in pairs {
            let value = match self.is_stored {
                true => Some(stored),
                false => self.keyspace.shown(Some(stored))?,
            };
            if let Some(value) = value {
                self.pairs.push_back((key, value));
            }
        }
        self.left = next.map(|next| match is_reverse {
            true => (start, Some(next)),
            false => (next, end),
        });
        Ok(())
    }
}

impl Iterator for Scan {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(pair) = self.pairs.pop_front() {
                return Some(Ok(pair));
            }
            let left = self.left.take()?;
            // After an error the scan is over.
            if let Err(error) = self.read(left) {
                return Some(Err(error));
            }
        }
    }
}
