//! Random work on a database with a keyspace of each engine, compared with obviously right maps.
//!
//! A step is four bytes: the operation, its keyspace, its key, and further arguments. Parts are
//! small, so that little work flushes, compacts and splits.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow::Continue;
use std::sync::Arc;
use std::time::Duration;

use device::Device;
use environment::{Environment, ManualClock};
use thermocline::{
    Batch, Change, Db, Direction, Durability, EngineKind, KeyRange, Keyspace, KeyspaceOptions,
    MergeName, MergeOperators, Options, Settings, Transaction, f2, flexdb, hashkv, lsm,
};

use crate::small_parts;

/// One step.
pub type Step = [u8; 4];

/// Bits of a shape; the lower ones are of the engines' journals.
const EXPIRING: u8 = 1 << 6;
const SETTINGS: u8 = 1 << 7;
const _: () = assert!(EngineKind::ALL.len() <= 6, "each engine has a bit of a shape");

const KEYS: u8 = 24;
/// Bytes above which values do not grow further.
const BYTES_MAX: usize = 6000;
/// Steps of one input that are done.
const STEPS_MAX: usize = 200;

/// Each key's value and when it ends.
type Stored = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

/// The content by keyspace: pairs that have not ended, in the order of their keys.
pub type Content = BTreeMap<String, Vec<(Vec<u8>, Vec<u8>)>>;

/// The content at some moment, by keyspace.
pub struct Kept(BTreeMap<String, Stored>);

impl Kept {
    /// Returns the pairs of it that have not ended at `now_ms`.
    pub fn living(&self, now_ms: u64) -> Content {
        let pairs = |stored: &Stored| {
            let living = stored.iter().filter(|(_, (_, end))| end.is_none_or(|end| end > now_ms));
            living.map(|(key, (value, _))| (key.clone(), value.clone())).collect()
        };
        self.0.iter().map(|(name, stored)| (name.clone(), pairs(stored))).collect()
    }
}

/// Every value that a key of a keyspace has had.
pub type Written = BTreeMap<(String, Vec<u8>), BTreeSet<Vec<u8>>>;

/// A keyspace, and its expected content.
struct Space {
    options: KeyspaceOptions,
    /// None until it is used, and after it was dropped.
    keyspace: Option<Keyspace>,
    stored: Stored,
}

/// A write of one key, or of some.
#[derive(Clone, Debug)]
enum Write {
    Put(Vec<u8>, Vec<u8>, Option<u64>),
    Delete(Vec<u8>),
    DeleteRange(Vec<u8>, Vec<u8>),
    Merge(Vec<u8>, Vec<u8>),
}

/// How several writes are made.
#[derive(Clone, Copy, Debug)]
enum Together {
    Batch,
    Transaction { commits: bool },
}

/// A database that is worked on.
pub struct Work {
    device: Arc<dyn Device>,
    options: Options,
    clock: Arc<ManualClock>,
    /// The database.
    pub db: Db,
    spaces: Vec<Space>,
    written: Written,
    /// The steps that are gathered for one write.
    gathered: Vec<(usize, Write)>,
}

fn merge_name() -> MergeName {
    "append".parse().expect("a name")
}

fn appended(value: Option<&[u8]>, operand: &[u8]) -> Vec<u8> {
    let value = value.filter(|value| value.len() < BYTES_MAX).unwrap_or_default();
    [value, operand].concat()
}

/// Returns the options of the databases that targets work on.
pub fn options(environment: Environment) -> Options {
    let merge_operators = MergeOperators::new()
        .with(merge_name(), |_, value, operand| Ok(Change::Put(appended(value, operand))));
    small_parts::with_small_parts(Options {
        environment,
        merge_operators,
        sync_interval: None,
        expiry_sweep_interval: None,
        background_threads: 1,
        durability: Durability::Buffered,
        ..Options::default()
    })
}

