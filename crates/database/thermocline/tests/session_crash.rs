//! Power cuts at every operation of the disk while updates on sessions are under way, over each
//! engine that waits for a device, with a journal.
//!
//! Each update adds one to a counter whose value is on disk alone. Every acknowledged one has a
//! number. An image of a power cut has the counters after all updates up to some number. That
//! number is no older than the last one that was acknowledged before the cut. None is missing, none
//! counts twice, none is there without those before it.
//!
//! `THERMOCLINE_SEED` chooses the first run and `THERMOCLINE_CASES` how many.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;

use device::{Device, Faults, SimulatedDisk};
use rand::RngExt;
use thermocline::{
    Change, Completed, Db, Durability, EngineKind, Environment, Keyspace, KeyspaceOptions, Options,
    SeqNo, SessionRmw, check_on,
};

const KEYS: u64 = 40;
/// Updates that are begun between two lives of the database, so that the values are cold again.
const UPDATES: u64 = 30;
const LIVES: u64 = 4;
const DEPTH: usize = 8;

fn options(seed: u64) -> Options {
    let (environment, _clock) = Environment::simulated(seed);
    Options {
        environment,
        memory_bytes: 64 << 20,
        sync_interval: None,
        background_threads: 1,
        ..Options::default()
    }
}

fn open(disk: &Arc<SimulatedDisk>, seed: u64) -> Db {
    let device = Arc::clone(disk) as Arc<dyn Device>;
    Db::open_on(device, "simulated", options(seed)).unwrap()
}

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

fn number(value: Option<&[u8]>) -> u64 {
    value.map_or(0, |bytes| u64::from_le_bytes(*bytes.first_chunk().unwrap()))
}

fn add_one(old: Option<&[u8]>) -> Change {
    let mut value = (number(old) + 1).to_le_bytes().to_vec();
    value.resize(300, 7);
    Change::Put(value)
}

/// An acknowledged update, and the number of operations that the disk had done then.
struct Update {
    key: u64,
    acknowledged_at: u64,
}

struct Run {
    seed: u64,
    engine: EngineKind,
    random: environment::Random,
    disk: Arc<SimulatedDisk>,
    /// In the order of their numbers.
    updates: BTreeMap<SeqNo, Update>,
    pended: u64,
}

impl Run {
    fn new(seed: u64, engine: EngineKind) -> Self {
        let disk = SimulatedDisk::new(seed, Faults::none());
        disk.keep_history();
        let random = Environment::seeded(seed).random("session crash run");
        Self { seed, engine, random, disk, updates: BTreeMap::new(), pended: 0 }
    }

    /// Opens the database, updates, closes it: in order or by forgetting about it.
    fn live(&mut self, life: u64) {
        let db = open(&self.disk, self.seed + life);
        let options = KeyspaceOptions { engine: self.engine, ..Default::default() };
        let space = db.keyspace("s", options).unwrap().durability(Durability::Synced);
        self.update(&space, life);
        if life.is_multiple_of(2) {
            // Else the journal has it alone.
            space.flush().unwrap();
        }
        db.close().unwrap();
    }

    fn update(&mut self, space: &Keyspace, life: u64) {
        let mut session = space.session(DEPTH).unwrap();
        let count = if life == 0 { KEYS } else { UPDATES };
        for at in 0..count {
            let number = if life == 0 { at } else { self.random.random_range(0..KEYS) };
            if self.random.random_range(0..6) == 0 {
                // An update that waits for no lookup, next to updates that do.
                let other = self.random.random_range(0..KEYS);
                let seqno = space.rmw(&key(other), add_one).unwrap().unwrap();
                self.note(seqno, other);
            }
            match session.begin_rmw(number, &key(number), Box::new(add_one)).unwrap() {
                SessionRmw::Done(seqno) => self.note(seqno.unwrap(), number),
                SessionRmw::Pending => self.pended += 1,
                SessionRmw::Full(_) => panic!("there is room for {DEPTH}"),
            }
            while session.pending() >= DEPTH || at + 1 == count && session.pending() > 0 {
                let mut told = Vec::new();
                let complete = session.complete(true, &mut |tag, outcome| match outcome {
                    Ok(Completed::Updated(Some(seqno))) => told.push((seqno, tag)),
                    other => panic!("{other:?}"),
                });
                complete.unwrap();
                told.into_iter().for_each(|(seqno, tag)| self.note(seqno, tag));
            }
            if at % 11 == 10 {
                space.flush().unwrap();
            }
        }
    }

    fn note(&mut self, seqno: SeqNo, key: u64) {
        let acknowledged_at = self.disk.operations();
        let before = self.updates.insert(seqno, Update { key, acknowledged_at });
        assert!(before.is_none(), "{seqno} was given twice");
    }

    /// Opens an image of a power cut after `operation`.
    fn judge(&self, image: &Arc<SimulatedDisk>, operation: u64) {
        let place = format!("{}, seed {}, cut after {operation}", self.engine, self.seed);
        let report = check_on(Arc::clone(image) as Arc<dyn Device>, "image");
        let Ok(report) = report else {
            assert!(self.updates.values().all(|update| update.acknowledged_at > operation));
            return;
        };
        assert!(report.is_whole(), "{place}: {:?}", report.damage);
        let db = open(image, self.seed ^ operation);
        let least = self.updates.values().filter(|one| one.acknowledged_at <= operation).count();
        let Ok(space) = db.existing_keyspace("s") else {
            assert_eq!(least, 0, "{place}: the keyspace is gone");
            return;
        };
        let counters = |key_number| number(space.get(&key(key_number)).unwrap().as_deref());
        let found: Vec<u64> = (0..KEYS).map(counters).collect();
        let count = found.iter().sum::<u64>() as usize;
        let mut expected = vec![0; KEYS as usize];
        for update in self.updates.values().take(count) {
            expected[update.key as usize] += 1;
        }
        assert!(count >= least, "{place}: {count} updates of {least} that were acknowledged");
        assert_eq!(found, expected, "{place}: they are not the first {count}");
        space.rmw(&key(0), add_one).unwrap();
    }
}

#[test]
fn every_acknowledged_update_in_a_session_outlives_a_power_cut() {
    let setting = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first: u64 = setting("THERMOCLINE_SEED").unwrap_or(1);
    let cases: u64 = setting("THERMOCLINE_CASES").unwrap_or(1);
    let larger_than_memory = EngineKind::ALL.iter().filter(|engine| engine.driver().has_share());
    let runs = (first..first + cases)
        .flat_map(|seed| larger_than_memory.clone().map(move |&engine| (seed, engine)));
    for (seed, engine) in runs {
        let mut run = Run::new(seed, engine);
        (0..LIVES).for_each(|life| run.live(life));
        assert!(run.pended > 10, "{engine}: {} have waited for the disk", run.pended);
        let history = run.disk.history();
        let mut replay = history.replay();
        for operation in 0..=history.last_operation() {
            replay.advance_to(operation);
            run.judge(&replay.crash(seed ^ (operation << 8)), operation);
        }
    }
}
