//! The bytes of a simulated file: sparse pages, shared until one side writes.
//!
//! A clone costs one reference count, so an image of a disk costs only its differences from the
//! disk, however large the files are.
//!
//! # Invariants
//! - I1. A page that is not there reads as zeros.
//! - I2. Bytes beyond the length, in the last page too, are zero: a file that is cut and then
//!   extended shows zeros.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

const PAGE_BYTES: usize = 4096;
const PAGE: u64 = PAGE_BYTES as u64;

type Page = [u8; PAGE_BYTES];

#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    pages: Arc<BTreeMap<u64, Arc<Page>>>,
    len: u64,
}

/// Returns the pieces of `range` that are in one page each: the page, the part of it, and the part
/// of `range`.
fn pieces(range: Range<u64>) -> impl Iterator<Item = (u64, Range<usize>, usize)> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        if at >= range.end {
            return None;
        }
        // All three are below the page's size, or below the length of a buffer in memory.
        let (page, within) = (at / PAGE, (at % PAGE) as usize);
        let len = (range.end - at).min(PAGE - at % PAGE);
        let piece = (page, within..within + len as usize, (at - range.start) as usize);
        at += len;
        Some(piece)
    })
}

impl Content {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Copies the bytes from `offset` on; beyond the length there are zeros.
    pub(super) fn read(&self, offset: u64, into: &mut [u8]) {
        for (page, within, at) in pieces(offset..offset + into.len() as u64) {
            let target = &mut into[at..at + within.len()];
            match self.pages.get(&page) {
                Some(page) => target.copy_from_slice(&page[within]),
                None => target.fill(0),
            }
        }
    }

    /// Puts `bytes` at `offset`; the length grows if need be.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let end = offset + bytes.len() as u64;
        let pages = Arc::make_mut(&mut self.pages);
        for (page, within, at) in pieces(offset..end) {
            let source = &bytes[at..at + within.len()];
            let page = pages.entry(page).or_insert_with(|| Arc::new([0; PAGE_BYTES]));
            Arc::make_mut(page)[within].copy_from_slice(source);
        }
        self.len = self.len.max(end);
    }

    /// Cuts, or extends with zeros.
    pub(super) fn set_len(&mut self, len: u64) {
        if len < self.len {
            self.zero(len..self.len);
        }
        self.len = len;
    }

    /// Makes a range read as zeros; the length stays.
    pub(super) fn zero(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let touched = range.start / PAGE..range.end.div_ceil(PAGE);
        let there: Vec<u64> = self.pages.range(touched).map(|(&number, _)| number).collect();
        if there.is_empty() {
            return;
        }
        let pages = Arc::make_mut(&mut self.pages);
        for number in there {
            let start = number * PAGE;
            let from = range.start.saturating_sub(start).min(PAGE) as usize;
            let to = (range.end - start).min(PAGE) as usize;
            if (from, to) == (0, PAGE_BYTES) {
                pages.remove(&number);
            } else if let Some(page) = pages.get_mut(&number) {
                Arc::make_mut(page)[from..to].fill(0);
            }
        }
    }

    /// Flips one bit of a byte within the length.
    pub(super) fn flip(&mut self, offset: u64, bit: u8) {
        if offset < self.len {
            let mut byte = [0];
            self.read(offset, &mut byte);
            self.write(offset, &[byte[0] ^ (1 << (bit % 8))]);
        }
    }

    /// Takes over a range from `other`, at any two lengths; the length stays.
    ///
    /// Used with whole sectors only, and followed by [`Content::set_len`], which restores I2.
    pub(super) fn copy_from(&mut self, other: &Self, range: Range<u64>) {
        let pages = Arc::make_mut(&mut self.pages);
        for (number, within, _) in pieces(range) {
            match (other.pages.get(&number), pages.get_mut(&number)) {
                (None, None) => {}
                (None, Some(page)) => Arc::make_mut(page)[within].fill(0),
                (Some(source), Some(page)) => {
                    Arc::make_mut(page)[within.clone()].copy_from_slice(&source[within]);
                }
                (Some(source), None) => {
                    let mut page = [0; PAGE_BYTES];
                    page[within.clone()].copy_from_slice(&source[within]);
                    pages.insert(number, Arc::new(page));
                }
            }
        }
    }

    /// Sets the length without touching the bytes beyond it, for use between copies.
    pub(super) fn cut(&mut self, len: u64) {
        let end = self.pages.last_key_value().map_or(0, |(&number, _)| (number + 1) * PAGE);
        self.len = self.len.max(end);
        self.set_len(len);
    }

    /// Room that is taken up, in bytes.
    pub(super) fn stored_bytes(&self) -> u64 {
        self.pages.len() as u64 * PAGE
    }
}