fn settings(engine: EngineKind) -> Option<Settings> {
    match engine {
        EngineKind::F2 => Some(f2::Options { chunk_bytes: 128, ..Default::default() }.into()),
        EngineKind::Lsm => {
            let options = lsm::Options {
                compression: vec![lsm::Compression::Zstd],
                filter: lsm::FilterKind::Ribbon,
                block_bytes: 1024,
                ..Default::default()
            };
            Some(options.into())
        }
        EngineKind::FlexDb => {
            let options =
                flexdb::Options { interval_pairs: 2, interval_bytes: 512, ..Default::default() };
            Some(options.into())
        }
        EngineKind::HashKv => {
            let options = hashkv::Options {
                separation_bytes: 100,
                reserve_percent: 100,
                disk_bytes_max: Some(64 << 20),
                ..Default::default()
            };
            Some(options.into())
        }
        EngineKind::Memory => None,
    }
}

impl Work {
    /// Returns an empty database. The lower bits of `shape` say which keyspaces have a journal, the
    /// others whether values may expire and whether engines have settings.
    pub fn new(shape: u8) -> Self {
        let (environment, clock) = Environment::simulated(u64::from(shape));
        let (options, device) = (options(environment), device::memory());
        let db = Db::open_on(Arc::clone(&device), "fuzzed", options.clone());
        let space = |(at, engine): (usize, EngineKind)| Space {
            options: KeyspaceOptions {
                engine,
                journaled: shape & (1 << at) != 0,
                memory_bytes: (engine != EngineKind::Memory).then_some(4 << 20),
                expiring: shape & EXPIRING != 0,
                merge: Some(merge_name()),
                settings: settings(engine).filter(|_| shape & SETTINGS != 0),
            },
            keyspace: None,
            stored: Stored::new(),
        };
        let spaces = EngineKind::ALL.iter().copied().enumerate().map(space).collect();
        let db = db.expect("an empty device");
        let (written, gathered) = Default::default();
        Self { device, options, clock, db, spaces, written, gathered }
    }

    /// Does some steps, and compares.
    ///
    /// # Panics
    /// If the database shows anything else than it should.
    pub fn go(&mut self, steps: &[Step]) {
        for step in steps.iter().take(STEPS_MAX) {
            self.step(*step);
        }
        self.write_together(Together::Batch);
        self.compare();
    }

    fn step(&mut self, [what, space, key, more]: Step) {
        let at = usize::from(space) % self.spaces.len();
        let key = vec![b'k', key % KEYS];
        match what % 24 {
            0..10 => self.write(at, key, what, more),
            10 => self.write_together(Together::Batch),
            11 => self.write_together(Together::Transaction { commits: true }),
            12 => self.write_together(Together::Transaction { commits: more % 4 > 0 }),
            13 => self.update(at, &key, more),
            14 => self.end(at, &key, more),
            15 => self.delete_range_where_refused(at, key),
            16 => self.keyspace(at).flush().expect("a memory device does not fail"),
            17 => self.db.flush().expect("a memory device does not fail"),
            18 => self.reopen(),
            19 => {
                self.keyspace(at).clear().expect("a memory device does not fail");
                self.spaces[at].stored.clear();
            }
            20 => self.drop_keyspace(at),
            21 => self.remove_expired(at),
            22 => self.compare(),
            _ => self.clock.advance(Duration::from_millis(u64::from(more))),
        }
    }

    /// Returns the keyspace of an engine, which is made if there is none.
    fn keyspace(&mut self, at: usize) -> Keyspace {
        let Space { options, keyspace, .. } = &mut self.spaces[at];
        let make = || self.db.keyspace(options.engine.name(), *options).expect("there is room");
        keyspace.get_or_insert_with(make).clone()
    }

