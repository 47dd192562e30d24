//! Random operations against the model, with every invariant checked after each.
//!
//! `THERMOCLINE_FLEX_OPERATIONS=5000000 cargo test --release -p thermocline-flexspace random` makes
//! more of them.

use environment::Random;
use rand::RngExt;

use super::model::{Model, Run};
use super::stored::Stored;
use crate::seed::{number, seed};
use crate::{Cut, Extent, FlexSnapshot, FlexTree};

/// Operations of each test, unless the environment says otherwise.
const OPERATIONS: u64 = 20_000;

/// Runs that a space grows to before more is taken out than put in.
const RUNS: usize = 250;

/// Runs of a space that has two levels of usual inner nodes.
const MANY_RUNS: usize = crate::LEAF * (crate::INNER + 10);

#[derive(Clone, Copy, Debug)]
enum Operation {
    Append(u64, Extent),
    Insert(u64, u64, Extent),
    Collapse(u64, u64),
    Overwrite(u64, u64, Extent),
    Punch(u64, u64),
    Remap(u64, u64, u64),
    SetTag(u64, u16),
    Snapshot,
    Checkpoint,
    FailedCheckpoint,
    Restore,
}

/// A tree next to its model, and the snapshots that were kept of both.
struct Pair<const C: usize, const F: usize> {
    tree: FlexTree<C, F>,
    model: Model,
    kept: Vec<(FlexSnapshot<C, F>, Model)>,
    stored: Stored,
    checkpointed: Model,
    failed: Option<Cut<Extent, C, F>>,
}

/// Returns the randomness of a test, and how many operations it makes.
fn start(name: &str) -> (Random, u64) {
    let count = number("THERMOCLINE_FLEX_OPERATIONS").unwrap_or(OPERATIONS);
    let seed = seed(name, &format!(" THERMOCLINE_FLEX_OPERATIONS={count}"));
    (seed.stream(name), count)
}

fn run<const C: usize, const F: usize>(name: &str, huge: bool) {
    let (mut random, count) = start(name);
    let mut pair = Pair::<C, F>::of_nothing();
    let mut is_growing = true;
    for step in 0..count {
        let runs = pair.model.runs.len();
        is_growing = if is_growing { runs < RUNS } else { runs < 3 };
        pair.step(step, is_growing, huge, &mut random);
    }
}

/// Sometimes a boundary between runs, or next to one, where most mistakes would be.
fn draw_offset(model: &Model, random: &mut Random) -> u64 {
    let len = model.len();
    if model.runs.is_empty() || random.random_range(0..3) == 0 {
        return random.random_range(0..=len);
    }
    let run = model.runs[random.random_range(0..model.runs.len())];
    (run.offset + random.random_range(0..3)).saturating_sub(1).min(len)
}

fn draw_length(random: &mut Random, huge: bool) -> u64 {
    match random.random_range(0..20) {
        0..4 if huge => u64::from(u32::MAX) - random.random_range(0..3),
        4..6 if huge => random.random_range(1 << 31..3 << 32),
        6 => random.random_range(0..200),
        _ => random.random_range(1..9),
    }
}

fn draw_extent(model: &Model, offset: u64, length: u64, random: &mut Random) -> Extent {
    let before = offset.checked_sub(1).and_then(|before| model.get(before));
    let behind = model.get(offset);
    let extent = match (random.random_range(0..6), before, behind) {
        (0, ..) => Extent::HOLE,
        // Follows the run before it, or is followed by the run behind it.
        (1, Some(run), _) => run.extent.with_tag(0).skip(offset - run.offset),
        (2, _, Some(run)) => {
            let here = run.extent.with_tag(0).skip(offset - run.offset);
            let first = here.address().and_then(|address| address.checked_sub(length));
            first.map_or(here, super::at)
        }
        _ => super::at(random.random_range(0..1 << 47)),
    };
    if random.random_range(0..8) == 0 { extent.with_tag(random.random_range(1..9)) } else { extent }
}

