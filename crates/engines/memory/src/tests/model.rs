//! Random operations against a model: a list of versions per key.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use engine::{BlockingWrites, Change, Direction, Engine, KeyRange, Op, Pin, SeqNo};
use proptest::prelude::*;
use reads::BlockingReads;

use super::stores::{Bench, Pairs, scan};

/// One step of a write: a key and its value, or a range that goes.
#[derive(Clone, Debug)]
enum Write {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    DeleteRange(Vec<u8>, Option<Vec<u8>>),
}

impl Write {
    fn op(&self) -> Op<'_> {
        match self {
            Self::Put(key, value) => Op::Put { key, value },
            Self::Delete(key) => Op::Delete { key },
            Self::DeleteRange(start, end) => Op::DeleteRange { start, end: end.as_deref() },
        }
    }
}

/// One operation; its debug output shows it in full, so that a failure can be read.
#[derive(Clone, Debug)]
enum Step {
    Write(Vec<Write>),
    Append(Vec<u8>, u8),
    TakeView,
    DropView(usize),
    ReadView(usize, Vec<u8>),
    Scan(Option<usize>, Bound<Vec<u8>>, Bound<Vec<u8>>, bool),
    Flush,
    /// Closes and opens again, and replays what the files do not have.
    Reopen,
    Prune,
}

fn keys() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => (0_u16..400).prop_map(|number| format!("user{number:08}").into_bytes()),
        3 => prop::collection::vec(prop_oneof![Just(0_u8), Just(97), Just(98), Just(255)], 0..12),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ]
}

fn values() -> impl Strategy<Value = Vec<u8>> {
    let sized = |len: usize| (any::<u8>()).prop_map(move |byte| vec![byte; len]);
    prop_oneof![6 => sized(8), 3 => (0_usize..64).prop_flat_map(sized), 1 => sized(1500)]
}

fn bounds() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![
        Just(Bound::Unbounded),
        keys().prop_map(Bound::Included),
        keys().prop_map(Bound::Excluded),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let write = prop_oneof![
        14 => (keys(), values()).prop_map(|(key, value)| Write::Put(key, value)),
        6 => keys().prop_map(Write::Delete),
        1 => (keys(), prop::option::weighted(0.8, keys()))
            .prop_map(|(start, end)| Write::DeleteRange(start, end)),
    ];
    prop_oneof![
        20 => prop::collection::vec(write, 1..30).prop_map(Step::Write),
        6 => (keys(), any::<u8>()).prop_map(|(key, byte)| Step::Append(key, byte)),
        2 => Just(Step::TakeView),
        2 => any::<usize>().prop_map(Step::DropView),
        4 => (any::<usize>(), keys()).prop_map(|(view, key)| Step::ReadView(view, key)),
        6 => (prop::option::of(any::<usize>()), bounds(), bounds(), any::<bool>())
            .prop_map(|(view, start, end, backward)| Step::Scan(view, start, end, backward)),
        1 => Just(Step::Flush),
        1 => Just(Step::Reopen),
        1 => Just(Step::Prune),
    ]
}

type State = BTreeMap<Vec<u8>, Vec<u8>>;

/// One journaled write.
type Logged = (SeqNo, Vec<Write>);

struct World {
    device: Arc<dyn device::Device>,
    bench: Bench,
    now: State,
    views: Vec<(Arc<Pin>, State)>,
    journal: Vec<Logged>,
}

