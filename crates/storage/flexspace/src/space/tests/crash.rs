//! The power is cut at every operation of a run.
//! The state that is then opened is one that was synced, or a later one, whole.
//!
//! 1. Run operations on a simulated disk. Note after each the position of the disk, and the states
//!    that a crash may then leave (`Course`).
//! 2. For each operation of the disk, open the space on images that a crash may leave.
//! 3. Crash again during some of these openings: the same state must be found.
//!
//! `THERMOCLINE_FLEX_SEEDS=1000 cargo test --release -p thermocline-flexspace crash` runs more.

use std::sync::Arc;

use device::{Device, Faults, SimulatedDisk};
use environment::{Random, Seed};
use rand::RngExt;

use super::model::Model;
use super::operation::Operation;
use super::{content, small};
use crate::seed::{number, seed};
use crate::space::{Error, FlexSpace, Options};

/// Runs, unless the environment says otherwise.
const SEEDS: u64 = 20;
/// Runs that are the same each time.
const FIXED_SEEDS: u64 = 10;
/// Steps of one run.
const STEPS: u64 = 60;
/// Images for each operation of the disk.
const IMAGES: u64 = 2;
/// About how long the spaces of runs get: of the longer ones collections empty segments, and nodes
/// are split.
const LENS: [u64; 3] = [6_000, 6_000, 60_000];

/// How far the disk was after a step, and which states a crash may leave from then on.
#[derive(Clone, Copy, Debug)]
struct Moment {
    operation: u64,
    synced: usize,
    last: usize,
}

/// One run.
struct Course {
    states: Vec<Model>,
    moments: Vec<Moment>,
    met: Met,
}

/// Events of the runs that were not requested.
#[derive(Clone, Copy, Debug, Default)]
struct Met {
    crashes: u64,
    /// Segments that collections emptied, and runs in which any did.
    emptied: u64,
    emptying: u64,
    /// Runs in which the tree had more than one leaf.
    split: u64,
    checkpoints: u64,
}

impl Met {
    fn add(&mut self, run: Self) {
        self.crashes += run.crashes;
        self.emptied += run.emptied;
        self.emptying += run.emptied.min(1);
        self.split += run.split.min(1);
        self.checkpoints += run.checkpoints;
    }
}

impl Course {
    /// Returns the states that a crash right after that operation of the disk may leave.
    fn allowed(&self, operation: u64) -> &[Model] {
        let index = self.moments.partition_point(|moment| moment.operation < operation);
        let last = self.moments.get(index).or(self.moments.last()).expect("there are moments").last;
        // Changes that a step acknowledged hold from its end on.
        let ended = self.moments.partition_point(|moment| moment.operation <= operation);
        let synced = ended.checked_sub(1).map_or(0, |before| self.moments[before].synced);
        &self.states[synced..=last.max(synced)]
    }
}

fn drawn_options(random: &mut Random) -> Options {
    let pick = |random: &mut Random, sizes: &[u64]| sizes[random.random_range(0..sizes.len())];
    Options {
        log_buffer_bytes: pick(random, &[1, 200, 1 << 20]) as usize,
        log_bytes_max: pick(random, &[1500, 5000, 1 << 20]),
        ..small()
    }
}

