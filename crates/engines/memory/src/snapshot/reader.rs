//! Reads a snapshot file from front to back, and proves it while it does.
//!
//! A file is whole if its head, the place of each block, the order of its keys, its totals and its
//! length match the superblock. Anything else is reported with its place.
//!
//! There are three steps, so that the second may run for several blocks at the same time
//! (`load.rs`). [`Blocks`] finds the blocks sequentially, [`RawBlock::decode`] proves each block by
//! itself, and [`Proof`] that each follows the one before.

use std::sync::Arc;

use codec::{Corruption, Place, Reader, SeqNo};
use device::{Buffer, Device, File, Mode};
use engine::{Error, Result};

use super::format::{self, Block, BlockHeader, Head, Identity, Summary, Totals, UNIT_BYTES};

/// Bytes that one read fetches at least, if the file has them.
const READ_BYTES: usize = 4 << 20;

/// Is handed pairs, key and value.
pub(crate) type Take<'a> = dyn FnMut(&[u8], &[u8]) + 'a;

/// Reads the snapshot that `summary` describes and hands each pair, in ascending order, to `take`.
///
/// # Errors
/// [`Error::Corruption`] with the file and the offset of the damage; `take` may have been called
/// with some pairs before.
pub(crate) fn read(
    device: &dyn Device,
    summary: &Summary,
    persisted: SeqNo,
    take: &mut Take<'_>,
) -> Result<()> {
    let mut blocks = Blocks::open(device, summary, persisted)?;
    let mut proof = Proof::new(summary);
    loop {
        let block = blocks.next()?;
        let offset = block.offset;
        let content = block.decode(summary.identity, take);
        let ended = content.and_then(|content| proof.check(content));
        if ended.map_err(|damage| summary.damaged(damage, offset))? {
            return blocks.end();
        }
    }
}

/// Decodes the bytes of one block that belongs at `place`, and calls `take` with its pairs, in
/// ascending order. Never panics, whatever the bytes, and allocates next to nothing.
///
/// # Errors
/// The bytes are no whole block of that place; `take` may have been called with some pairs before.
pub fn decode_block(
    bytes: &[u8],
    place: Place,
    take: &mut dyn FnMut(&[u8], &[u8]),
) -> std::result::Result<(), Corruption> {
    let header = BlockHeader::decode(bytes)?;
    if header.block_bytes() != bytes.len() {
        return Err(Corruption::new("a block is not as long as it says", 8));
    }
    let identity = Identity { number: place.file, nonce: place.generation };
    RawBlock { header, offset: place.offset, bytes }.decode(identity, take).map(drop)
}

/// The blocks of a file, in order; what they say is not proven yet.
pub(super) struct Blocks<'a> {
    summary: &'a Summary,
    window: Window,
    /// The start of the block that was returned last.
    offset: u64,
}

/// A block as the file has it.
pub(super) struct RawBlock<'a> {
    pub(super) header: BlockHeader,
    pub(super) offset: u64,
    pub(super) bytes: &'a [u8],
}

/// The content of one block.
pub(super) enum Content {
    Pairs(Extent),
    Totals(Totals),
}

/// The facts about a block of pairs that are needed to put it behind another.
#[derive(Default)]
pub(super) struct Extent {
    /// Its first and its last key, if it has any.
    keys: Option<(Vec<u8>, Vec<u8>)>,
    totals: Totals,
}

impl Summary {
    /// Damage in the file, `damage.offset` behind `offset`.
    pub(super) fn damaged(&self, damage: Corruption, offset: u64) -> Error {
        damage.at(&format::file_name(self.identity.number), offset).into()
    }
}

impl<'a> Blocks<'a> {
    /// Opens the file, and proves that it is the one.
    pub(super) fn open(
        device: &dyn Device,
        summary: &'a Summary,
        persisted: SeqNo,
    ) -> Result<Self> {
        let file = match device.open(&format::file_name(summary.identity.number), Mode::Read) {
            Err(device::Error::NotFound { .. }) => {
                let what = "the snapshot that the superblock names is missing";
                return Err(summary.damaged(Corruption::new(what, 0), 0));
            }
            other => other?,
        };
        let len = file.len()?;
        if len != summary.bytes {
            let what = format!("the file has {len} bytes instead of {}", summary.bytes);
            return Err(summary.damaged(Corruption::new(what, len.min(summary.bytes)), 0));
        }
        let mut window = Window::new(file, len);
        let head = Head::decode(window.take(UNIT_BYTES)?);
        let head = head.map_err(|damage| summary.damaged(damage, 0))?;
        // A flush that found nothing new has moved the superblock's number alone.
        if head.identity != summary.identity || head.persisted > persisted {
            let what = "the head is that of another snapshot";
            return Err(summary.damaged(Corruption::new(what, 0), 0));
        }
        Ok(Self { summary, window, offset: 0 })
    }

    /// The next block. There is one, until [`Blocks::end`] is due.
    pub(super) fn next(&mut self) -> Result<RawBlock<'_>> {
        let offset = self.window.offset;
        self.offset = offset;
        let header = BlockHeader::decode(self.window.peek(UNIT_BYTES)?)
            .map_err(|damage| self.summary.damaged(damage, offset))?;
        if header.block_bytes() as u64 > self.window.len - offset {
            let what = "a block goes beyond the end of the file";
            return Err(self.summary.damaged(Corruption::new(what, 8), offset));
        }
        let bytes = self.window.take(header.block_bytes())?;
        Ok(RawBlock { header, offset, bytes })
    }

    /// The block that was given last must end the file.
    pub(super) fn end(&self) -> Result<()> {
        if self.window.offset == self.window.len {
            return Ok(());
        }
        let what = "something follows the last block";
        Err(self.summary.damaged(Corruption::new(what, 0), self.offset))
    }
}