impl World {
    fn new() -> Self {
        let device = device::memory();
        let bench = Bench::on(device.clone()).expect("an empty device opens");
        Self { device, bench, now: State::new(), views: Vec::new(), journal: Vec::new() }
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::Write(writes) => self.write(writes),
            Step::Append(key, byte) => self.append(key, *byte),
            Step::TakeView => self.views.push((self.bench.sequence.pin(), self.now.clone())),
            Step::DropView(index) => {
                if let Some(index) = self.pick(*index) {
                    self.views.remove(index);
                }
            }
            Step::ReadView(index, key) => {
                let Some(index) = self.pick(*index) else { return };
                let (pin, state) = &self.views[index];
                let mut value = Vec::new();
                let found = self.bench.store.get_at(key, pin, &mut value).expect("it is open");
                assert_eq!(found.then_some(&value), state.get(key));
            }
            Step::Scan(view, start, end, backward) => {
                let range = KeyRange { start: start.clone(), end: end.clone() };
                self.scan(*view, &range, *backward);
            }
            Step::Flush => {
                self.bench.store.flush().expect("flushes");
                assert_eq!(self.bench.store.persisted(), self.bench.sequence.visible());
            }
            Step::Reopen => self.reopen(),
            Step::Prune => {
                self.bench.clock.advance(std::time::Duration::from_secs(2));
                self.bench.crank.run_all();
            }
        }
        let live: usize = self.now.iter().map(|(key, value)| key.len() + value.len()).sum();
        let stats = self.bench.store.stats();
        assert_eq!(stats.live_keys, Some(self.now.len() as u64));
        assert_eq!(stats.live_bytes, Some(live as u64));
        assert_eq!(self.bench.budget.used(), stats.memory_bytes);
    }

    fn pick(&self, index: usize) -> Option<usize> {
        (!self.views.is_empty()).then(|| index % self.views.len())
    }

    fn write(&mut self, writes: &[Write]) {
        let seqno = self.bench.apply(&ops(writes));
        self.journal.push((seqno, writes.to_vec()));
        for write in writes {
            match write {
                Write::Put(key, value) => drop(self.now.insert(key.clone(), value.clone())),
                write => self.now.retain(|key, _| !write.op().decides(key)),
            }
        }
        for write in writes {
            let key = write.op().key();
            assert_eq!(self.bench.get(key), self.now.get(key).cloned());
        }
    }

    fn append(&mut self, key: &[u8], byte: u8) {
        let ticket = self.bench.sequence.begin();
        let mut after = None;
        let mut operator = |value: Option<&[u8]>| {
            let mut grown = value.unwrap_or_default().to_vec();
            grown.push(byte);
            after = Some(grown.clone());
            if grown.len() > 12 { Change::Delete } else { Change::Put(grown) }
        };
        self.bench.store.rmw(key, &mut operator, ticket.seqno()).expect("the write is taken");
        let after = after.filter(|value| value.len() <= 12);
        let logged = match after.clone() {
            Some(value) => Write::Put(key.to_vec(), value),
            None => Write::Delete(key.to_vec()),
        };
        self.journal.push((ticket.seqno(), vec![logged]));
        match after {
            Some(value) => self.now.insert(key.to_vec(), value),
            None => self.now.remove(key),
        };
        drop(ticket);
        assert_eq!(self.bench.get(key), self.now.get(key).cloned());
    }

    fn scan(&self, view: Option<usize>, range: &KeyRange, backward: bool) {
        let (pin, state) = match view.and_then(|index| self.pick(index)) {
            Some(index) => (Arc::clone(&self.views[index].0), &self.views[index].1),
            None => (self.bench.sequence.pin(), &self.now),
        };
        let inside = state.iter().filter(|(key, _)| range.contains(key));
        let mut expected: Pairs = inside.map(|(key, value)| (key.clone(), value.clone())).collect();
        let direction = if backward { Direction::Backward } else { Direction::Forward };
        if backward {
            expected.reverse();
        }
        assert_eq!(scan(&self.bench.store.view(pin), range.clone(), direction), expected);
    }

    fn reopen(&mut self) {
        self.views.clear();
        self.bench.store.close().expect("closes");
        let last = self.bench.sequence.last();
        self.bench = Bench::on(self.device.clone()).expect("opens again");
        let persisted = self.bench.store.persisted();
        // Replay may begin below what is persisted; that changes nothing.
        let overlap = SeqNo::new(persisted.get().saturating_sub(3));
        for (seqno, writes) in self.journal.iter().filter(|(seqno, _)| *seqno > overlap) {
            self.bench.store.write(&ops(writes), *seqno).expect("replay is taken");
        }
        self.bench.sequence.recover_to(last);
        self.journal.retain(|(seqno, _)| *seqno > overlap);
    }
}

fn ops(writes: &[Write]) -> Vec<Op<'_>> {
    writes.iter().map(Write::op).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// A failure prints the steps, shrunk, and the seed that proptest replays first from its
    /// regressions file; `PROPTEST_CASES=10000 cargo test -p thermocline-memory model` runs more
    /// cases.
    #[test]
    fn behaves_like_the_model(steps in prop::collection::vec(steps(), 1..120)) {
        let mut world = World::new();
        for step in &steps {
            world.run(step);
        }
        world.scan(None, &KeyRange::all(), false);
        world.scan(None, &KeyRange::all(), true);
        world.reopen();
        world.scan(None, &KeyRange::all(), false);
    }
}