    /// One write, alone or to be made together with others.
    fn write(&mut self, at: usize, key: Vec<u8>, what: u8, more: u8) {
        let write = match what % 24 {
            0..4 => {
                let ends = self.spaces[at].options.expiring && what % 24 == 3;
                let expiry_ms = ends.then(|| self.db.now_ms() + u64::from(more % 64));
                Write::Put(key, value(more), expiry_ms)
            }
            4 => Write::Delete(key),
            5 if self.deletes_ranges(at) => {
                let end = vec![b'k', key[1] + 1 + more % 8];
                Write::DeleteRange(key, end)
            }
            _ => Write::Merge(key, value(more)),
        };
        if what & 0x80 != 0 {
            self.gathered.push((at, write));
            return;
        }
        let keyspace = self.keyspace(at);
        let done = match &write {
            Write::Put(key, value, None) => keyspace.put(key, value).map(drop),
            Write::Put(key, value, Some(end)) => {
                keyspace.expiring().put(key, value, *end).map(drop)
            }
            Write::Delete(key) => keyspace.delete(key).map(drop),
            Write::DeleteRange(start, end) => {
                keyspace.delete_range(&KeyRange::of(start.clone()..end.clone())).map(drop)
            }
            Write::Merge(key, operand) => keyspace.merge(key, operand).map(drop),
        };
        done.expect("a memory device does not fail");
        self.note(at, &write);
        self.compare_one(at, key_of(&write));
    }

    fn deletes_ranges(&self, at: usize) -> bool {
        self.spaces[at].options.engine.driver().capabilities.deletes_ranges
    }

    /// Makes the gathered steps as one write.
    fn write_together(&mut self, together: Together) {
        let gathered = std::mem::take(&mut self.gathered);
        let keyspaces: Vec<_> = gathered.iter().map(|(at, _)| self.keyspace(*at)).collect();
        let steps = || keyspaces.iter().zip(gathered.iter().map(|(_, write)| write));
        let commits = match together {
            Together::Batch => {
                let mut batch = Batch::new();
                steps().for_each(|(keyspace, write)| add_to_batch(&mut batch, keyspace, write));
                self.db.write(&batch).expect("a memory device does not fail");
                true
            }
            Together::Transaction { commits } => {
                let transaction = self.db.begin().expect("the database is open");
                for (keyspace, write) in steps() {
                    add_to_transaction(&transaction, keyspace, write);
                    // It has read it then.
                    let _ = transaction.get(keyspace, key_of(write)).expect("it is there or not");
                }
                match commits {
                    true => drop(transaction.commit().expect("nobody writes beside it")),
                    false => transaction.rollback(),
                }
                commits
            }
        };
        if commits {
            gathered.iter().for_each(|(at, write)| self.note(*at, write));
        }
    }

    fn update(&mut self, at: usize, key: &[u8], more: u8) {
        let operand = value(more);
        let had = self.living(at, key);
        let keyspace = self.keyspace(at);
        let changes = |old: Option<&[u8]>| match more % 5 {
            0 => Change::Delete,
            1 => Change::Keep,
            _ => Change::Put(appended(old, &operand)),
        };
        let mut seen = None;
        let done = keyspace.rmw(key, |old| {
            seen = old.map(<[u8]>::to_vec);
            changes(old)
        });
        done.expect("a memory device does not fail");
        assert_eq!(
            seen,
            had.as_ref().map(|(value, _)| value.clone()),
            "an update sees another value"
        );
        match changes(seen.as_deref()) {
            Change::Put(value) => {
                let expiry_ms = had.and_then(|(_, expiry_ms)| expiry_ms);
                self.note(at, &Write::Put(key.to_vec(), value, expiry_ms));
            }
            Change::Delete if had.is_some() => self.note(at, &Write::Delete(key.to_vec())),
            Change::Delete | Change::Keep => {}
        }
    }

