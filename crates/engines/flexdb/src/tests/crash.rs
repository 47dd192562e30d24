//! Power cuts while commits make room, are refused, and split intervals.
//!
//! The power is also cut while the collector empties segments, and while the tree of the space is
//! stored. The journal, replayed onto the remains, gives every write that was made.
//!
//! 1. Writes go to a store whose file may hold little more than the live data, on a simulated disk
//!    that keeps its history. After each write the test notes how far the disk was, and which
//!    events the store had met.
//! 2. Operations of the disk are chosen, above all those of writes in which the store met an event.
//!    For each of them, the store is opened on an image that a crash there may leave, and the
//!    writes above the persisted number are done again.
//! 3. Then it has all pairs of the model, is sound, and takes writes.
//!
//! `THERMOCLINE_CASES=100 cargo test --release -p thermocline-flexdb --lib crash` runs more.

use std::collections::BTreeMap;
use std::sync::Arc;

use conformance::Journaled;
use device::{Device, Faults, SimulatedDisk};
use engine::{BlockingWrites, Demand, Engine, Error, Op, Result, Wait};
use environment::{Random, Seed};
use rand::RngExt;

use super::stores::{Bench, key, small};
use crate::Options;

/// Writes of a run.
const WRITES: u64 = 9_000;
/// Writes from one checkpoint to the next. A log as short as here would ask for none.
const CHECKPOINT_EVERY: u64 = 600;
/// Images of one run.
const IMAGES: usize = 120;
const MEMORY_BYTES: u64 = 256 << 10;

/// Events that a store met in the course of some writes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Met {
    /// Commits that had the collector run in their middle, and segments that it emptied.
    room_made: u64,
    collected: u64,
    /// Writes that were refused as a commit was.
    refused: u64,
    /// Intervals that came.
    split: u64,
    /// Checkpoints of the space.
    checkpoints: u64,
}

impl Met {
    fn is_something(&self) -> bool {
        *self != Self::default()
    }

    fn count(&mut self, one: &Self) {
        self.room_made += one.room_made.min(1);
        self.collected += one.collected.min(1);
        self.refused += one.refused.min(1);
        self.split += one.split.min(1);
        self.checkpoints += one.checkpoints.min(1);
    }
}

/// A write, and the operations of the disk before and after it.
struct Step {
    key: Vec<u8>,
    value: Option<Vec<u8>>,
    begun: u64,
    ended: u64,
    met: Met,
}

fn options() -> Options {
    Options { capacity_bytes: 140 * (16 << 10), tail_pairs_max: 2, ..small() }
}

fn open(disk: &Arc<SimulatedDisk>) -> Result<Bench> {
    Bench::with(Arc::clone(disk) as Arc<dyn Device>, Arc::new(Journaled), MEMORY_BYTES, options())
}

fn write(bench: &Bench, step: &Step) -> u64 {
    let ticket = bench.sequence.begin();
    let op = match &step.value {
        Some(value) => Op::Put { key: &step.key, value },
        None => Op::Delete { key: &step.key },
    };
    bench.store.write(&[op], ticket.seqno()).expect("what was admitted is taken");
    ticket.seqno().get()
}

/// Returns the events that the store has met so far.
fn met(bench: &Bench, refused: u64) -> Met {
    let (room_made, collected) = (bench.detail("room_made"), bench.detail("collected_segments"));
    let (split, checkpoints) =
        (bench.intervals() as u64, bench.store.shared.space.stats().checkpoints);
    Met { room_made, collected, refused, split, checkpoints }
}

/// First a load that nearly fills the file, then overwriting, for a while with a view that holds
/// all room.
fn run(disk: &Arc<SimulatedDisk>, random: &mut Random) -> Vec<Step> {
    let bench = open(disk).expect("an honest disk");
    let (mut steps, mut view, mut refused) = (Vec::new(), None, 0);
    let mut before = met(&bench, 0);
    for number in 0..WRITES {
        let place =
            if number < 2_500 { number * 7919 % 2_500 } else { random.random_range(0..2_500) };
        let value = vec![number as u8; random.random_range(200..400)];
        let value = (number < 2_500 || random.random_range(0..20) > 0).then_some(value);
        let begun = disk.operations();
        let mut step = Step { key: key(place), value, begun, ended: 0, met: Met::default() };
        if number == 5_000 {
            view = Some(bench.view());
        }
        if let Err(error) = bench
            .store
            .reserve(&Demand::Ops(&[Op::Put { key: &step.key, value: &[0; 400] }]), Wait::Yes)
            .map(drop)
        {
            assert!(matches!(error, Error::SpaceUsedUp { .. }), "{error}");
            assert!(view.is_some() || number < 2_600, "refused at {number} though nothing is held");
            refused += 1;
            view = None;
        }
        assert_eq!(write(&bench, &step), number + 1);
        if number % 500 == 250 {
            bench.store.shared.collect(false).expect("an honest disk");
        }
        if number % CHECKPOINT_EVERY == CHECKPOINT_EVERY / 2 {
            bench.store.shared.space.checkpoint().expect("an honest disk");
        }
        step.ended = disk.operations();
        if step.ended > begun {
            let now = met(&bench, refused);
            step.met = Met {
                room_made: now.room_made - before.room_made,
                collected: now.collected - before.collected,
                refused: now.refused - before.refused,
                split: now.split.saturating_sub(before.split),
                checkpoints: now.checkpoints - before.checkpoints,
            };
            before = now;
        }
        steps.push(step);
    }
    steps
}