impl RawBlock<'_> {
    /// Proves the block by itself, and hands its pairs, in ascending order, to `take`. Damage is
    /// counted from the block's start.
    pub(super) fn decode(
        &self,
        identity: Identity,
        take: &mut Take<'_>,
    ) -> std::result::Result<Content, Corruption> {
        let (pairs, payload) = match self.header.open(self.bytes, identity, self.offset)? {
            Block::Pairs(pairs, payload) => (pairs, payload),
            Block::Totals(totals) => return Ok(Content::Totals(totals)),
        };
        let mut payload = Reader::new(payload);
        let mut totals = Totals { blocks: 1, ..Totals::default() };
        let mut ends: Option<(&[u8], &[u8])> = None;
        for _ in 0..pairs {
            let (key, value) = format::take_pair(&mut payload).map_err(in_payload)?;
            let first = match ends {
                Some((_, last)) if key <= last => {
                    return Err(in_payload(payload.corruption(OUT_OF_ORDER)));
                }
                Some((first, _)) => first,
                None => key,
            };
            ends = Some((first, key));
            totals.pairs += 1;
            totals.pair_bytes += (key.len() + value.len()) as u64;
            take(key, value);
        }
        payload.finish().map_err(in_payload)?;
        let keys = ends.map(|(first, last)| (first.to_vec(), last.to_vec()));
        Ok(Content::Pairs(Extent { keys, totals }))
    }
}

const OUT_OF_ORDER: &str = "the keys are out of order";

/// The sums over the blocks so far.
pub(super) struct Proof<'a> {
    summary: &'a Summary,
    found: Totals,
    last: Option<Vec<u8>>,
}

impl<'a> Proof<'a> {
    pub(super) fn new(summary: &'a Summary) -> Self {
        Self { summary, found: Totals::default(), last: None }
    }

    /// Takes in the content of the next block; returns `true` if it is the last one.
    pub(super) fn check(&mut self, content: Content) -> std::result::Result<bool, Corruption> {
        let Extent { keys, totals } = match content {
            Content::Pairs(extent) => extent,
            Content::Totals(stated) if stated == self.found && stated == self.summary.totals => {
                return Ok(true);
            }
            Content::Totals(_) => {
                return Err(Corruption::new("the totals do not match what was read", 0));
            }
        };
        if let Some((first, last)) = keys {
            if self.last.as_ref().is_some_and(|before| first <= *before) {
                return Err(in_payload(Corruption::new(OUT_OF_ORDER, 0)));
            }
            self.last = Some(last);
        }
        self.found.blocks += totals.blocks;
        self.found.pairs += totals.pairs;
        self.found.pair_bytes += totals.pair_bytes;
        Ok(false)
    }
}

/// Damage in a payload, counted from the block's start.
fn in_payload(damage: Corruption) -> Corruption {
    let offset = damage.offset + format::BLOCK_HEADER_BYTES as u64;
    Corruption { offset, ..damage }
}

/// A part of the file in memory, moved along.
struct Window {
    file: Arc<dyn File>,
    len: u64,
    /// The offset in the file of the next byte to be taken.
    offset: u64,
    buffer: Buffer,
    /// The part of the buffer that is filled and not yet taken.
    filled: std::ops::Range<usize>,
}

impl Window {
    fn new(file: Arc<dyn File>, len: u64) -> Self {
        let bytes = usize::try_from(len).map_or(READ_BYTES, |len| len.min(READ_BYTES));
        Self { file, len, offset: 0, buffer: Buffer::zeroed(bytes), filled: 0..0 }
    }

    /// The next `bytes` bytes, which stay.
    fn peek(&mut self, bytes: usize) -> Result<&[u8]> {
        if self.filled.len() < bytes {
            self.fill(bytes)?;
        }
        Ok(&self.buffer[self.filled.start..self.filled.start + bytes])
    }

    /// The next `bytes` bytes.
    fn take(&mut self, bytes: usize) -> Result<&[u8]> {
        self.peek(bytes)?;
        let start = self.filled.start;
        self.filled.start += bytes;
        self.offset += bytes as u64;
        Ok(&self.buffer[start..start + bytes])
    }

    /// Reads on until at least `bytes` bytes are there. Bytes that are there already move to the
    /// front; all lengths are multiples of a unit, so that the read stays aligned.
    fn fill(&mut self, bytes: usize) -> Result<()> {
        let left = usize::try_from(self.len - self.offset).unwrap_or(usize::MAX);
        if bytes > left {
            let what = "the file ends within a block";
            return Err(Corruption::new(what, self.offset).at(self.file.name(), 0).into());
        }
        let wanted = bytes.max(READ_BYTES).min(left);
        let there = self.filled.len();
        if self.buffer.len() < wanted {
            let mut larger = Buffer::zeroed(wanted);
            larger[..there].copy_from_slice(&self.buffer[self.filled.clone()]);
            self.buffer = larger;
        } else {
            self.buffer.copy_within(self.filled.clone(), 0);
        }
        self.file.read_at(self.offset + there as u64, &mut self.buffer[there..wanted])?;
        self.filled = 0..wanted;
        Ok(())
    }
}
