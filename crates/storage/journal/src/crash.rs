//! The crash harness: runs the journal on a simulated disk, and cuts the power at every operation.
//! It compares the found records with the promises.
//!
//! One seed is one run:
//! 1. Draw a device and a layout: alignment, sizes of segments, buffers and records.
//! 2. Drive a journal through appends, waits, trims, closes and kills, keeping the disk's history
//!    (`workload.rs`).
//! 3. For every operation of that history, and several images of each, open the journal on the
//!    image and compare (`oracle.rs`). The journal must have exactly a prefix of the appended
//!    records, byte for byte, at least up to the last record that was acknowledged as synced. On
//!    another copy of the image the newest segment is removed first: then the journal is refused,
//!    or nothing acknowledged was in it.
//! 4. Continue with one of these images as the disk of the next round. Rounds whose workload is
//!    empty only open the journal; so power cuts during recovery, also several in a row, are among
//!    them.
//!
//! Everything follows from the seed, so a failure is replayed by naming it.

mod oracle;
mod workload;

use std::fmt;

use device::{Faults, SimulatedDisk};
use environment::{Environment, Random, Seed};
use rand::Rng;

use crate::Options;
use oracle::{Known, Verdict};

/// Rounds of one seed: each begins with an image after a power cut in the one before.
const ROUNDS: u64 = 5;
/// Images of the disk for each operation at which the power is cut.
const IMAGES: u64 = 3;

/// How much likelier an image with a torn tail is to become the next round's disk.
const TORN_WEIGHT: u64 = 20;

/// Faults other than power cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing.
    Honest,
    /// Writes and syncs fail, and say so; the disk is full.
    Loud,
    /// Writes are lost or go astray, and sectors rot, without an error. A prefix may then be too
    /// short, or the journal may be refused; but every record that it returns is right.
    Silent,
    /// The disk falsely reports its flush as done. No journal survives that: the oracle must
    /// notice.
    Lying,
}

/// Counts of one run, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Seeds run.
    pub seeds: u64,
    /// Images on which the journal was opened.
    pub crashes: u64,
    /// Images with a torn tail.
    pub torn: u64,
    /// Images that were refused as damaged; only in [`Mode::Silent`].
    pub refused: u64,
    /// Images with a shorter prefix than was acknowledged; only in [`Mode::Silent`].
    pub shortened: u64,
    /// Lives that ended by a failed write or sync.
    pub stopped: u64,
}

impl Tally {
    /// Adds another's counts.
    pub fn add(&mut self, other: &Self) {
        self.seeds += other.seeds;
        self.crashes += other.crashes;
        self.torn += other.torn;
        self.refused += other.refused;
        self.shortened += other.shortened;
        self.stopped += other.stopped;
    }
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The run's seed.
    pub seed: u64,
    /// The faults other than power cuts.
    pub mode: Mode,
    /// The round, from 0.
    pub round: u64,
    /// The operation of that round at which the power was cut, and which image; `None` if the
    /// promise was broken without a power cut.
    pub cut: Option<(u64, u64)>,
    /// The promise and the finding.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}, round {}", self.seed, self.round)?;
        if let Some((operation, image)) = self.cut {
            write!(f, ", power cut at operation {operation}, image {image}")?;
        }
        write!(
            f,
            ": {}\nreplay: cargo run --release -p thermocline-journal --features crash --example \
             crash -- --mode {} --only {}",
            self.what,
            format!("{:?}", self.mode).to_lowercase(),
            self.seed
        )
    }
}

/// The common part of one run's rounds.
struct Run {
    seed: u64,
    mode: Mode,
    environment: Environment,
    random: Random,
    options: Options,
    alignment: usize,
    /// Sizes of payloads, to be chosen among.
    sizes: &'static [usize],
}

/// Runs one seed.
///
/// # Errors
/// The promise that was broken first.
pub fn run(seed: u64, mode: Mode) -> Result<Tally, Box<Failure>> {
    Run::new(seed, mode).rounds()
}