fn run(disk: &Arc<SimulatedDisk>, options: &Options, random: &mut Random) -> Course {
    let device: Arc<dyn Device> = disk.clone();
    let mut space = FlexSpace::create(device.clone(), options.clone()).expect("an honest disk");
    let met = Met::default();
    let mut course = Course { states: vec![Model::default()], moments: Vec::new(), met };
    let len_max = LENS[random.random_range(0..LENS.len())];
    let is_long = len_max == LENS[2];
    let (mut model, mut synced) = (Model::default(), 0);
    course.moments.push(Moment { operation: disk.operations(), synced, last: 0 });
    if is_long {
        let appended = Operation::Append((0..40_000_u32).map(|at| (at / 90) as u8).collect());
        let taken_out = (0..150).map(|number| Operation::Collapse(80 * number, 120));
        for operation in std::iter::once(appended).chain(taken_out) {
            operation.apply(&space).expect("room");
            operation.model(&mut model);
            course.states.push(model.clone());
        }
        let last = course.states.len() - 1;
        course.moments.push(Moment { operation: disk.operations(), synced, last });
    }
    for step in 0..STEPS {
        if is_long && step % 20 == 9 {
            course.met.emptied += space.collect().expect("an honest disk").segments;
            // An opening that has changed nothing syncs nothing.
            if space.has_begun() {
                synced = course.states.len() - 1;
            }
        } else if random.random_range(0..20) == 0 {
            // Killed, or closed: the content of the page cache is found again.
            if random.random_range(0..2) == 0 {
                let has_begun = space.has_begun();
                space.close().expect("an honest disk");
                if has_begun {
                    synced = course.states.len() - 1;
                }
            }
            drop(space);
            let why = "a kill leaves a state since the last sync";
            (space, model, synced) =
                reopen((device.clone(), options), &mut course, synced, step % 2 == 0, why);
        } else if random.random_range(0..15) == 0 {
            // Writes and syncs fail, and the process is ended by it. The bytes that a failed sync
            // leaves in the page cache are found again, and lost in the next crash.
            let operation = Operation::drawn(&model, len_max, random);
            disk.set_faults(Faults {
                sync_error_ppm: 300_000,
                write_error_ppm: 50_000,
                ..Faults::none()
            });
            let result = operation.apply(&space).and_then(|()| space.sync());
            disk.set_faults(Faults::none());
            operation.model(&mut model);
            course.states.push(model.clone());
            match result {
                Ok(()) => synced = course.states.len() - 1,
                Err(_) => {
                    drop(space);
                    let why = "a failed sync loses nothing that was synced before";
                    (space, model, synced) =
                        reopen((device.clone(), options), &mut course, synced, step % 2 == 0, why);
                }
            }
        } else {
            let operation = Operation::drawn(&model, len_max, random);
            if operation == Operation::Collect {
                course.met.emptied += space.collect().expect("an honest disk").segments;
            }
            operation.apply(&space).unwrap_or_else(|error| panic!("{operation:?}: {error}"));
            operation.model(&mut model);
            if *course.states.last().expect("one") != model {
                course.states.push(model.clone());
            }
            if operation.is_durable() && space.has_begun() {
                synced = course.states.len() - 1;
            }
        }
        let last = course.states.len() - 1;
        course.moments.push(Moment { operation: disk.operations(), synced, last });
        let stats = space.stats();
        course.met.split += u64::from(stats.used_slots > 2);
        course.met.checkpoints += stats.checkpoints.min(1);
    }
    course
}

/// Opens a space again. Returns it, its content, and the first state that a power cut may leave:
/// the state that an opening without a change has found may be in the page cache alone.
fn reopen(
    (device, options): (Arc<dyn Device>, &Options),
    course: &mut Course,
    synced: usize,
    is_unchanged: bool,
    why: &str,
) -> (FlexSpace, Model, usize) {
    let space = open_one_way(device, options, is_unchanged);
    let model = content(&space).expect("whole");
    assert!(course.states[synced..].contains(&model), "{why}");
    course.states.push(model.clone());
    let synced = if is_unchanged { synced } else { course.states.len() - 1 };
    (space, model, synced)
}

/// Opens a space, and begins its life or changes nothing.
fn open_one_way(device: Arc<dyn Device>, options: &Options, is_unchanged: bool) -> FlexSpace {
    let opened = match is_unchanged {
        true => FlexSpace::open_unchanged(device, options.clone()),
        false => FlexSpace::open(device, options.clone()),
    };
    opened.expect("an honest disk")
}

/// Opens the space on an image, and says which of the allowed states it is, if any.
fn judge(
    image: &Arc<SimulatedDisk>,
    options: &Options,
    allowed: &[Model],
) -> Result<Option<Model>, String> {
    let space = match FlexSpace::open(image.clone(), options.clone()) {
        // Its creation was not acknowledged.
        Err(Error::Device(device::Error::NotFound { .. })) => return Ok(None),
        opened => opened.map_err(|error| format!("opening: {error}"))?,
    };
    let found = content(&space).map_err(|error| format!("reading: {error}"))?;
    if !allowed.contains(&found) {
        return Err(format!(
            "{} bytes that are none of {} allowed states",
            found.len(),
            allowed.len()
        ));
    }
    space.check().map_err(|error| format!("checking: {error}"))?;
    Ok(Some(found))
}

/// Checks that the result of an opening continues as a space.
fn go_on(image: Arc<SimulatedDisk>, options: &Options, mut model: Model, random: &mut Random) {
    let space = FlexSpace::open(image.clone(), options.clone()).expect("it was opened before");
    for _ in 0..10 {
        let operation = Operation::drawn(&model, 6_000, random);
        operation.apply(&space).unwrap_or_else(|error| panic!("{operation:?}: {error}"));
        operation.model(&mut model);
    }
    space.sync().expect("an honest disk");
    drop(space);
    let found = image.crash(random.random_range(0..u64::MAX));
    let space = FlexSpace::open(found, options.clone()).expect("a synced space");
    assert!(content(&space) == Ok(model), "what was synced after a crash is lost in the next");
}

