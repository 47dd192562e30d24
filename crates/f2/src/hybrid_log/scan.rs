//! Everything in a stretch of the log on disk, in the order in which it was appended.

use codec::Corruption;
use device::Buffer;
use engine::Result;

use super::{Geometry, Segments};
use crate::address::LogAddress;
use crate::record::{Damage, Stored};

/// A piece of one page on disk, verified while it is walked.
pub(crate) struct Stretch {
    from: LogAddress,
    bytes: Buffer,
    salt: u64,
    name: String,
    file_offset: u64,
}

/// Reads the log from `from` to `to` page by page and hands each piece to `with`. Both are where
/// records begin; the log may have been left and gone on elsewhere in between.
///
/// # Errors
/// A missing segment, the storage's, and `with`'s.
pub(crate) fn stretches(
    segments: &Segments,
    geometry: &Geometry,
    from: LogAddress,
    to: LogAddress,
    with: &mut dyn FnMut(&Stretch) -> Result<()>,
) -> Result<()> {
    let mut at = from;
    while at < to {
        let number = geometry.segment(at);
        let Some(segment) = segments.get(number) else {
            let what = "a segment of the log is missing";
            return Err(Corruption::new(what, 0).at(&segments.file_name(number), 0).into());
        };
        let next = geometry.segment_begin(number + 1);
        // Where the life that wrote this segment ended, the next begins with another.
        let left = match segments.get(number + 1) {
            Some(next) => next.previous_end(),
            None => match segments.pending_end(number) {
                Some(end) => end,
                // The next one may have been made, and have taken it over, since.
                None => segments.get(number + 1).map_or(next, |next| next.previous_end()),
            },
        };
        let end = to.min(next).min(left);
        while at < end {
            let page_end = geometry.page_begin(geometry.page(at) + 1).min(end);
            // Whole blocks, as they were written.
            let first = LogAddress::new(at.get() / super::BLOCK_BYTES * super::BLOCK_BYTES);
            let skipped = (at.get() - first.get()) as usize;
            let mut bytes = Buffer::zeroed((page_end.get() - first.get()) as usize);
            segment.read(first, &mut bytes)?;
            let bytes = if skipped == 0 { bytes } else { Buffer::copy_of(&bytes[skipped..]) };
            with(&Stretch {
                from: at,
                bytes,
                salt: segment.salt(),
                name: segment.name().to_owned(),
                file_offset: segment.offset(at),
            })?;
            at = page_end;
        }
        at = at.max(next.min(to));
    }
    Ok(())
}

impl Stretch {
    /// Its length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// What is wrong at `address`, with its place.
    pub(crate) fn damage(&self, address: LogAddress, damage: Damage) -> Corruption {
        let skipped = address.get() - self.from.get();
        Corruption::new(damage.0, self.file_offset + skipped).at(&self.name, 0)
    }

    /// Hands every record, with its address, to `with`; fillers are left out.
    ///
    /// # Errors
    /// Damage with its place; `with`'s.
    pub(crate) fn records<'a>(
        &'a self,
        with: &mut dyn FnMut(LogAddress, &Stored<'a>) -> Result<()>,
    ) -> Result<()> {
        let mut at = 0;
        while at < self.bytes.len() {
            let address = self.from.plus(at as u64);
            let stored = Stored::decode(&self.bytes[at..], self.salt, address)
                .map_err(|damage| self.damage(address, damage))?;
            at += stored.bytes;
            if !stored.header.is_filler() {
                with(address, &stored)?;
            }
        }
        Ok(())
    }
}