impl Run {
    fn new(seed: u64, mode: Mode) -> Self {
        let mut random = Seed::from(seed).stream("journal crash harness");
        let mut pick =
            |choices: &[u64]| choices[(random.next_u64() % choices.len() as u64) as usize];
        let options = Options {
            segment_bytes: pick(&[1 << 10, 2 << 10, 8 << 10, 1 << 20]),
            buffer_bytes: pick(&[1, 300, 1000, 1 << 20]) as usize,
            ..Options::default()
        };
        let alignment = pick(&[1, 1, 512, 4096]) as usize;
        // With records of one size, the rest of an old tail fits behind a new one.
        let sizes: [&[usize]; 3] = [&[60], &[492], &[0, 20, 60, 60, 60, 600]];
        let sizes = sizes[pick(&[0, 1, 2]) as usize];
        // The same randomness in every life, so that salts repeat where indices do.
        let (environment, _) = Environment::simulated(seed);
        Self { seed, mode, environment, random, options, alignment, sizes }
    }

    fn rounds(mut self) -> Result<Tally, Box<Failure>> {
        let mut tally = Tally { seeds: 1, ..Tally::default() };
        let mut disk = SimulatedDisk::with_alignment(self.seed, Faults::none(), self.alignment);
        let mut known = Known::default();
        for round in 0..ROUNDS {
            disk.set_faults(self.faults(round));
            disk.keep_history();
            let steps = if self.below(3) == 0 { 0 } else { 5 + self.below(60) };
            let course = workload::drive(&mut self, &disk, known.clone(), steps);
            let course = course.map_err(|what| self.failure(round, None, what))?;
            tally.stopped += course.stopped;
            let history = disk.history();
            let mut replay = history.replay();
            let last = history.last_operation();
            let (mut next, mut weights) = (None, 0);
            for operation in 0..=last {
                replay.advance_to(operation);
                let moment = course.at(operation);
                for image in 0..IMAGES {
                    let image_seed = self.image_seed(round, operation, image);
                    let found = replay.crash(image_seed);
                    found.set_faults(Faults::none());
                    let cut = Some((operation, image));
                    let verdict = oracle::judge(&self, found, &moment)
                        .map_err(|what| self.failure(round, cut, what))?;
                    tally.note(&verdict);
                    if image == 0 && self.mode == Mode::Honest {
                        let without = replay.crash(image_seed);
                        without.set_faults(Faults::none());
                        oracle::judge_without_newest(&self, without, &moment)
                            .map_err(|what| self.failure(round, cut, what))?;
                    }
                    // Torn tails are where the next life is most in danger.
                    let weight = if verdict.is_torn() { TORN_WEIGHT } else { 1 };
                    weights += weight;
                    if self.below(weights) < weight {
                        let survivor = replay.crash(image_seed);
                        next = verdict.survived(&moment).map(|known| (survivor, known));
                    }
                }
            }
            let Some(survivor) = next else { break };
            (disk, known) = survivor;
        }
        Ok(tally)
    }

    fn faults(&self, round: u64) -> Faults {
        let seed = self.seed.wrapping_add(round << 32);
        match self.mode {
            Mode::Honest => Faults::none(),
            Mode::Loud => Faults { read_error_ppm: 0, ..Faults::loud(seed) },
            Mode::Silent => {
                Faults { misdirected_write_ppm: 30_000, lost_write_ppm: 10_000, ..Faults::none() }
            }
            Mode::Lying => Faults { lying_flush: true, ..Faults::none() },
        }
    }

    fn image_seed(&self, round: u64, operation: u64, image: u64) -> u64 {
        Seed::from(self.seed).child(round << 48 | operation << 8 | image).get()
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random.next_u64() % end
    }

    fn failure(&self, round: u64, cut: Option<(u64, u64)>, what: String) -> Box<Failure> {
        Box::new(Failure { seed: self.seed, mode: self.mode, round, cut, what })
    }
}

impl Tally {
    fn note(&mut self, verdict: &Verdict) {
        self.crashes += 1;
        match verdict {
            Verdict::Refused => self.refused += 1,
            Verdict::Opened { torn, shortened, .. } => {
                self.torn += u64::from(*torn);
                self.shortened += u64::from(*shortened);
            }
        }
    }
}

#[cfg(test)]
mod tests;