/// Opens the remains of a crash behind an operation of the disk, and repeats the writes of the
/// journal.
fn judge(
    image: &Arc<SimulatedDisk>,
    steps: &[Step],
    operation: u64,
) -> std::result::Result<(), String> {
    let made = steps.partition_point(|step| step.begun <= operation);
    let bench = open(image).map_err(|error| format!("opening: {error}"))?;
    let persisted = bench.store.persisted().get();
    if persisted > made as u64 {
        return Err(format!("{persisted} writes are persisted, of {made}"));
    }
    for step in &steps[persisted as usize..made] {
        write(&bench, step);
    }
    let mut model = BTreeMap::new();
    for step in &steps[..made] {
        match &step.value {
            Some(value) => _ = model.insert(step.key.clone(), value.clone()),
            None => _ = model.remove(&step.key),
        }
    }
    let (found, expected) = (bench.pairs(), model.into_iter().collect::<Vec<_>>());
    if found != expected {
        let wrong = found.iter().zip(&expected).filter(|(found, expected)| found != expected);
        let (counts, wrong) = ((found.len(), expected.len()), wrong.count());
        return Err(format!("{counts:?} pairs, {wrong} are others, of {made} writes"));
    }
    // There may be no room for all; but nothing else is wrong.
    match bench.store.flush() {
        Ok(()) | Err(Error::Device(device::Error::NoSpace { .. })) => {}
        Err(error) => return Err(format!("flushing: {error}")),
    }
    bench.check();
    if bench.pairs() != expected {
        return Err("other pairs after a flush".to_owned());
    }
    bench.store.close().map_err(|error| format!("closing: {error}"))?;
    let damage = crate::check(&bench.device).map_err(|error| error.to_string())?.damage;
    if damage.is_empty() { Ok(()) } else { Err(format!("{damage:?}")) }
}

/// A run and its crashes. Returns the events of the writes in whose middle they were, and their
/// number.
fn crashes_of_a_seed(seed: u64) -> (Met, usize) {
    let mut random = Seed::from(seed).stream("flexdb crash");
    let disk = SimulatedDisk::new(seed, Faults::none());
    disk.keep_history();
    let steps = run(&disk, &mut random);
    let history = disk.history();
    // The writes in which something was met, and as many others that wrote anything.
    let (met, others): (Vec<&Step>, Vec<&Step>) = {
        let wrote = steps.iter().filter(|step| step.ended > step.begun);
        wrote.partition(|step| step.met.room_made + step.met.collected + step.met.refused > 0)
    };
    let mut cuts: Vec<(u64, Met)> = Vec::new();
    // Few writes are refused, or have a checkpoint: each is cut in several places.
    let is_rare = |met: &Met| met.refused + met.checkpoints > 0;
    for step in steps.iter().filter(|step| is_rare(&step.met) && step.ended > step.begun) {
        for _ in 0..4 {
            cuts.push((random.random_range(step.begun..=step.ended), step.met));
        }
    }
    for _ in 0..IMAGES {
        let from = if random.random_bool(0.6) && !met.is_empty() { &met } else { &others };
        let step = from[random.random_range(0..from.len())];
        cuts.push((random.random_range(step.begun..=step.ended), step.met));
    }
    cuts.sort_by_key(|(operation, _)| *operation);
    let (mut replay, mut all, count) = (history.replay(), Met::default(), cuts.len());
    for (operation, met) in cuts {
        replay.advance_to(operation);
        let image = random.random_range(0..u64::MAX);
        if let Err(what) = judge(&replay.crash(image), &steps, operation) {
            panic!(
                "seed {seed}, power cut after operation {operation} (image {image}), {met:?}: {what}\n\
                 replay: THERMOCLINE_SEED={seed} cargo test -p thermocline-flexdb --lib crash"
            );
        }
        all.count(&met);
    }
    (all, count)
}

#[test]
fn a_crash_while_room_is_made_or_refused_loses_nothing_that_the_journal_has() {
    let setting = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = setting("THERMOCLINE_SEED").unwrap_or(1);
    let (runs, mut cuts) = (setting("THERMOCLINE_CASES").unwrap_or(1), 0);
    for seed in first..first + runs {
        let (met, count) = crashes_of_a_seed(seed);
        cuts += count;
        println!("seed {seed}: {count} crashes, in the middle of writes that came by {met:?}");
        let all = [met.room_made, met.collected, met.refused, met.split, met.checkpoints];
        assert!(all.iter().all(|count| *count > 0), "seed {seed}: not all was met: {met:?}");
        assert!(met.is_something());
    }
    println!("{cuts} power cuts of {runs} runs with little room");
}
