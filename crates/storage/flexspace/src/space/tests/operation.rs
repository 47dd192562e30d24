//! A random operation as a value, done to a space and to its model.

use environment::Random;
use rand::RngExt;

use super::model::Model;
use crate::space::{Error, FlexSpace};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Append(Vec<u8>),
    Insert(u64, Vec<u8>),
    Collapse(u64, u64),
    Pwrite(u64, Vec<u8>),
    Splice(u64, u64, Vec<u8>, u16),
    SetTag(u64, u16),
    /// Zeros in the place of bytes.
    Hole(u64, u64, u64),
    /// A splice at the first offset, a tag for its last byte, and the removal of the same number of
    /// bytes at the second.
    Together(u64, Vec<u8>, u64),
    Defrag(u64, u64),
    Sync,
    Checkpoint,
    Collect,
}

impl Operation {
    /// One that a space like the model takes; it grows to about `len_max`.
    pub(super) fn drawn(model: &Model, len_max: u64, random: &mut Random) -> Self {
        let len = model.len();
        let offset = random.random_range(0..=len);
        let length = random.random_range(0..=(len - offset).min(700));
        let is_long = len > len_max;
        match random.random_range(0..100) {
            0..10 if !is_long => Self::Append(drawn_bytes(random)),
            0..26 if !is_long => Self::Insert(offset, drawn_bytes(random)),
            26..30 if !is_long => Self::Hole(offset, length, random.random_range(0..2000)),
            0..50 => Self::Collapse(offset, length),
            50..60 => Self::Pwrite(offset, drawn_bytes(random)),
            60..75 => Self::Splice(offset, length, drawn_bytes(random), random.random_range(0..3)),
            75..80 => Self::drawn_together(len, random),
            80..82 if len > 0 => Self::SetTag(offset.min(len - 1), random.random_range(0..3)),
            82..86 => Self::Defrag(offset, length),
            86..94 => Self::Sync,
            94..97 => Self::Checkpoint,
            _ => Self::Collect,
        }
    }

    fn drawn_together(len: u64, random: &mut Random) -> Self {
        let mut data = drawn_bytes(random);
        data.push(1);
        Self::Together(random.random_range(0..=len), data, random.random_range(0..=len))
    }

    pub(super) fn apply(&self, space: &FlexSpace) -> Result<(), Error> {
        match self {
            Self::Append(data) => space.append(data),
            Self::Insert(offset, data) => space.insert(*offset, data),
            Self::Collapse(offset, length) => space.collapse(*offset, *length),
            Self::Pwrite(offset, data) => space.pwrite(*offset, data),
            Self::Splice(offset, removed, data, tag) => space.splice(*offset, *removed, data, *tag),
            Self::SetTag(offset, tag) => space.set_tag(*offset, *tag),
            Self::Hole(offset, removed, length) => space.splice_hole(*offset, *removed, *length),
            Self::Together(offset, data, out) => space.together(|space| {
                space.splice(*offset, 0, data, 1)?;
                space.set_tag(offset + data.len() as u64 - 1, 7)?;
                space.splice(*out, data.len() as u64, &[], 0)
            }),
            Self::Defrag(offset, length) => space.defrag(*offset, *length),
            Self::Sync => space.sync(),
            Self::Checkpoint => space.checkpoint(),
            Self::Collect => space.collect().map(drop),
        }
    }

    pub(super) fn model(&self, model: &mut Model) {
        match self {
            Self::Append(data) => model.splice(model.len(), 0, data, 0),
            Self::Insert(offset, data) => model.splice(*offset, 0, data, 0),
            Self::Collapse(offset, length) => model.splice(*offset, *length, &[], 0),
            Self::Pwrite(offset, data) => {
                let removed = (model.len() - offset).min(data.len() as u64);
                model.splice(*offset, removed, data, 0);
            }
            Self::Splice(offset, removed, data, tag) => model.splice(*offset, *removed, data, *tag),
            Self::SetTag(offset, tag) => model.bytes[*offset as usize].1 = *tag,
            Self::Hole(offset, removed, length) => {
                model.splice(*offset, *removed, &vec![0; *length as usize], 0);
            }
            Self::Together(offset, data, out) => {
                model.splice(*offset, 0, data, 1);
                model.bytes[*offset as usize + data.len() - 1].1 = 7;
                model.splice(*out, data.len() as u64, &[], 0);
            }
            Self::Defrag(..) | Self::Sync | Self::Checkpoint | Self::Collect => {}
        }
    }

    /// Returns whether all that was done before is durable when it has returned.
    pub(super) fn is_durable(&self) -> bool {
        matches!(self, Self::Sync | Self::Checkpoint)
    }
}

/// Mostly small; sometimes several extents.
fn drawn_bytes(random: &mut Random) -> Vec<u8> {
    let length = match random.random_range(0..10) {
        0 => 0,
        1..7 => random.random_range(1..40),
        7..9 => random.random_range(40..600),
        _ => random.random_range(600..5000),
    };
    (0..length).map(|_| random.random_range(0..=255)).collect()
}