fn draw(model: &Model, random: &mut Random, is_growing: bool, huge: bool) -> Operation {
    let len = model.len();
    let offset = draw_offset(model, random);
    let length = draw_length(random, huge);
    let within = |random: &mut Random| {
        let end = draw_offset(model, random);
        let (from, to) = (offset.min(end), offset.max(end));
        // Mostly short, sometimes all between two places.
        if random.random_range(0..8) == 0 {
            (from, to - from)
        } else {
            (offset, length.min(len - offset))
        }
    };
    match random.random_range(0..100) {
        0..50 if !is_growing => {
            let (offset, length) = within(random);
            Operation::Collapse(offset, length)
        }
        0..15 => Operation::Append(length, draw_extent(model, len, length, random)),
        15..55 => Operation::Insert(offset, length, draw_extent(model, offset, length, random)),
        55 => Operation::Insert(len + length, length, super::at(random.random_range(0..1 << 47))),
        56..66 => {
            let (offset, length) = within(random);
            let length = if is_growing { length.min(50) } else { length };
            Operation::Collapse(offset, length)
        }
        66..74 => Operation::Overwrite(offset, length, draw_extent(model, offset, length, random)),
        74 => {
            let (offset, length) = within(random);
            Operation::Punch(offset, length)
        }
        75..85 => {
            let (offset, length) = within(random);
            Operation::Remap(offset, length, random.random_range(0..1 << 46))
        }
        85..92 if len > 0 => Operation::SetTag(offset.min(len - 1), random.random_range(0..3)),
        92..96 => Operation::Snapshot,
        96 => Operation::FailedCheckpoint,
        97 => Operation::Checkpoint,
        98 => Operation::Restore,
        _ => Operation::Append(length, super::at(random.random_range(0..1 << 47))),
    }
}

impl<const C: usize, const F: usize> Pair<C, F> {
    fn of_nothing() -> Self {
        let mut stored = Stored::default();
        let mut tree = FlexTree::with_join_window(1 << 63);
        stored.checkpoint(&mut tree);
        let (model, checkpointed) = (Model::default(), Model::default());
        Self { tree, model, kept: Vec::new(), stored, checkpointed, failed: None }
    }

    /// Appends short extents until there are `runs`.
    fn fill(&mut self, runs: usize, random: &mut Random) {
        while self.model.runs.len() < runs {
            let (offset, length) = (self.model.len(), random.random_range(1..9));
            let extent = super::at(random.random_range(0..1 << 47));
            self.model.push(Run { offset, length, extent });
            self.tree.append(length, extent).expect("there is room");
        }
    }

    fn step(&mut self, step: u64, is_growing: bool, huge: bool, random: &mut Random) {
        let operation = draw(&self.model, random, is_growing, huge);
        self.apply(operation);
        if let Err(fault) = self.compare(random) {
            panic!("step {step}, {operation:?}: {fault}\n{:#?}", self.tree);
        }
    }

    fn apply(&mut self, operation: Operation) {
        let (tree, model) = (&mut self.tree, &mut self.model);
        let done = match operation {
            Operation::Append(length, extent) => {
                model.insert(model.len(), length, extent);
                tree.append(length, extent)
            }
            Operation::Insert(offset, length, extent) => {
                model.insert(offset, length, extent);
                tree.insert_range(offset, length, extent)
            }
            Operation::Collapse(offset, length) => {
                model.collapse(offset, length);
                tree.collapse_range(offset, length)
            }
            Operation::Overwrite(offset, length, extent) => {
                model.overwrite(offset, length, extent);
                tree.overwrite(offset, length, extent)
            }
            Operation::Punch(offset, length) => {
                model.overwrite(offset, length, Extent::HOLE);
                tree.punch(offset, length)
            }
            Operation::Remap(offset, length, address) => {
                model.remap(offset, length, super::at(address));
                tree.remap(offset, length, address)
            }
            Operation::SetTag(offset, tag) => {
                model.set_tag(offset, tag);
                tree.set_tag(offset, tag)
            }
            Operation::Snapshot => {
                self.kept.push((tree.snapshot(), model.clone()));
                if self.kept.len() > 4 {
                    let (snapshot, model) = self.kept.remove(0);
                    assert_eq!(Model::of(snapshot.query(0..u64::MAX)), model, "an old snapshot");
                }
                Ok(())
            }
            Operation::Checkpoint => {
                let mut cut = tree.cut();
                if let Some(failed) = self.failed.take() {
                    cut.include(failed);
                }
                self.stored.finish(cut);
                let shape = tree.check().expect("it was sound before");
                assert_eq!(self.stored.nodes.len(), shape.leaves + shape.inners, "stored nodes");
                self.checkpointed = model.clone();
                Ok(())
            }
            Operation::FailedCheckpoint => {
                let mut cut = tree.cut();
                if let Some(failed) = self.failed.take() {
                    cut.include(failed);
                }
                self.failed = Some(cut);
                Ok(())
            }
            Operation::Restore => {
                *tree = self.stored.restore().expect("what was stored is a tree");
                *model = self.checkpointed.clone();
                self.kept.clear();
                self.failed = None;
                Ok(())
            }
        };
        assert_eq!(done, Ok(()), "{operation:?}");
    }

