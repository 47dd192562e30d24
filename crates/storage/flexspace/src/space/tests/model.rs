//! A space as a vector of bytes, each with its tag.

use crate::space::{Error, Snapshot};

/// Bytes, and the tag of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Model {
    pub(super) bytes: Vec<(u8, u16)>,
}

impl Model {
    /// Returns the content of a snapshot: read as a whole, and extent by extent.
    pub(super) fn of(snapshot: &Snapshot) -> Result<Self, Error> {
        let bytes = snapshot.read(0, snapshot.len())?;
        let mut model = Self { bytes: bytes.into_iter().map(|byte| (byte, 0)).collect() };
        for piece in snapshot.extents(0..snapshot.len()) {
            model.bytes[piece.offset as usize].1 = piece.extent.tag();
        }
        Ok(model)
    }

    pub(super) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(super) fn splice(&mut self, offset: u64, removed: u64, data: &[u8], tag: u16) {
        let range = offset as usize..(offset + removed) as usize;
        let tags = std::iter::once(tag).chain(std::iter::repeat(0));
        self.bytes.splice(range, data.iter().copied().zip(tags));
    }

    pub(super) fn plain(&self) -> Vec<u8> {
        self.bytes.iter().map(|(byte, _)| *byte).collect()
    }
}
