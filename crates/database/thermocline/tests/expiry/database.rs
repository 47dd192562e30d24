//! A database whose clock a test moves.

use std::sync::Arc;
use std::time::Duration;

use device::{Device, Faults, SimulatedDisk};
use environment::ManualClock;
use thermocline::{Db, EngineKind, Environment, Keyspace, KeyspaceOptions, Options};

const MIB: u64 = 1 << 20;

/// Every engine, journaled and not.
pub(crate) fn kinds() -> impl Iterator<Item = (EngineKind, bool)> {
    let built = EngineKind::ALL.iter().copied();
    built.flat_map(|engine| [(engine, true), (engine, false)])
}

pub(crate) fn with_ends(engine: EngineKind, journaled: bool) -> KeyspaceOptions {
    let memory_bytes = Some(12 * MIB);
    KeyspaceOptions { engine, journaled, memory_bytes, expiring: true, ..Default::default() }
}

/// A database on a simulated disk. Nothing is removed by itself.
pub(crate) struct Bench {
    pub(crate) disk: Arc<SimulatedDisk>,
    pub(crate) db: Db,
    pub(crate) clock: Arc<ManualClock>,
    options: Options,
}

impl Bench {
    pub(crate) fn new(seed: u64) -> Self {
        let (environment, clock) = Environment::simulated(seed);
        let options = Options {
            environment,
            memory_bytes: 128 * MIB,
            sync_interval: None,
            expiry_sweep_interval: None,
            background_threads: 3,
            ..Options::default()
        };
        let disk = SimulatedDisk::new(seed, Faults::none());
        let db = open(&disk, &options);
        Self { disk, db, clock, options }
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.db.now_ms()
    }

    /// Moves the clock by this number of milliseconds.
    pub(crate) fn pass(&self, ms: u64) {
        self.clock.advance(Duration::from_millis(ms));
    }

    /// Sets the wall clock, perhaps back.
    pub(crate) fn set(&self, now_ms: u64) {
        self.clock.set_wall(Duration::from_millis(now_ms));
    }

    /// Closes the database, and opens it again.
    pub(crate) fn reopen(&mut self) {
        self.db.close().unwrap();
        self.db = open(&self.disk, &self.options);
    }

    pub(crate) fn options(&self) -> Options {
        self.options.clone()
    }

    pub(crate) fn space(&self, engine: EngineKind, journaled: bool) -> Keyspace {
        self.db.keyspace(&format!("{engine}-{journaled}"), with_ends(engine, journaled)).unwrap()
    }
}

fn open(disk: &Arc<SimulatedDisk>, options: &Options) -> Db {
    Db::open_on(Arc::clone(disk) as Arc<dyn Device>, "simulated", options.clone()).unwrap()
}