fn crash_at_every_operation(seed: Seed) -> Met {
    let mut random = seed.stream("flexspace crash");
    let options = drawn_options(&mut random);
    let alignment = [1, 1, 512, 4096][random.random_range(0..4)];
    let disk = SimulatedDisk::with_alignment(seed.get(), Faults::none(), alignment);
    disk.keep_history();
    let course = run(&disk, &options, &mut random);
    let created = course.moments[0].operation;
    let history = disk.history();
    let mut replay = history.replay();
    let mut met = course.met;
    for operation in 0..=history.last_operation() {
        replay.advance_to(operation);
        let allowed = course.allowed(operation);
        for image in 0..IMAGES {
            let image_seed = random.random_range(0..u64::MAX);
            let fail = |what: String| -> ! {
                let seed = seed.get();
                panic!("seed {seed}, operation {operation}, image {image} ({image_seed}): {what}")
            };
            let found = replay.crash(image_seed);
            found.keep_history();
            let model = judge(&found, &options, allowed).unwrap_or_else(|what| fail(what));
            met.crashes += 1;
            let Some(model) = model else {
                assert!(operation < created, "an acknowledged creation is lost");
                continue;
            };
            if random.random_range(0..8) == 0 {
                let history = found.history();
                let mut again = history.replay();
                again.advance_to(random.random_range(0..=history.last_operation()));
                let twice = again.crash(random.random_range(0..u64::MAX));
                let only = std::slice::from_ref(&model);
                let same = judge(&twice, &options, only);
                let same = same.unwrap_or_else(|what| fail(format!("crashed again: {what}")));
                assert!(same.is_some(), "a crash while opening loses the space");
                go_on(twice, &options, model, &mut random);
                met.crashes += 2;
            }
        }
    }
    met
}

#[test]
fn a_crash_at_any_operation_leaves_a_synced_state_or_a_later_one() {
    let count = number("THERMOCLINE_FLEX_SEEDS").unwrap_or(SEEDS);
    let name = "a_crash_at_any_operation_leaves_a_synced_state_or_a_later_one";
    let seed = seed(name, &format!(" THERMOCLINE_FLEX_SEEDS={count}"));
    let mut met = Met::default();
    (0..count).for_each(|index| met.add(crash_at_every_operation(seed.child(index))));
    println!("{met:?}");
    println!("{} power cuts of {count} runs of a space", met.crashes);
    assert!(met.crashes > count * 100, "only {} crashes", met.crashes);
    let all = [met.emptying, met.split, met.checkpoints];
    assert!(count < SEEDS || all.iter().all(|runs| *runs > 0), "not all was met: {met:?}");
}

/// The same runs each time, so that a fault in the order of writes and syncs is always found.
#[test]
fn a_crash_of_a_fixed_seed_leaves_a_synced_state_or_a_later_one() {
    (0..FIXED_SEEDS).for_each(|seed| _ = crash_at_every_operation(Seed::from(seed)));
}

/// A sync fails, and the next one of that file does nothing but says that it succeeded: an opening
/// that took it at its word would name nodes that are not durable.
#[test]
fn an_opening_after_failed_syncs_takes_no_sync_at_its_word() {
    let mut failed = 0;
    for seed in 0..250 {
        let disk = SimulatedDisk::new(seed, Faults::none());
        let space = FlexSpace::create(disk.clone(), small()).expect("an honest disk");
        let mut model = Model::default();
        let insert = |space: &FlexSpace, model: &mut Model, count: u64| {
            for number in 0..count {
                let offset = number * 31 % (model.len() + 1);
                space.insert(offset, &[number as u8; 5]).expect("room");
                model.splice(offset, 0, &[number as u8; 5], 0);
            }
            space.sync()
        };
        insert(&space, &mut model, 100).expect("an honest disk");
        disk.set_faults(Faults { sync_error_ppm: 400_000, ..Faults::none() });
        failed += u64::from(space.checkpoint().is_err());
        disk.set_faults(Faults::none());
        drop(space);
        let space = open_one_way(disk.clone(), &small(), seed % 2 == 0);
        insert(&space, &mut model, 20).expect("an honest disk");
        for image in 0..3 {
            let found = judge(&disk.crash(image), &small(), std::slice::from_ref(&model));
            assert_eq!(found.map(|found| found.is_some()), Ok(true), "seed {seed}, image {image}");
        }
    }
    assert!(failed > 100, "{failed} checkpoints failed");
}

/// An earlier version of this space did the following. Synced bytes are overwritten, their segments
/// are filled again, and none of that is synced when the process is killed.
#[test]
fn synced_blocks_outlive_overwriting_without_a_sync() {
    let disk = SimulatedDisk::new(1, Faults::none());
    let space = FlexSpace::create(disk.clone(), small()).expect("an honest disk");
    let blocks: Vec<u8> = (0..400_000_u32).map(|number| (number / 500) as u8).collect();
    space.append(&blocks).expect("room");
    space.sync().expect("an honest disk");
    let mut refused = 0;
    for round in 0..15 {
        for offset in (0..400_000).step_by(500) {
            match space.pwrite(offset, &[round; 500]) {
                Err(Error::Uncollected) => refused += 1,
                other => other.expect("room"),
            }
        }
    }
    assert!(refused > 0, "the segments were all filled");
    for image in 0..20 {
        let found = FlexSpace::open(disk.crash(image), small()).expect("a synced space");
        assert_eq!(found.read(0, 400_000), Ok(blocks.clone()), "image {image}");
    }
}
