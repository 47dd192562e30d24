//! Reads a snapshot into leaves, on all cores.
//!
//! 1. The caller's thread finds the blocks and gives them to workers, in turns.
//! 2. A worker proves its block and builds a piece: the leaves of that block alone.
//! 3. The caller takes the pieces back in the order of the file, proves that each follows the one
//!    before, and joins them. So the damage that is reported is the first in the file, and the
//!    leaves do not depend on how many workers there were.
//!
//! Each worker has a few blocks at a time: that bounds the memory, however long the file is.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use codec::{Corruption, SeqNo};
use device::Device;
use engine::Result;
use environment::{Environment, JoinHandle};

use super::format::{BlockHeader, Identity, Summary};
use super::reader::{Blocks, Content, Proof, RawBlock, read};
use crate::map::LeafBuilder;

/// Blocks that a worker has been given and not given back, at most.
const BLOCKS_PER_WORKER: usize = 2;

/// Reads the snapshot that `summary` describes.
///
/// # Errors
/// [`engine::Error::Corruption`] with the file and the offset of the first damage in it.
pub(crate) fn load(
    device: &dyn Device,
    environment: &Environment,
    summary: &Summary,
    persisted: SeqNo,
) -> Result<LeafBuilder> {
    let mut builder = LeafBuilder::default();
    let mut crew = Crew::hire(environment, summary);
    if crew.workers.is_empty() {
        read(device, summary, persisted, &mut |key, value| builder.push(key, value))?;
        return Ok(builder);
    }
    let mut blocks = Blocks::open(device, summary, persisted)?;
    let mut joined = Joined { summary, proof: Proof::new(summary), builder };
    let result = joined.take_all(&mut blocks, &mut crew);
    crew.dismiss();
    result.map(|()| joined.builder)
}

/// What the pieces taken so far make.
struct Joined<'a> {
    summary: &'a Summary,
    proof: Proof<'a>,
    builder: LeafBuilder,
}

impl Joined<'_> {
    fn take_all(&mut self, blocks: &mut Blocks<'_>, crew: &mut Crew) -> Result<()> {
        loop {
            if crew.is_busy() {
                self.take_one(crew)?;
            }
            match blocks.next() {
                Ok(block) if !block.header.says_totals() => crew.give(&block),
                // What was given lies before this, so its damage goes first.
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

    fn take_one(&mut self, crew: &mut Crew) -> Result<()> {
        let Piece { offset, content, builder } = crew.take();
        let checked = content.and_then(|content| self.proof.check(content));
        checked.map_err(|damage| self.summary.damaged(damage, offset))?;
        self.builder.join(builder);
        Ok(())
    }
}

/// A block that was given away.
struct Job {
    header: BlockHeader,
    offset: u64,
    bytes: Vec<u8>,
}

/// What became of it.
struct Piece {
    offset: u64,
    content: std::result::Result<Content, Corruption>,
    builder: LeafBuilder,
}

struct Worker {
    jobs: SyncSender<Job>,
    pieces: Receiver<Piece>,
    thread: JoinHandle<()>,
}

/// The workers. Block `n` is that of worker `n` modulo their number.
struct Crew {
    workers: Vec<Worker>,
    given: usize,
    taken: usize,
}

impl Crew {
    /// A worker for each core, if there is work for them and the system lets them be started.
    fn hire(environment: &Environment, summary: &Summary) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let useful = usize::try_from(summary.totals.blocks).unwrap_or(usize::MAX);
        let count = cores.min(useful / BLOCKS_PER_WORKER);
        let hired = (0..count).map_while(|_| Worker::hire(environment, summary.identity));
        let workers = if count > 1 { hired.collect() } else { Vec::new() };
        Self { workers, given: 0, taken: 0 }
    }

    fn is_busy(&self) -> bool {
        self.given - self.taken >= self.workers.len() * BLOCKS_PER_WORKER
    }

    fn give(&mut self, block: &RawBlock<'_>) {
        let RawBlock { header, offset, bytes } = *block;
        let job = Job { header, offset, bytes: bytes.to_vec() };
        let worker = &self.workers[self.given % self.workers.len()];
        worker.jobs.send(job).expect("a worker stays until it is dismissed");
        self.given += 1;
    }

    /// The piece of the oldest block that was given.
    fn take(&mut self) -> Piece {
        let worker = &self.workers[self.taken % self.workers.len()];
        self.taken += 1;
        worker.pieces.recv().expect("a worker answers every block")
    }

    fn dismiss(self) {
        for Worker { jobs, pieces, thread } in self.workers {
            drop((jobs, pieces));
            thread.join().expect("a worker does not panic");
        }
    }
}

impl Worker {
    fn hire(environment: &Environment, identity: Identity) -> Option<Self> {
        let (jobs, given) = sync_channel(BLOCKS_PER_WORKER);
        let (done, pieces) = sync_channel(BLOCKS_PER_WORKER);
        let work = move || build(&given, &done, identity);
        let thread = environment.spawn("memory load", work).ok()?;
        Some(Self { jobs, pieces, thread })
    }
}

/// Makes pieces of blocks until nobody gives or takes any more.
fn build(given: &Receiver<Job>, done: &SyncSender<Piece>, identity: Identity) {
    for Job { header, offset, bytes } in given {
        let mut builder = LeafBuilder::for_piece();
        let block = RawBlock { header, offset, bytes: &bytes };
        let content = block.decode(identity, &mut |key, value| builder.push(key, value));
        if done.send(Piece { offset, content, builder }).is_err() {
            return;
        }
    }
}