    fn compare(&self, random: &mut Random) -> Result<(), String> {
        self.tree.check()?;
        let found = Model::of(self.tree.query(0..u64::MAX));
        if found != self.model {
            return Err(format!("{found:?}\nis not\n{:?}", self.model));
        }
        let (first, second) = (draw_offset(&self.model, random), draw_offset(&self.model, random));
        let (from, to) = (first.min(second), first.max(second));
        let mut part = self.tree.query(from..to);
        for run in self.model.cut(from, to) {
            let mut done = 0;
            while done < run.length {
                let piece = part.next().ok_or_else(|| format!("{from}..{to} ends early"))?;
                let is_next = piece.offset == run.offset + done
                    && piece.extent.address() == run.extent.skip(done).address();
                if !is_next {
                    return Err(format!("{piece:?} of {from}..{to} in {run:?}"));
                }
                done += u64::from(piece.length);
            }
            if done > run.length {
                return Err(format!("{run:?} of {from}..{to} is {done} long"));
            }
        }
        if part.next().is_some() {
            return Err(format!("{from}..{to} has too much"));
        }
        let got =
            self.tree.get(first).map(|piece| piece.extent.skip(first - piece.offset).address());
        let expected =
            self.model.get(first).map(|run| run.extent.skip(first - run.offset).address());
        if got != expected {
            return Err(format!("at {first} {got:?}, not {expected:?}"));
        }
        Ok(())
    }
}

#[test]
fn random_operations_on_tiny_nodes_give_the_model() {
    run::<4, 6>("random_operations_on_tiny_nodes_give_the_model", false);
}

#[test]
fn random_operations_on_odd_nodes_give_the_model() {
    run::<7, 7>("random_operations_on_odd_nodes_give_the_model", false);
}

#[test]
fn random_operations_of_huge_lengths_give_the_model() {
    run::<5, 6>("random_operations_of_huge_lengths_give_the_model", true);
}

#[test]
fn random_operations_on_usual_nodes_give_the_model() {
    run::<{ crate::LEAF }, { crate::INNER }>(
        "random_operations_on_usual_nodes_give_the_model",
        true,
    );
}

/// Some operations each on many spaces whose root has inner children: first they mostly grow, then
/// long ranges are taken out.
#[test]
fn random_operations_on_two_levels_of_usual_nodes_give_the_model() {
    let (mut random, count) =
        start("random_operations_on_two_levels_of_usual_nodes_give_the_model");
    let mut pair = Pair::<{ crate::LEAF }, { crate::INNER }>::of_nothing();
    for step in 0..count / 50 {
        if step % 40 == 0 {
            pair.fill(MANY_RUNS, &mut random);
            let levels = pair.tree.check().expect("it is sound").levels;
            assert!(levels >= 3, "{levels} levels");
        }
        pair.step(step, step % 40 < 30, false, &mut random);
    }
}
