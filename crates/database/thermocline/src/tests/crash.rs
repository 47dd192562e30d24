//! Power cuts at every operation of a run over several keyspaces, on the simulated disk.
//!
//! A run is made of steps: puts, batches over keyspaces, read-modify-writes, flushes, clearings,
//! drops, checkpoints, reopenings. The model keeps the whole database's content after each step.
//! From every image of a power cut, recovery must give the content after some step no older than
//! the last one that was known durable (prefix recovery, batches whole). The offline check must
//! find nothing, and the database must take writes again.
//!
//! Runs over engines of small parts are longer, so that tables are flushed and compacted, logs too,
//! and intervals split, before the cuts and during them; some of their power cuts are drawn. The
//! same holds for runs over keyspaces with settings, each of [`tunings`] in its turn, whose
//! settings are added and removed.
//!
//! `THERMOCLINE_SEED` chooses the first run and `THERMOCLINE_CASES` the number of runs.
//! `THERMOCLINE_CUTS` is the number of power cuts that are drawn of a run, or `all`. A failure
//! prints the one command that replays it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use super::{ENGINES, small_parts, tunings};
use device::{Device, Faults, SimulatedDisk};
use environment::ManualClock;
use rand::{Rng, RngExt};
use thermocline::{
    Batch, BatchStep, Change, Db, Durability, EngineKind, Environment, Error, KeyRange,
    KeyspaceOptions, Options, Settings,
};

