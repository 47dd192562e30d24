//! Reads a snapshot file from front to back, and proves it while it does.
//!
//! A file is whole if its head, each block at its place, the order of its keys, its totals and its
//! length are what the superblock says. Anything else is reported with its place.

use std::sync::Arc;

use codec::{Corruption, Reader, SeqNo};
use device::{Buffer, Device, File, Mode};
use engine::{Error, Result};

use super::format::{self, Block, BlockHeader, Head, Summary, Totals, UNIT_BYTES};

/// Reads ahead at least this much at once.
const READ_BYTES: usize = 4 << 20;

/// Reads the snapshot that `summary` describes and hands each pair, in ascending order, to `take`.
///
/// # Errors
/// [`Error::Corruption`] with the file and the offset of what is damaged; some pairs may have been
/// handed out by then.
pub(crate) fn read(
    device: &dyn Device,
    summary: &Summary,
    persisted: SeqNo,
    take: &mut dyn FnMut(&[u8], &[u8]),
) -> Result<()> {
    let name = format::file_name(summary.identity.number);
    let file = match device.open(&name, Mode::Read) {
        Err(device::Error::NotFound { .. }) => {
            let what = "the snapshot that the superblock names is missing";
            return Err(Corruption::new(what, 0).at(&name, 0).into());
        }
        other => other?,
    };
    let len = file.len()?;
    if len != summary.bytes {
        let what = format!("the file has {len} bytes instead of {}", summary.bytes);
        return Err(Corruption::new(what, len.min(summary.bytes)).at(&name, 0).into());
    }
    let mut window = Window::new(file, len);
    let head = window.take(UNIT_BYTES)?;
    let head = Head::decode(head).map_err(|damage| damage.at(&name, 0))?;
    // A flush that found nothing new has moved the superblock's number alone.
    if head.identity != summary.identity || head.persisted > persisted {
        let what = "the head is that of another snapshot";
        return Err(Corruption::new(what, 0).at(&name, 0).into());
    }
    let mut proof = Proof { summary, found: Totals::default(), last: None };
    loop {
        let offset = window.offset;
        let placed = |damage: Corruption| Error::from(damage.at(&name, offset));
        let header = BlockHeader::decode(window.peek(UNIT_BYTES)?).map_err(placed)?;
        if header.block_bytes() as u64 > len - offset {
            let what = "a block goes beyond the end of the file";
            return Err(placed(Corruption::new(what, 8)));
        }
        let bytes = window.take(header.block_bytes())?;
        let block = header.open(bytes, summary.identity, offset).map_err(placed)?;
        let ended = proof.check(block, take).map_err(placed)?;
        if ended {
            return if window.offset == len {
                Ok(())
            } else {
                Err(placed(Corruption::new("something follows the last block", 0)))
            };
        }
    }
}

/// What the blocks so far add up to.
struct Proof<'a> {
    summary: &'a Summary,
    found: Totals,
    last: Option<Vec<u8>>,
}

impl Proof<'_> {
    /// Takes in a block; `true` if it is the last one.
    fn check(
        &mut self,
        block: Block<'_>,
        take: &mut dyn FnMut(&[u8], &[u8]),
    ) -> std::result::Result<bool, Corruption> {
        let (pairs, payload) = match block {
            Block::Pairs(pairs, payload) => (pairs, payload),
            Block::Totals(stated) if stated == self.found && stated == self.summary.totals => {
                return Ok(true);
            }
            Block::Totals(_) => {
                return Err(Corruption::new("the totals do not match what was read", 0));
            }
        };
        let mut payload = Reader::new(payload);
        let mut last = self.last.take();
        for _ in 0..pairs {
            let (key, value) = format::take_pair(&mut payload).map_err(in_payload)?;
            match &mut last {
                Some(last) if key <= last.as_slice() => {
                    return Err(in_payload(payload.corruption("the keys are out of order")));
                }
                Some(last) => {
                    last.clear();
                    last.extend_from_slice(key);
                }
                None => last = Some(key.to_vec()),
            }
            self.found.pairs += 1;
            self.found.pair_bytes += (key.len() + value.len()) as u64;
            take(key, value);
        }
        payload.finish().map_err(in_payload)?;
        self.last = last;
        self.found.blocks += 1;
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
    /// Where the next byte to be taken lies in the file.
    offset: u64,
    buffer: Buffer,
    /// The part of the buffer that is filled and not yet taken.
    filled: std::ops::Range<usize>,
}

impl Window {
    fn new(file: Arc<dyn File>, len: u64) -> Self {
        Self { file, len, offset: 0, buffer: Buffer::zeroed(READ_BYTES), filled: 0..0 }
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

    /// Reads on until at least `bytes` bytes are there. What is there moves to the front; all
    /// lengths are multiples of a unit, so that the read stays aligned.
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
