//! One life of a store: it opens, writes for a while, and notes when it acknowledged each write.

use std::sync::Arc;

use device::{Device, SimulatedDisk};
use journal::Durability;

use crate::Fixture;
use crate::database::Database;
use crate::draw::Draw;
use crate::model::Model;
use crate::operation::{Generator, Profile};

/// Writes of one life, at most.
const WRITES_MAX: usize = 60;
/// Keys of a long one, in addition to the few.
const KEYS_OF_LONG: usize = 500;

/// Time between writes, at most, in milliseconds.
const PAUSE_MS_MAX: usize = 40;

/// Lines of a story before and after the write that matters.
const STORY_LINES: usize = 6;

/// The acknowledgements of a life, by the disk's operations.
pub(super) struct Life {
    /// The operation count at which a write was known to be durable.
    durable_writes: Vec<(u64, u64)>,
    story: Vec<(u64, String)>,
    pub(super) writes: u64,
    pub(super) simulated_ms: u64,
}

impl Life {
    /// Opens the store on `disk` and uses it. `model` gets the writes; those up to `durable` are
    /// acknowledged already.
    pub(super) fn live(
        fixture: &dyn Fixture,
        disk: &Arc<SimulatedDisk>,
        model: &mut Model,
        durable: u64,
        seed: u64,
    ) -> Result<Self, String> {
        let mut draw = Draw::new(seed, "life");
        let mut life = Self {
            durable_writes: vec![(0, durable)],
            story: Vec::new(),
            writes: 0,
            simulated_ms: 0,
        };
        disk.keep_history();
        let device: Arc<dyn Device> = disk.clone();
        let database = Database::open(fixture, &device, seed).map_err(|e| e.to_string())?;
        let long = fixture.long_life_writes();
        let is_long = long > 0 && draw.once_in(4);
        let profile = Profile {
            keys_more: if is_long { KEYS_OF_LONG } else { 0 },
            ingests: false,
            ordered: false,
            deletes_ranges: database.opened.engine.capabilities().deletes_ranges,
            key_bytes_max: fixture.key_bytes_max(),
            value_bytes_max: 700,
            reopens: false,
        };
        let mut generator = Generator::new(seed, profile);
        let writes = if is_long { long } else { 5 + draw.below(WRITES_MAX) };
        for _ in 0..writes {
            let pause = draw.below(PAUSE_MS_MAX) as u64;
            life.simulated_ms += pause;
            database.opened.advance(pause);
            if draw.once_in(12) {
                database.flush().map_err(|error| format!("a flush failed: {error}"))?;
                life.story.push((model.last(), "flush".to_owned()));
                continue;
            }
            if draw.once_in(10) {
                database.trim().map_err(|error| format!("trimming failed: {error}"))?;
                life.story.push((model.last(), "trim the journal".to_owned()));
            }
            let durability = match draw.weighted(&[6, 2, 4]) {
                0 => Durability::Buffered,
                1 => Durability::Flushed,
                _ => Durability::Synced,
            };
            let seqno = database.opened.sequence.last().get() + 1;
            let mut steps = generator.write();
            // A store of few pages refuses a batch that is longer than its memory.
            while steps.len() > 1 && database.refuses(&steps) {
                steps.pop();
            }
            // Before it is issued: a write that was cut off may be there nevertheless.
            model.apply(&steps, seqno);
            let lines: Vec<String> = steps.iter().map(ToString::to_string).collect();
            life.story.push((seqno, format!("{seqno} {durability:?}: {}", lines.join(", "))));
            database.write(&steps, durability).map_err(|error| format!("write: {error}"))?;
            life.writes += 1;
            if durability == Durability::Synced {
                life.durable_writes.push((disk.operations(), seqno));
            }
        }
        Ok(life)
    }

    /// Returns the last write that was durable once the disk had done `operation`.
    pub(super) fn durable_at(&self, operation: u64) -> u64 {
        let after = self.durable_writes.partition_point(|(at, _)| *at <= operation);
        self.durable_writes[..after].last().map_or(0, |(_, seqno)| *seqno)
    }

    /// Returns the lines of the story around write `seqno`.
    pub(super) fn story_around(&self, seqno: u64) -> Vec<String> {
        let at = self.story.partition_point(|(number, _)| *number < seqno);
        let from = at.saturating_sub(STORY_LINES);
        let lines = self.story.iter().skip(from).take(2 * STORY_LINES);
        lines.map(|(_, line)| line.chars().take(300).collect()).collect()
    }
}