/// Steps of one run.
const STEPS: usize = 40;
/// Steps of one over engines of small parts, and power cuts that are drawn of it.
const STEPS_OVER_SMALL: usize = 600;
const CUTS_OVER_SMALL: usize = 100;
/// The same of one over tuned engines, of which there are many.
const STEPS_OVER_TUNED: usize = 320;
const CUTS_OVER_TUNED: usize = 20;
/// Time between these steps, at most.
const PAUSE_MS_MAX: u64 = 200;
/// Images taken at each operation of a run.
const IMAGES: u64 = 2;
/// Runs unless `THERMOCLINE_CASES` says otherwise.
const CASES: u64 = 3;
/// Work that must have been done next to the steps over small parts.
const BESIDE: [(EngineKind, &str); 5] = [
    (EngineKind::F2, "compactions"),
    (EngineKind::Lsm, "flushes"),
    (EngineKind::Lsm, "compactions"),
    (EngineKind::FlexDb, "commits"),
    (EngineKind::HashKv, "collections"),
];
/// Keyspaces by name, with their engines and settings; they come and go.
type Spaces = Vec<(&'static str, EngineKind, Option<Settings>)>;
const IN_MEMORY: [(&str, EngineKind); 3] =
    [("a", EngineKind::Memory), ("b", EngineKind::Memory), ("c", EngineKind::Memory)];
/// For a keyspace of an engine on disk.
const MEMORY_BYTES: u64 = 2 << 20;

type Content = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// A moment of a run: the content of the database, and the operation of the disk from which on it
/// must not be older.
struct Returned {
    content: Content,
    /// The disk's operation count when this step had returned.
    returned_at: u64,
    /// Whether it is durable from then on.
    durable: bool,
}

/// Returns a keyspace of each engine.
fn of_each_engine() -> Vec<(&'static str, EngineKind)> {
    ENGINES.iter().map(|kind| (kind.name(), *kind)).collect()
}

/// As the database's options say.
fn untuned(spaces: &[(&'static str, EngineKind)]) -> Spaces {
    spaces.iter().map(|(name, engine)| (*name, *engine, None)).collect()
}

/// One of each engine, as often as it takes for each to be tuned in every way.
fn tuned_in_every_way() -> Vec<Spaces> {
    let all = tunings::all();
    let ways = |engine| all.iter().filter(move |one| tunings::engine(**one) == engine).copied();
    let most = ENGINES.iter().map(|engine| ways(*engine).count()).max().unwrap();
    let tuned = |at: usize| {
        let of = |(name, engine)| (name, engine, ways(engine).cycle().nth(at));
        of_each_engine().into_iter().map(of).collect()
    };
    (0..most).map(tuned).collect()
}

/// Returns settings that remove those of a keyspace.
fn nothing(of: Settings) -> Settings {
    tunings::engine(of).settings()
}

fn of(engine: EngineKind, settings: Option<Settings>) -> KeyspaceOptions {
    let memory_bytes = (engine != EngineKind::Memory).then_some(MEMORY_BYTES);
    KeyspaceOptions { engine, memory_bytes, settings, ..KeyspaceOptions::default() }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Parts {
    Usual,
    Small,
}

fn options(parts: Parts, environment: Environment) -> Options {
    let usual = Options {
        environment,
        sync_interval: None,
        background_threads: 1,
        durability: Durability::Buffered,
        ..Options::default()
    };
    match parts {
        Parts::Usual => usual,
        Parts::Small => small_parts::with_small_parts(usual),
    }
}

fn open(disk: &Arc<SimulatedDisk>, seed: u64, parts: Parts) -> Result<Db, Error> {
    let (environment, _clock) = Environment::simulated(seed);
    open_in(environment, disk, parts)
}

fn open_in(environment: Environment, disk: &Arc<SimulatedDisk>, parts: Parts) -> Result<Db, Error> {
    let disk = Arc::clone(disk) as Arc<dyn Device>;
    Db::open_on(disk, "simulated", options(parts, environment))
}

fn content(db: &Db) -> Content {
    let pairs = |space: &thermocline::Keyspace| {
        let mut pairs = BTreeMap::new();
        let mut take = |key: &[u8], value: &[u8]| {
            assert!(pairs.insert(key.to_vec(), value.to_vec()).is_none(), "a key is told twice");
            ControlFlow::Continue(())
        };
        space.walk(None, &mut take).unwrap();
        pairs
    };
    db.keyspaces().iter().map(|space| (space.name().to_owned(), pairs(space))).collect()
}

struct Run {
    seed: u64,
    spaces: Spaces,
    parts: Parts,
    clock: Arc<ManualClock>,
    /// The most that there was of each in one keyspace.
    beside: [u64; BESIDE.len()],
    random: environment::Random,
    disk: Arc<SimulatedDisk>,
    db: Db,
    content: Content,
    moments: Vec<Returned>,
}

impl Run {
    fn new(seed: u64, spaces: Spaces, parts: Parts) -> Self {
        let disk = SimulatedDisk::new(seed, Faults::none());
        disk.keep_history();
        let (environment, clock) = Environment::simulated(seed);
        let db = open_in(environment, &disk, parts).unwrap();
        let random = Environment::seeded(seed).random("crash run");
        let (content, moments) = (Content::new(), Vec::new());
        let beside = [0; BESIDE.len()];
        let mut run =
            Self { seed, spaces, parts, clock, beside, random, disk, db, content, moments };
        run.note(true);
        run
    }

    fn note(&mut self, durable: bool) {
        let (content, returned_at) = (self.content.clone(), self.disk.operations());
        self.moments.push(Returned { content, returned_at, durable });
    }

    fn key(&mut self) -> Vec<u8> {
        let keys = if self.parts == Parts::Small { 60 } else { 8 };
        vec![b'k', self.random.random_range(0..keys)]
    }

    fn value(&mut self) -> Vec<u8> {
        let len = [0, 1, 20, 600, 5000][self.random.random_range(0..5)];
        let mut value = vec![0; len];
        self.random.fill_bytes(&mut value);
        value
    }

    fn space(&mut self) -> thermocline::Keyspace {
        let (name, engine, settings) = self.spaces[self.random.random_range(0..self.spaces.len())];
        if !self.content.contains_key(name) {
            self.db.keyspace(name, of(engine, settings)).unwrap();
            self.content.insert(name.to_owned(), BTreeMap::new());
            self.note(true);
        }
        self.db.existing_keyspace(name).unwrap()
    }

    fn durability(&mut self) -> Durability {
        let all = [Durability::Buffered, Durability::Flushed, Durability::Synced];
        all[self.random.random_range(0..3)]
    }

    fn step(&mut self) {
        let parts = self.parts;
        let kind = self.random.random_range(0..20);
        // Keyspaces with small parts have to grow before they are dropped.
        let stays = parts == Parts::Small && self.random.random_ratio(9, 10);
        match kind {
            17 | 18 if stays => self.batch(),
            0..=6 => self.put_or_delete(),
            7..=11 => self.batch(),
            12..=13 => self.rmw(),
            14 => self.maintain(Db::flush),
            15 => self.maintain(Db::sync),
            16 => self.reopen(),
            17 => {
                let space = self.space();
                space.clear().unwrap();
                self.content.insert(space.name().to_owned(), BTreeMap::new());
                self.note(true);
            }
            18 => {
                let space = self.space();
                self.db.drop_keyspace(space.name()).unwrap();
                self.content.remove(space.name());
                drop(space);
                self.note(true);
            }
            _ => self.maintain(|db| {
                let copy = SimulatedDisk::new(1, Faults::none());
                db.checkpoint_on(copy.clone(), "copy")?;
                let copied = content(&open(&copy, 1, parts)?);
                assert_eq!(copied, content(db), "the checkpoint differs");
                Ok(())
            }),
        }
    }

    fn put_or_delete(&mut self) {
        let (durability, key) = (self.durability(), self.key());
        let space = self.space().durability(durability);
        let pairs = self.content.entry(space.name().to_owned()).or_default();
        if self.random.random_range(0..4) == 0 {
            pairs.remove(&key);
            space.delete(&key).unwrap();
        } else {
            let value = self.value();
            self.content
                .entry(space.name().to_owned())
                .or_default()
                .insert(key.clone(), value.clone());
            space.put(&key, &value).unwrap();
        }
        self.note(durability == Durability::Synced);
    }

    fn batch(&mut self) {
        let durability = self.durability();
        let mut batch = Batch::new();
        for _ in 0..self.random.random_range(1..6) {
            let (space, key, value) = (self.space(), self.key(), self.value());
            batch.put(&space, &key, &value);
        }
        if self.random.random_range(0..3) == 0 {
            let (space, one, other) = (self.space(), self.key(), self.key());
            let range = KeyRange::of(one.clone().min(other.clone())..=one.max(other));
            // The others refuse it.
            if matches!(space.options().engine, EngineKind::Memory | EngineKind::Lsm) {
                batch.delete_range(&space, &range);
            }
        }
        let (space, key) = (self.space(), self.key());
        batch.put(&space, &key, b"last").delete(&space, b"never there");
        // Only now: making a keyspace is a step of its own.
        let mut after = self.content.clone();
        apply(&batch, &mut after);
        self.db.durability(durability).write(&batch).unwrap();
        self.content = after;
        self.note(durability == Durability::Synced);
    }

    fn rmw(&mut self) {
        let (durability, key) = (self.durability(), self.key());
        let space = self.space().durability(durability);
        let grow = |old: Option<&[u8]>| [old.unwrap_or_default(), &b"+"[..]].concat();
        space.rmw(&key, |old| Change::Put(grow(old))).unwrap();
        let pairs = self.content.entry(space.name().to_owned()).or_default();
        let value = grow(pairs.get(&key).map(Vec::as_slice));
        pairs.insert(key, value);
        self.note(durability == Durability::Synced);
    }

    fn maintain(&mut self, work: impl FnOnce(&Db) -> Result<(), Error>) {
        work(&self.db).unwrap();
        let durable = self.db.sync().is_ok();
        self.note(durable);
    }

    /// Removes the own options of one keyspace, or sets them again, from the next opening on.
    fn tune(&mut self) {
        let (name, engine, settings) = self.spaces[self.random.random_range(0..self.spaces.len())];
        let Some(settings) = settings.filter(|_| self.content.contains_key(name)) else { return };
        let told = if self.random.random_ratio(1, 2) { settings } else { nothing(settings) };
        // An option that is fixed for life stays although it is not given again.
        self.db.keyspace(name, of(engine, Some(told))).unwrap();
    }

    fn reopen(&mut self) {
        self.tune();
        self.db.close().unwrap();
        let (environment, clock) = Environment::simulated(self.seed);
        self.clock = clock;
        self.db = open_in(environment, &self.disk, self.parts).unwrap();
        assert_eq!(content(&self.db), self.content, "after a clean reopening");
        self.note(true);
    }

    /// Opens an image of a power cut after `operation`, and compares.
    fn judge(&self, image: &Arc<SimulatedDisk>, operation: u64) -> Result<(), String> {
        let durable = self
            .moments
            .iter()
            .rposition(|moment| moment.durable && moment.returned_at <= operation);
        let begun = self.moments.iter().take_while(|one| one.returned_at <= operation).count();
        // Again and again: a crash in the middle of recovery must change nothing.
        let mut image = Arc::clone(image);
        for nested in 0..2 {
            let before = image.operations();
            let db = open(&image, self.seed, self.parts)
                .map_err(|e| format!("recovery {nested}: {e}"))?;
            let found = content(&db);
            let first = durable.unwrap_or(0);
            let last = (begun + 1).min(self.moments.len());
            let matches = |moment: &Returned| moment.content == found;
            let fresh = durable.is_none() && found.is_empty();
            if !fresh && !self.moments[first..last].iter().any(matches) {
                return Err(format!(
                    "recovery {nested}: the content is none of steps {first} to {last}:\n{}",
                    describe(&found)
                ));
            }
            drop(db);
            let report =
                thermocline::check_on(image.clone(), "image").map_err(|e| e.to_string())?;
            if !report.is_whole() {
                return Err(format!("the check found {:?}", report.damage));
            }
            image = image.crash(self.seed ^ before);
        }
        let db = open(&image, self.seed, self.parts).map_err(|error| error.to_string())?;
        let space = db.keyspace("after", KeyspaceOptions::default()).map_err(|e| e.to_string())?;
        space.put(b"k", b"v").map_err(|error| error.to_string())?;
        Ok(())
    }
}

fn apply(batch: &Batch, content: &mut Content) {
    for (space, step) in batch.iter() {
        let BatchStep::Write(op) = step else { panic!("nothing is merged") };
        let pairs = content.entry(space.to_owned()).or_default();
        pairs.retain(|key, _| !op.decides(key));
        if let Some(value) = op.value() {
            pairs.insert(op.key().to_vec(), value.to_vec());
        }
    }
}

fn describe(content: &Content) -> String {
    let mut text = String::new();
    for (space, pairs) in content {
        for (key, value) in pairs {
            text += &format!("{space} {} = {} bytes\n", key.escape_ascii(), value.len());
        }
    }
    text
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn every_power_cut_leaves_a_prefix_and_whole_batches() {
    for run in runs_from(1, &untuned(&IN_MEMORY), Parts::Usual, CASES, STEPS) {
        run.judge_all(&run.all_cuts());
    }
}

#[test]
fn every_power_cut_leaves_batches_over_engines_whole() {
    for run in runs(&untuned(&of_each_engine()), Parts::Usual, 1, STEPS / 2) {
        run.judge_all(&run.all_cuts());
    }
}

#[test]
fn power_cuts_beside_work_of_small_parts_leave_batches_whole() {
    let (mut count, mut crashes) = (0, 0);
    for mut run in runs(&untuned(&of_each_engine()), Parts::Small, 1, STEPS_OVER_SMALL) {
        assert_not_idle(run.seed, run.beside, &[]);
        let cuts = run.drawn_cuts(CUTS_OVER_SMALL);
        crashes += run.judge_all(&cuts);
        count += 1;
    }
    // `./dev soak` reads it.
    println!("{crashes} power cuts of {count} runs over small parts");
}

#[test]
fn power_cuts_over_engines_tuned_in_every_way_leave_batches_whole() {
    let (mut count, mut crashes) = (0, 0);
    let mut beside = [0; BESIDE.len()];
    for spaces in tuned_in_every_way() {
        for mut run in runs(&spaces, Parts::Small, 1, STEPS_OVER_TUNED) {
            beside.iter_mut().zip(run.beside).for_each(|(all, most)| *all = most.max(*all));
            let cuts = run.drawn_cuts(CUTS_OVER_TUNED);
            crashes += run.judge_all(&cuts);
            count += 1;
        }
    }
    // Each keyspace has few writes, and with the largest reserve nothing is collected.
    assert_not_idle(count, beside, &[EngineKind::HashKv]);
    // `./dev soak` reads it.
    println!("{crashes} power cuts of {count} runs over tuned engines");
}

/// Holds the usual seeds to it. One that is chosen may draw few writes to a keyspace.
fn assert_not_idle(of: u64, beside: [u64; BESIDE.len()], may_be_idle: &[EngineKind]) {
    if setting("THERMOCLINE_SEED").is_some() {
        return;
    }
    let all = BESIDE.iter().zip(beside).filter(|((engine, _), _)| !may_be_idle.contains(engine));
    let idle: Vec<_> = all.filter(|(_, most)| *most == 0).collect();
    assert!(idle.is_empty(), "{of}: there was nothing of {idle:?}");
}

fn runs(
    spaces: &Spaces,
    parts: Parts,
    cases: u64,
    steps: usize,
) -> impl Iterator<Item = Run> + use<> {
    runs_from(1, spaces, parts, cases, steps)
}

fn runs_from(
    first: u64,
    spaces: &Spaces,
    parts: Parts,
    cases: u64,
    steps: usize,
) -> impl Iterator<Item = Run> + use<> {
    let first = setting("THERMOCLINE_SEED").unwrap_or(first);
    let cases = setting("THERMOCLINE_CASES").unwrap_or(cases);
    let spaces = spaces.clone();
    (first..first + cases).map(move |seed| {
        let mut run = Run::new(seed, spaces.clone(), parts);
        for _ in 0..steps {
            run.step();
            run.note_beside();
        }
        run
    })
}

impl Run {
    /// Lets time pass for periodic work, and notes the work that was done.
    fn note_beside(&mut self) {
        if self.parts == Parts::Usual {
            return;
        }
        let pause = self.random.random_range(0..=PAUSE_MS_MAX);
        self.clock.advance(Duration::from_millis(pause));
        for keyspace in self.db.stats().keyspaces {
            for ((engine, name), most) in BESIDE.iter().zip(&mut self.beside) {
                let mut detail = keyspace.engine.detail.iter();
                let found = detail.find(|(known, _)| known == name);
                let count = found.filter(|_| keyspace.options.engine == *engine);
                *most = count.map_or(0, |(_, count)| *count).max(*most);
            }
        }
    }

    fn all_cuts(&self) -> Vec<u64> {
        (0..=self.disk.history().last_operation()).collect()
    }

    /// Some of them, in ascending order, or all if the variable says so.
    fn drawn_cuts(&mut self, otherwise: usize) -> Vec<u64> {
        let all = self.all_cuts();
        let count = match std::env::var("THERMOCLINE_CUTS") {
            Ok(text) if text == "all" => return all,
            Ok(text) => text.parse().unwrap(),
            Err(_) => otherwise,
        };
        let mut some: Vec<u64> =
            (0..count).map(|_| self.random.random_range(0..all.len() as u64)).collect();
        some.sort_unstable();
        some
    }

    /// Power cuts after these operations, in ascending order; says how many images were judged.
    fn judge_all(&self, cuts: &[u64]) -> u64 {
        let (seed, history) = (self.seed, self.disk.history());
        let mut replay = history.replay();
        for operation in cuts {
            replay.advance_to(*operation);
            for image in 0..IMAGES {
                let image_seed = seed ^ (operation << 8) ^ image;
                if let Err(what) = self.judge(&replay.crash(image_seed), *operation) {
                    panic!(
                        "seed {seed}, power cut after operation {operation}, image {image}, \
                         keyspaces {:?}: {what}\n\
                         replay: THERMOCLINE_SEED={seed} THERMOCLINE_CASES=1 \
                         cargo test -p thermocline --lib tests::crash",
                        self.spaces
                    );
                }
            }
        }
        let crashes = cuts.len() as u64 * IMAGES;
        println!("{crashes} power cuts, each followed by two more during recovery");
        assert!(crashes > 0);
        crashes
    }
}