    /// Gives a value an end, or takes it away.
    fn end(&mut self, at: usize, key: &[u8], more: u8) {
        if !self.spaces[at].options.expiring {
            return;
        }
        let (keyspace, had) = (self.keyspace(at), self.living(at, key));
        let expiry_ms = (more % 3 > 0).then(|| self.db.now_ms() + u64::from(more));
        match expiry_ms {
            Some(expiry_ms) => {
                assert_eq!(keyspace.expiring().expire_at(key, expiry_ms), Ok(had.is_some()));
            }
            None => {
                let had_end = had.as_ref().is_some_and(|(_, expiry_ms)| expiry_ms.is_some());
                assert_eq!(keyspace.expiring().persist(key), Ok(had_end));
            }
        }
        if let Some((value, _)) = had {
            self.note(at, &Write::Put(key.to_vec(), value, expiry_ms));
        }
    }

    /// The others say that they cannot, and nothing has changed.
    fn delete_range_where_refused(&mut self, at: usize, key: Vec<u8>) {
        if !self.deletes_ranges(at) {
            let range = KeyRange::of(key..);
            assert!(self.keyspace(at).delete_range(&range).is_err(), "a range is deleted");
        }
    }

    fn drop_keyspace(&mut self, at: usize) {
        let Space { options, keyspace, stored } = &mut self.spaces[at];
        let Some(dropped) = keyspace.take() else { return };
        self.db.drop_keyspace(options.engine.name()).expect("it is there");
        stored.clear();
        assert!(dropped.get(b"k").is_err(), "a dropped keyspace is read");
    }

    fn remove_expired(&mut self, at: usize) {
        if !self.spaces[at].options.expiring {
            return;
        }
        let (keyspace, now_ms) = (self.keyspace(at), self.db.now_ms());
        let stored = &mut self.spaces[at].stored;
        let before = stored.len();
        stored.retain(|_, (_, expiry_ms)| expiry_ms.is_none_or(|expiry_ms| expiry_ms > now_ms));
        let removed = (before - stored.len()) as u64;
        assert_eq!(keyspace.expiring().remove_expired(), Ok(removed));
    }

    /// Closes the database and opens it again.
    pub fn reopen(&mut self) {
        self.db.close().expect("a memory device does not fail");
        let device = Arc::clone(&self.device);
        self.db = Db::open_on(device, "fuzzed", self.options.clone()).expect("it was closed");
        for Space { options, keyspace, .. } in &mut self.spaces {
            if keyspace.is_some() {
                let opened = self.db.existing_keyspace(options.engine.name());
                let opened = opened.expect("it was there");
                assert_eq!(opened.options(), *options, "another keyspace is there");
                *keyspace = Some(opened);
            }
        }
        self.compare();
    }

    /// Applies a write to the expected content.
    fn note(&mut self, at: usize, write: &Write) {
        let now_ms = self.db.now_ms();
        let old = self.living(at, key_of(write));
        let Space { options, stored, .. } = &mut self.spaces[at];
        let mut put = |key: &[u8], value: Vec<u8>, expiry_ms: Option<u64>| {
            let place = (options.engine.name().to_owned(), key.to_vec());
            self.written.entry(place).or_default().insert(value.clone());
            match expiry_ms {
                Some(expiry_ms) if expiry_ms <= now_ms => drop(stored.remove(key)),
                expiry_ms => drop(stored.insert(key.to_vec(), (value, expiry_ms))),
            }
        };
        match write {
            Write::Put(key, value, expiry_ms) => put(key, value.clone(), *expiry_ms),
            Write::Merge(key, operand) => {
                let made = appended(old.as_ref().map(|(value, _)| value.as_slice()), operand);
                put(key, made, old.and_then(|(_, expiry_ms)| expiry_ms));
            }
            Write::Delete(key) => drop(stored.remove(key)),
            Write::DeleteRange(start, end) => stored.retain(|key, _| key < start || key >= end),
        }
    }

    fn living(&self, at: usize, key: &[u8]) -> Option<(Vec<u8>, Option<u64>)> {
        let now_ms = self.db.now_ms();
        let stored = self.spaces[at].stored.get(key);
        stored.filter(|(_, expiry_ms)| expiry_ms.is_none_or(|expiry_ms| expiry_ms > now_ms)).cloned()
    }

