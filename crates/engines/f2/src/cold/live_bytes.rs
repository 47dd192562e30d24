//! How many bytes of the cold log live, about: counted for each of its segments, so that an error
//! ends with the segment.
//!
//! An appended record is live, by its exact length; so is a copy that no chunk names later, which
//! is rare. When a newer entry of its tag is put in front of an entry, the entry's record is dead,
//! but no compaction reads it for that. [`Covered`] keeps some of the records that many changes
//! leave behind, and those are read. Records that a tombstone removes were read anyway. A
//! compaction that has copied the live records of a segment forgets the rest.
//!
//! A checkpoint keeps the sum. A store that is opened spreads it evenly over the bytes that were
//! written to its segments.

use std::collections::VecDeque;

use sync::locks::Mutex;

use crate::address::LogAddress;
use crate::checkpoint::Span;
use crate::hybrid_log::{Gaps, Geometry};

/// The bytes that live, as far as is known.
#[derive(Debug)]
pub(crate) struct LiveBytes {
    geometry: Geometry,
    segments: Mutex<Segments>,
}

#[derive(Debug, Default)]
struct Segments {
    /// The number of the first.
    first: u64,
    live: VecDeque<u64>,
    sum: u64,
}

impl LiveBytes {
    /// Of the part of a log in which `live` bytes are said to live.
    pub(crate) fn restored(geometry: Geometry, gaps: &Gaps, part: Span, live: u64) -> Self {
        let bytes = gaps.bytes_between(part.begin, part.end);
        let live = live.min(bytes);
        let mut segments = Segments { first: geometry.segment(part.begin), ..Segments::default() };
        if bytes > 0 {
            let last = geometry.segment(LogAddress::new(part.end.get() - 1));
            let mut told = 0;
            for segment in segments.first..=last {
                let end = geometry.segment_begin(segment + 1).min(part.end);
                let seen = gaps.bytes_between(part.begin, end);
                let upto = (u128::from(live) * u128::from(seen) / u128::from(bytes)) as u64;
                segments.live.push_back(upto - told);
                told = upto;
            }
            segments.sum = told;
        }
        Self { geometry, segments: Mutex::new(segments) }
    }

    /// Counts an appended record of `bytes` bytes.
    pub(crate) fn add(&self, at: LogAddress, bytes: u64) {
        let mut segments = self.segments.lock();
        let segment = self.geometry.segment(at);
        // The part below the beginning was dropped meanwhile.
        let Some(place) = segment.checked_sub(segments.first) else { return };
        if segments.live.len() as u64 <= place {
            segments.live.resize(place as usize + 1, 0);
        }
        segments.live[place as usize] += bytes;
        segments.sum += bytes;
    }

    /// Counts records of about `bytes` bytes as dead; one of them is at `at`.
    pub(crate) fn take(&self, at: LogAddress, bytes: u64) {
        let mut segments = self.segments.lock();
        let place = self.geometry.segment(at).checked_sub(segments.first);
        let live = place.and_then(|place| segments.live.get_mut(place as usize));
        let Some(live) = live else { return };
        let taken = bytes.min(*live);
        *live -= taken;
        segments.sum -= taken;
    }

    /// The log begins there.
    pub(crate) fn forget_below(&self, begin: LogAddress) {
        let mut segments = self.segments.lock();
        let first = self.geometry.segment(begin);
        while segments.first < first {
            segments.first += 1;
            let gone = segments.live.pop_front().unwrap_or_default();
            segments.sum -= gone;
        }
    }

    /// In all.
    pub(crate) fn sum(&self) -> u64 {
        self.segments.lock().sum
    }
}

/// A sample of many records that have newer ones in front of them now. Each record of the sample
/// represents an equal number of them.
#[derive(Clone, Debug)]
pub(crate) struct Covered {
    some: Vec<LogAddress>,
    /// One record of this number is kept.
    each: u64,
    count: u64,
}

impl Default for Covered {
    fn default() -> Self {
        Self { some: Vec::new(), each: 1, count: 0 }
    }
}

impl Covered {
    /// More are not kept.
    pub(crate) const MOST: usize = 16;

    /// One more.
    pub(crate) fn push(&mut self, at: LogAddress) {
        if self.count.is_multiple_of(self.each) {
            if self.some.len() == Self::MOST {
                self.each *= 2;
                let mut place = 0;
                self.some.retain(|_| {
                    place += 1;
                    place % 2 == 1
                });
            }
            // It may not be among the records that are kept from now on.
            if self.count.is_multiple_of(self.each) {
                self.some.push(at);
            }
        }
        self.count += 1;
    }

    /// Returns the records that are kept.
    pub(crate) fn some(&self) -> &[LogAddress] {
        &self.some
    }

    /// Returns the number of records that each of them represents, in thousandths.
    pub(crate) fn weight_permille(&self) -> u64 {
        self.count * 1000 / (self.some.len() as u64).max(1)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
