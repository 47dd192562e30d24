//! How many bytes of the cold log live, about: of each of its segments, so that what is wrong goes with the
//! segment.
//!
//! What is appended lives, by its exact length; so does a copy that no chunk comes to name, which is rare. When
//! an entry comes to stand behind a newer one of its tag, its record is dead, but no compaction reads it for
//! that: of the records that many changes leave behind [`Covered`] keeps some, and those are read. What a
//! tombstone takes out was read anyway. A compaction that has copied what lives of a segment forgets the rest.
//!
//! A checkpoint keeps the sum. A store that is opened spreads it evenly over what its segments have been
//! written with.

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

    /// A record of so many bytes was appended.
    pub(crate) fn add(&self, at: LogAddress, bytes: u64) {
        let mut segments = self.segments.lock();
        let segment = self.geometry.segment(at);
        // What lies below the beginning was given up meanwhile.
        let Some(place) = segment.checked_sub(segments.first) else { return };
        if segments.live.len() as u64 <= place {
            segments.live.resize(place as usize + 1, 0);
        }
        segments.live[place as usize] += bytes;
        segments.sum += bytes;
    }

    /// Records of about so many bytes are dead, of which one lies there.
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

/// Some of many records that newer ones stand in front of now, each of which stands for as many.
#[derive(Clone, Debug)]
pub(crate) struct Covered {
    some: Vec<LogAddress>,
    /// One of so many is kept.
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
            // It may be none of those that are kept from now on.
            if self.count.is_multiple_of(self.each) {
                self.some.push(at);
            }
        }
        self.count += 1;
    }

    /// Those that are kept.
    pub(crate) fn some(&self) -> &[LogAddress] {
        &self.some
    }

    /// For how many each of them stands, in thousandths.
    pub(crate) fn weight_permille(&self) -> u64 {
        self.count * 1000 / (self.some.len() as u64).max(1)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
