//! Crash and reopen: a store on a simulated disk whose power is cut at any moment, many times.
//!
//! 1. A *life* writes at mixed durabilities, flushes, and keeps the disk's history.
//! 2. At random operations of that history, disks are drawn as the machine may find them. Each is
//!    opened; during that the power may be cut again, several times in a row.
//! 3. The recovered state must be exactly the state after some write `p`, with `p` at least the
//!    last write that had been acknowledged at `Synced` before the cut, and the offline check
//!    clean.
//! 4. The next life begins on one of these disks: it continues to write, and writes that were lost
//!    once must not be back.
//!
//! A run of several lives is a *voyage*; everything in it follows from one seed. A *crowd* is one
//! life with many threads, whose schedule no seed decides: it is there for group commit and for
//! flushes in the middle of writes.

mod crowd;
mod life;
mod recover;

use device::{Device, Faults, SimulatedDisk};

use crate::Fixture;
use crate::draw::Draw;
use crate::model::Model;
use crate::trace::Trace;

pub(crate) use crowd::crowd;
use life::Life;
use recover::{Expected, recover};

/// Lives of one voyage.
const LIVES: usize = 3;

/// Images drawn from one life, in addition to the one on which the next life begins.
const IMAGES: usize = 12;

/// Counts of a voyage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Power cuts, also those during recovery.
    pub crashes: u64,
    /// Writes that were issued.
    pub writes: u64,
    /// Time that passed on the simulated clock, in milliseconds.
    pub simulated_ms: u64,
    /// The same for every voyage of the same seed.
    pub trace: Trace,
}

impl Tally {
    /// Adds the counts of another voyage.
    pub fn add(&mut self, other: &Self) {
        self.crashes += other.crashes;
        self.writes += other.writes;
        self.simulated_ms += other.simulated_ms;
        self.trace.note(&other.trace.hash().to_le_bytes());
    }
}

/// One voyage, from `seed`.
///
/// # Errors
/// The lost, gained, mixed or damaged data, and how it happened.
pub fn voyage(fixture: &dyn Fixture, seed: u64) -> Result<Tally, String> {
    let mut draw = Draw::new(seed, "voyage");
    let mut tally = Tally::default();
    let mut model = Model::default();
    let mut durable = 0;
    let mut disk = SimulatedDisk::new(seed, Faults::none());
    for number in 1..=LIVES {
        let story = |what: String| format!("life {number}: {what}");
        let life =
            Life::live(fixture, &disk, &mut model, durable, seed + number as u64).map_err(story)?;
        tally.writes += life.writes;
        tally.simulated_ms += life.simulated_ms;
        tally.trace.note(&disk.trace().to_le_bytes());
        let history = disk.history();
        let mut cuts: Vec<u64> = (0..=IMAGES)
            .map(|_| draw.below(history.last_operation() as usize + 1) as u64)
            .collect();
        let next_life = draw.below(cuts.len());
        cuts.sort_unstable();
        let mut replay = history.replay();
        let mut next = None;
        for (index, cut) in cuts.into_iter().enumerate() {
            replay.advance_to(cut);
            let image_seed = draw.below(usize::MAX) as u64;
            let expected = Expected { model: &model, durable: life.durable_at(cut) };
            let recovered = recover(fixture, &replay.crash(image_seed), &expected, &mut draw)
                .map_err(|what| {
                    let durable = expected.durable;
                    let last = model.last();
                    story(format!(
                        "power cut at operation {cut} (image {image_seed}), write {durable} \
                         durable, {last} issued: {what}\n    {}",
                        life.story_around(durable).join("\n    ")
                    ))
                })?;
            tally.crashes += recovered.crashes;
            tally.trace.note(&recovered.upto.to_le_bytes());
            tally.trace.note(&recovered.disk.trace().to_le_bytes());
            if index == next_life {
                next = Some(recovered);
            }
        }
        let Some(next) = next else { break };
        model.truncate(next.upto);
        model.collect(next.upto);
        durable = next.upto;
        disk = next.disk;
    }
    let device: std::sync::Arc<dyn Device> = disk;
    crate::database::check(fixture, &device)?;
    Ok(tally)
}