    fn compare_one(&mut self, at: usize, key: &[u8]) {
        let expected = self.living(at, key).map(|(value, _)| value);
        let found = self.keyspace(at).get(key).expect("a memory device does not fail");
        assert_eq!(found, expected, "{} has another value", self.spaces[at].options.engine);
    }

    /// Returns the expected content from now on, without further writes.
    pub fn kept(&self) -> Kept {
        let present = self.spaces.iter().filter(|space| space.keyspace.is_some());
        let of = |space: &Space| (space.options.engine.name().to_owned(), space.stored.clone());
        Kept(present.map(of).collect())
    }

    fn compare(&self) {
        let expected = self.kept().living(self.db.now_ms());
        assert_eq!(content(&self.db), Ok(expected), "there is something else");
    }

    /// Closes it. Returns its device, the options of its opening, and every value that was ever
    /// written.
    pub fn close(self) -> (Arc<dyn Device>, Options, Written) {
        self.db.close().expect("a memory device does not fail");
        (self.device, self.options, self.written)
    }
}

fn value(more: u8) -> Vec<u8> {
    let len = [0, 1, 9, 70, 300, 1800][usize::from(more) % 6];
    (0..len).map(|at: usize| more ^ (at / 3) as u8).collect()
}

fn key_of(write: &Write) -> &[u8] {
    match write {
        Write::Put(key, ..)
        | Write::Delete(key)
        | Write::DeleteRange(key, _)
        | Write::Merge(key, _) => key,
    }
}

fn add_to_batch(batch: &mut Batch, keyspace: &Keyspace, write: &Write) {
    match write {
        Write::Put(key, value, None) => batch.put(keyspace, key, value),
        Write::Put(key, value, Some(expiry_ms)) => {
            batch.put_with_expiry(keyspace, key, value, *expiry_ms)
        }
        Write::Delete(key) => batch.delete(keyspace, key),
        Write::DeleteRange(start, end) => {
            batch.delete_range(keyspace, &KeyRange::of(start.clone()..end.clone()))
        }
        Write::Merge(key, operand) => batch.merge(keyspace, key, operand),
    };
}

fn add_to_transaction(transaction: &Transaction, keyspace: &Keyspace, write: &Write) {
    let added = match write {
        Write::Put(key, value, None) => transaction.put(keyspace, key, value),
        Write::Put(key, value, Some(expiry_ms)) => {
            transaction.put_with_expiry(keyspace, key, value, *expiry_ms)
        }
        Write::Delete(key) => transaction.delete(keyspace, key),
        Write::DeleteRange(start, end) => {
            transaction.delete_range(keyspace, &KeyRange::of(start.clone()..end.clone()))
        }
        Write::Merge(key, operand) => transaction.merge(keyspace, key, operand),
    };
    added.expect("there is room");
}

/// Returns the content that a database shows: by a walk, and by a scan from the end if there is an
/// order.
///
/// # Errors
/// The failure that it reports for damage.
pub fn content(db: &Db) -> Result<Content, thermocline::Error> {
    db.keyspaces()
        .iter()
        .map(|keyspace| Ok((keyspace.name().to_owned(), pairs(keyspace)?)))
        .collect()
}

fn pairs(keyspace: &Keyspace) -> Result<Vec<(Vec<u8>, Vec<u8>)>, thermocline::Error> {
    let mut pairs = Vec::new();
    keyspace.walk(None, &mut |key: &[u8], value: &[u8]| {
        pairs.push((key.to_vec(), value.to_vec()));
        Continue(())
    })?;
    if keyspace.is_ordered() {
        let scan = keyspace.scan_in(KeyRange::all(), Direction::Backward)?;
        let mut backward = scan.collect::<Result<Vec<_>, _>>()?;
        backward.reverse();
        assert_eq!(backward, pairs, "a scan shows something else than a walk");
    }
    pairs.sort();
    assert!(pairs.windows(2).all(|two| two[0].0 != two[1].0), "a key is told twice");
    Ok(pairs)
}
