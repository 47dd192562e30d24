//! Reads a snapshot into leaves, with the help of the pool.
//!
//! 1. The caller's thread finds the blocks and makes a task of each.
//! 2. A task proves its block and builds a piece: the leaves of that block alone.
//! 3. The caller takes the pieces back in the order of the file, proves that each follows the one
//!    before, and joins them. So the damage that is reported is the first in the file, and the
//!    leaves do not depend on how many threads there were.
//!
//! Only a few blocks are given away at a time: that bounds the memory, however long the file is.

use std::collections::BTreeMap;
use std::sync::Arc;

use codec::{Corruption, SeqNo};
use device::Device;
use engine::{Error, Result};
use sync::locks::Mutex;
use workers::{Class, Group, StopToken, WaitError};

use super::format::{Identity, Summary};
use super::reader::{Blocks, Content, Proof, RawBlock, read};
use crate::map::LeafBuilder;

/// Blocks that are given away and not taken back, at most.
const BLOCKS_GIVEN_MAX: usize = 8;

/// Reads the snapshot that `summary` describes.
///
/// # Errors
/// [`engine::Error::Corruption`] with the file and the offset of the first damage in it.
pub(crate) fn load(
    device: &dyn Device,
    group: &Group,
    summary: &Summary,
    persisted: SeqNo,
) -> Result<LeafBuilder> {
    let mut builder = LeafBuilder::default();
    if summary.totals.blocks < 2 {
        read(device, summary, persisted, &mut |key, value| builder.push(key, value))?;
        return Ok(builder);
    }
    let mut crew = FanOut::new(group, summary.identity);
    let mut blocks = Blocks::open(device, summary, persisted)?;
    let mut joined = Joined { summary, proof: Proof::new(summary), builder };
    joined.take_all(&mut blocks, &mut crew)?;
    Ok(joined.builder)
}

/// The result of the pieces taken so far.
struct Joined<'a> {
    summary: &'a Summary,
    proof: Proof<'a>,
    builder: LeafBuilder,
}

impl Joined<'_> {
    fn take_all(&mut self, blocks: &mut Blocks<'_>, crew: &mut FanOut<'_>) -> Result<()> {
        loop {
            if crew.is_busy() {
                self.take_one(crew)?;
            }
            match blocks.next() {
                Ok(block) if !block.header.says_totals() => crew.give(&block)?,
                // The blocks that were given to tasks are before this one, so their damage is
                // reported first.
                last => {
                    let last = last.map(|block| {
                        (block.offset, block.decode(self.summary.identity, &mut |_, _| {}))
                    });
                    while crew.taken < crew.given {
                        self.take_one(crew)?;
                    }
                    let (offset, content) = last?;
                    let ended = content.and_then(|content| self.proof.check(content));
                    ended.map_err(|damage| self.summary.damaged(damage, offset))?;
                    return blocks.end();
                }
            }
        }
    }

    fn take_one(&mut self, crew: &mut FanOut<'_>) -> Result<()> {
        let Piece { offset, content, builder } = crew.take()?;
        let checked = content.and_then(|content| self.proof.check(content));
        checked.map_err(|damage| self.summary.damaged(damage, offset))?;
        self.builder.join(builder);
        Ok(())
    }
}

/// The result for a block that was given to a task.
struct Piece {
    offset: u64,
    content: std::result::Result<Content, Corruption>,
    builder: LeafBuilder,
}

/// The blocks that were given away.
struct FanOut<'a> {
    group: &'a Group,
    identity: Identity,
    given: usize,
    taken: usize,
    /// Pieces that were not taken yet, by the number of their block.
    pieces: Arc<Mutex<BTreeMap<usize, Piece>>>,
}

impl<'a> FanOut<'a> {
    fn new(group: &'a Group, identity: Identity) -> Self {
        Self { group, identity, given: 0, taken: 0, pieces: Arc::default() }
    }

    fn is_busy(&self) -> bool {
        self.given - self.taken >= BLOCKS_GIVEN_MAX
    }

    fn give(&mut self, block: &RawBlock<'_>) -> Result<()> {
        let RawBlock { header, offset, bytes } = *block;
        let (bytes, identity, number) = (bytes.to_vec(), self.identity, self.given);
        let pieces = Arc::clone(&self.pieces);
        let task = move |_: &StopToken| {
            let mut builder = LeafBuilder::for_piece();
            let block = RawBlock { header, offset, bytes: &bytes };
            let content = block.decode(identity, &mut |key, value| builder.push(key, value));
            pieces.lock().insert(number, Piece { offset, content, builder });
        };
        self.group.submit(Class::Flush, "load snapshot", task).map_err(|_| Error::Closed)?;
        self.given += 1;
        Ok(())
    }

    /// The piece of the oldest block that was given.
    fn take(&mut self) -> Result<Piece> {
        let number = self.taken;
        let mut piece = None;
        let awaited = self.group.wait_until(|| {
            piece = self.pieces.lock().remove(&number);
            piece.is_some()
        });
        self.taken += 1;
        // A panic of a task is a defect of this code, not of the file; it is raised with its text.
        awaited.map_err(|error| match error {
            WaitError::Panicked(panic) => panic!("{panic}"),
            WaitError::Stopped(_) => Error::Closed,
        })?;
        piece.ok_or(Error::Closed)
    }
}
