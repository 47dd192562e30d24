//! Everything that is whole of a log on disk: a walk that continues behind damage, for checks.
//!
//! 1. Segments that are missing, or whose heads are damaged, are left out; so is the missing part
//!    of a file that was cut short.
//! 2. Behind a damaged record the walk continues at the next place in its page at which a whole one
//!    begins. A checksum covers its record's address, so a record that begins there belongs there.

use codec::Corruption;
use engine::{Error, Result};

use super::scan::{Scan, Stretch};
use super::{Geometry, Segments};
use crate::address::LogAddress;
use crate::record::{ALIGNMENT, Damage, Stored};

/// Bytes that are verified in vain in search of the next whole record of a page; after that the
/// rest of the page is skipped.
const SEARCH_BYTES_MAX: usize = 16 << 20;

/// An item of such a walk.
pub(crate) enum Met<'a> {
    /// A record, no filler, with its address.
    Record(&'a Stretch, LogAddress, &'a Stored<'a>),
    /// Nothing from the first address up to the second can be read, for this reason.
    Lost(LogAddress, LogAddress, Corruption),
}

/// Visits all of the log from `begin` to `end`. Missing segments are skipped: the caller that
/// opened the segments knows of them.
///
/// # Errors
/// The storage's.
pub(crate) fn inspect(
    segments: &Segments,
    geometry: &Geometry,
    begin: LogAddress,
    end: LogAddress,
    visit: &mut dyn FnMut(Met<'_>),
) -> Result<()> {
    let mut at = begin;
    while at < end {
        let number = geometry.segment(at);
        let next = geometry.segment_begin(number + 1);
        if let Some(segment) = segments.get(number) {
            // If the next segment does not say it, this one's length does.
            let left = match segments.get(number + 1) {
                Some(next) => next.previous_end(),
                None if next < end => segment.end(),
                None => end,
            };
            inspect_segment(segments, geometry, at, end.min(next).min(left), visit)?;
        }
        at = next;
    }
    Ok(())
}

fn inspect_segment(
    segments: &Segments,
    geometry: &Geometry,
    from: LogAddress,
    to: LogAddress,
    visit: &mut dyn FnMut(Met<'_>),
) -> Result<()> {
    let (mut at, mut scan) = (from, Scan::new(geometry, from, to));
    while at < to {
        match scan.next(segments) {
            Ok(Some(stretch)) => {
                at = stretch.end();
                stretch.inspect(visit);
            }
            Ok(None) => break,
            Err(Error::Corruption(_)) => {
                // Of one of the pages ahead: this one first, by itself.
                let page_end = geometry.page_begin(geometry.page(at) + 1).min(to);
                match Scan::new(geometry, at, page_end).next(segments) {
                    Ok(Some(stretch)) => stretch.inspect(visit),
                    Ok(None) => {}
                    Err(Error::Corruption(damage)) => {
                        visit(Met::Lost(at, to, damage));
                        return Ok(());
                    }
                    Err(other) => return Err(other),
                }
                at = page_end;
                scan = Scan::new(geometry, at, to);
            }
            Err(other) => return Err(other),
        }
    }
    Ok(())
}

impl Stretch {
    fn inspect(&self, visit: &mut dyn FnMut(Met<'_>)) {
        let mut at = 0;
        while at < self.len() {
            let address = self.begin().plus(at as u64);
            match self.decode(at) {
                Ok(stored) => {
                    at += stored.bytes;
                    if !stored.header.is_filler() {
                        visit(Met::Record(self, address, &stored));
                    }
                }
                Err(damage) => {
                    let next = self.next_whole(at);
                    let mut damage = self.damage(address, damage);
                    let lost = next - at;
                    damage.what = format!("{}; the next {lost} bytes cannot be read", damage.what);
                    visit(Met::Lost(address, self.begin().plus(next as u64), damage));
                    at = next;
                }
            }
        }
    }

    /// The offset at which the next whole record behind `damaged` begins.
    fn next_whole(&self, damaged: usize) -> usize {
        let mut verified = 0;
        let mut at = damaged + ALIGNMENT;
        while at < self.len() && verified < SEARCH_BYTES_MAX {
            verified += ALIGNMENT;
            match self.decode(at) {
                Ok(_) => return at,
                // It was this long a piece that had another checksum.
                Err(Damage(_)) => verified += self.claimed_bytes(at),
            }
            at += ALIGNMENT;
        }
        self.len()
    }
}
