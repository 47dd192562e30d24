//! Several reservations at a time, in every order: a write takes no more memory than was reserved
//! for it, a dropped reservation returns, and a caller that does not wait gets room in the end.

use std::sync::Arc;

use engine::{
    Cursor, Demand, Direction, Engine, Error, KeyRange, NoJournal, Op, Reservation, Result as Done,
    Wait,
};

use crate::Fixture;
use crate::draw::Draw;
use crate::host::{self, Opened};
use crate::operation::Step;

const STEPS: usize = 120;
/// Reservations that are held at a time.
const HELD: usize = 5;
const KEYS: usize = 40;
const VALUE_BYTES_MAX: usize = 900;
/// The bytes by which the memory that a step takes may differ from the estimate: a leaf of a map
/// may be split.
const STEP_SLACK_BYTES: u64 = 4096;
/// How often a caller that does not wait asks for room, with background work in between.
const TRIES: usize = 50;
/// Simulated time between two tries, in milliseconds.
const BETWEEN_TRIES: u64 = 100;
/// The memory that a store with a limit may still take.
const FREE_BYTES: usize = 24 << 10;

/// A write that has its room.
struct Held<'e> {
    steps: Vec<Step>,
    room: Reservation<'e>,
}

struct Run<'e> {
    opened: &'e Opened,
    draw: Draw,
    value_bytes_max: usize,
    held: Vec<Held<'e>>,
    /// A scan that keeps what the store had when it began.
    scan: Option<Box<dyn Cursor>>,
}

fn reserved(engine: &dyn Engine) -> u64 {
    engine.stats().reserved
}

impl<'e> Run<'e> {
    /// Draws a step on a key of which no other write is held: a store may reserve what the write
    /// takes as its keys are now.
    fn step(&mut self) -> Step {
        let key = loop {
            let key = format!("key{}", self.draw.below(KEYS)).into_bytes();
            let mut held = self.held.iter().flat_map(|held| &held.steps);
            if !held.any(|step| step.op().key() == key) {
                break key;
            }
        };
        let bytes = self.draw.below(self.value_bytes_max + 1);
        match self.draw.once_in(5) {
            true => Step::Delete { key },
            false => Step::Put { key, value: vec![bytes as u8; bytes] },
        }
    }

    /// Reserves room for a write, or for an update of one key. Waits only if nothing is held: what
    /// is held may be all room that there is.
    fn reserve(&mut self) -> Result<(), String> {
        let steps: Vec<Step> = (0..=self.draw.below(3)).map(|_| self.step()).collect();
        let steps = if self.draw.once_in(4) { steps[..1].to_vec() } else { steps };
        let ops: Vec<Op<'_>> = steps.iter().map(Step::op).collect();
        let is_alone = self.held.is_empty();
        let wait = if is_alone && self.draw.once_in(2) { Wait::Yes } else { Wait::No };
        let demand = match ops[..] {
            [Op::Put { key, value }] if self.draw.once_in(2) => {
                Demand::Update { key, bytes_max: value.len() as u64 }
            }
            _ => Demand::Ops(&ops),
        };
        let granted = match wait {
            Wait::No if is_alone => self.reserve_without_wait(&demand),
            wait => self.opened.engine.reserve(&demand, wait),
        };
        match granted {
            Ok(Some(room)) => self.held.push(Held { steps, room }),
            Ok(None) if wait == Wait::No && !is_alone => {}
            Ok(None) if wait == Wait::No => {
                let waited = self.opened.engine.reserve(&demand, Wait::Yes);
                if waited.is_ok_and(|room| room.is_some()) {
                    return Err(format!(
                        "a caller that does not wait has got no room in {TRIES} tries"
                    ));
                }
            }
            Ok(None) => return Err("a caller that waits has got no room".to_owned()),
            Err(Error::OutOfMemory { .. } | Error::WriteTooLarge { .. }) => {}
            Err(error) => return Err(format!("room was refused: {error}")),
        }
        Ok(())
    }

    /// Reserves without a wait. If there is no room, the background makes some.
    fn reserve_without_wait(&self, demand: &Demand<'_>) -> Done<Option<Reservation<'e>>> {
        for _ in 0..TRIES {
            match self.opened.engine.reserve(demand, Wait::No) {
                Ok(None) => self.opened.advance(BETWEEN_TRIES),
                ended => return ended,
            }
        }
        Ok(None)
    }

    /// Begins a scan, or ends it.
    fn change_scan(&mut self) -> Result<(), String> {
        let Opened { engine, sequence, .. } = self.opened;
        self.scan = match &self.scan {
            None if engine.capabilities().ordered => {
                let scan = engine.scan(KeyRange::all(), Direction::Forward, sequence.pin());
                Some(scan.map_err(|error| format!("a scan failed: {error}"))?)
            }
            _ => None,
        };
        Ok(())
    }

    /// Applies one of the writes, or drops its room.
    fn end_one(&mut self) -> Result<(), String> {
        if self.held.is_empty() {
            return Ok(());
        }
        let Held { steps, mut room } = self.held.swap_remove(self.draw.below(self.held.len()));
        if self.draw.once_in(4) {
            drop(room);
            return self.must_have_returned();
        }
        let memory = &self.opened.memory;
        let before = memory.used();
        let ops: Vec<Op<'_>> = steps.iter().map(Step::op).collect();
        let ticket = self.opened.sequence.begin();
        let applied = self.opened.engine.apply(&ops, ticket.seqno(), &mut room);
        applied.map_err(|error| format!("apply failed although room was granted: {error}"))?;
        drop((ticket, room));
        let (after, limit) = (memory.used(), memory.limit());
        // A store may count nothing of a write that is short for the memory that is free.
        let reserved = before.max(limit).saturating_add(STEP_SLACK_BYTES * ops.len() as u64);
        if after > reserved {
            return Err(format!(
                "a write of {} steps has taken {} bytes that were not reserved, {after} of {limit} \
                 are in use",
                ops.len(),
                after - reserved,
            ));
        }
        self.must_have_returned()
    }

    fn must_have_returned(&self) -> Result<(), String> {
        match reserved(&*self.opened.engine) {
            0 => Ok(()),
            rest if self.held.is_empty() => {
                Err(format!("{rest} of reservations have not returned"))
            }
            _ => Ok(()),
        }
    }
}

/// Runs one case.
pub(crate) fn reservations(fixture: &dyn Fixture, seed: u64) -> Result<(), String> {
    let opened = host::open(fixture, &device::memory(), Arc::new(NoJournal), seed);
    let opened = opened.map_err(|error| error.to_string())?;
    let mut draw = Draw::new(seed, "reservations");
    if draw.once_in(2) && !fixture.takes_memory_in_units() {
        let free = draw.below(FREE_BYTES) as u64;
        opened.memory.set_limit(opened.memory.used() + free);
    }
    let value_bytes_max = fixture.value_bytes_max().min(VALUE_BYTES_MAX);
    let mut run = Run { opened: &opened, draw, value_bytes_max, held: Vec::new(), scan: None };
    for _ in 0..STEPS {
        match run.draw.weighted(&[5, 5, 1, 1, 1]) {
            0 if run.held.len() < HELD => run.reserve()?,
            2 => opened.engine.flush().map_err(|error| format!("flush failed: {error}"))?,
            3 => opened.advance(100),
            4 => run.change_scan()?,
            _ => run.end_one()?,
        }
    }
    run.held.clear();
    run.scan = None;
    run.must_have_returned()?;
    opened.engine.close().map_err(|error| error.to_string())
}
