//! Compactions as values: the same entries in fewer tables, on any thread and in another process.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use codec::{Reader, SeqNo, Writer};
use device::Device;
use engine::Error;

use crate::cache::{NoCache, PieceCache};
use crate::compaction::{
    CHECK_EVERY, Compacted, CompactionContext, CompactionJob, Control, OVERLAP_TABLES_MAX, Pins,
};
use crate::entry::{EntryCursor, Target};
use crate::merge::Merged;
use crate::plan::compaction::{Job, plan};
use crate::shape::Shape;
use crate::table::{
    LocalTables, Reading, Summary, Table, TableId, TableOptions, TableSink, TableSource, TableStore,
};
use crate::testing::{Versioned, Yard, forward, in_order};
use crate::version::{Change, LEVELS, Version};

const SHAPE: Shape = Shape {
    level0_tables: 2,
    level0_tables_slow: 36,
    level1_bytes: 10_000,
    level_ratio: 10,
    block_bytes: 200,
};

/// Every snapshot that is taken later is at or above this.
const HORIZON: SeqNo = SeqNo::new(1000);

/// Returns versions of some of 100 keys, of this range of numbers.
fn entries(numbers: std::ops::Range<u64>) -> Vec<Versioned> {
    let version = |number: u64| {
        let key = format!("key{:03}", codec::hash64(1, &number.to_le_bytes()) % 100);
        let value = (!number.is_multiple_of(5)).then(|| vec![number as u8; 40]);
        (key.into_bytes(), number, value)
    };
    in_order(numbers.map(version).collect())
}

/// Returns a version of three tables of Level 0.
fn version(yard: &Yard) -> Version {
    let tables = [(1, 1..200), (2, 200..400), (3, 400..600)];
    let built = tables.into_iter().map(|(number, range)| (0, yard.build(number, &entries(range))));
    Version::default().after(&Change { removed: Vec::new(), added: built.collect() })
}

/// Returns the only job that is planned.
fn planned(version: &Version) -> Job {
    let mut jobs = plan(version, &SHAPE, 1, &[], 4);
    assert_eq!(jobs.len(), 1, "the tables overlap");
    jobs.remove(0)
}

fn compaction(yard: &Yard, version: &Version, pins: Pins) -> CompactionJob {
    let options = TableOptions { table_bytes: 600, ..yard.options.clone() };
    CompactionJob::new(&planned(version), version, pins, options, 1 << 16)
}

/// Runs a compaction whose tables have the numbers from 10 on.
fn run(
    yard: &Yard,
    compaction: &CompactionJob,
    control: &mut dyn FnMut() -> engine::Result<Control>,
) -> engine::Result<Compacted> {
    let mut number = 9;
    compaction.run(CompactionContext {
        tables: &*yard.store,
        budget: &yard.budget,
        next_id: &mut || {
            number += 1;
            TableId { number, nonce: 3 }
        },
        control,
    })
}

fn done(ended: engine::Result<Compacted>) -> Vec<Summary> {
    match ended.expect("memory takes it") {
        Compacted::Done { tables } => tables,
        Compacted::Yielded { .. } => panic!("it yielded"),
    }
}

/// Returns all entries of some tables.
fn all(yard: &Yard, summaries: &[Summary]) -> Vec<Versioned> {
    let cursor = |summary: &Summary| -> Box<dyn EntryCursor> {
        let table = Table::open(summary.clone(), &yard.store, &yard.cache);
        let table = table.expect("it was written");
        Box::new(crate::table::TableCursor::new(table, Reading::Cached { level: 1 }))
    };
    let mut merged = Merged::new(summaries.iter().map(cursor).collect());
    forward(&mut merged, Target::START)
}

/// Returns the versions that are to be kept: the newest value of each key, and what snapshots show.
fn expected(pins: &[u64]) -> Vec<Versioned> {
    let mut kept = BTreeMap::new();
    let mut newer: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    for (key, number, value) in entries(1..600) {
        let successor = newer.insert(key.clone(), number);
        let is_seen = |successor| pins.iter().any(|pin| (number..successor).contains(pin));
        if successor.is_none_or(is_seen) {
            kept.insert((key, std::cmp::Reverse(number)), value);
        }
    }
    // The oldest version of a key goes if it is a tombstone: there is nothing that it hides.
    let kept: Vec<_> = kept.into_iter().collect();
    let is_oldest = |at: usize| kept.get(at + 1).is_none_or(|((next, _), _)| *next != kept[at].0.0);
    let stays = |at: &usize| kept[*at].1.is_some() || !is_oldest(*at);
    let version = |at: usize| {
        let ((key, number), value) = &kept[at];
        (key.clone(), number.0, value.clone())
    };
    (0..kept.len()).filter(stays).map(version).collect()
}

#[test]
fn a_compaction_keeps_the_newest_versions_in_tables_of_its_size() {
    let yard = Yard::new();
    let version = version(&yard);
    let compaction = compaction(&yard, &version, Pins::new(Vec::new(), HORIZON));
    let tables = done(run(&yard, &compaction, &mut || Ok(Control::GoOn)));
    assert!(tables.len() > 1, "a table has 3000 bytes");
    assert_eq!(all(&yard, &tables), expected(&[]));
    assert_eq!(yard.store.list().expect("memory lists").len(), 3 + tables.len());
    for (one, next) in tables.iter().zip(tables.iter().skip(1)) {
        assert!(one.properties.largest < next.properties.smallest, "V2");
    }
    let properties = || tables.iter().map(|table| &table.properties);
    assert!(properties().all(|one| (one.first_memtable, one.last_memtable) == (1, 3)));
}

#[test]
fn a_snapshot_keeps_its_versions() {
    let yard = Yard::new();
    let version = version(&yard);
    let pins = [150, 333, 334, 599];
    let numbers = pins.into_iter().rev().map(SeqNo::new).collect();
    let compaction = compaction(&yard, &version, Pins::new(numbers, HORIZON));
    let tables = done(run(&yard, &compaction, &mut || Ok(Control::GoOn)));
    assert_eq!(all(&yard, &tables), expected(&pins));
}

/// A later snapshot may be anywhere above the horizon.
#[test]
fn versions_above_the_horizon_stay() {
    let yard = Yard::new();
    let version = version(&yard);
    let compaction = compaction(&yard, &version, Pins::new(Vec::new(), SeqNo::new(400)));
    let tables = done(run(&yard, &compaction, &mut || Ok(Control::GoOn)));
    let found = all(&yard, &tables);
    let newest: Vec<_> =
        entries(401..600).into_iter().filter(|(_, _, value)| value.is_some()).collect();
    assert!(newest.iter().all(|one| found.contains(one)), "each of them may be shown");
    assert!(found.len() < entries(1..600).len(), "older ones go");
}

#[test]
fn pins_are_between_an_older_version_and_its_successor() {
    let pins = Pins::new([7, 3].map(SeqNo::new).to_vec(), SeqNo::new(9));
    let between = |older, newer| pins.are_between(SeqNo::new(older), SeqNo::new(newer));
    let seen = [(1, 4), (3, 4), (4, 8), (7, 8), (8, 10), (1, 100)];
    assert!(seen.into_iter().all(|(older, newer)| between(older, newer)));
    let unseen = [(1, 3), (4, 7), (8, 9), (4, 4), (9, 5)];
    assert!(!unseen.into_iter().any(|(older, newer)| between(older, newer)));
}

/// The way in which a compaction is made to end early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It yields at the second call of `control`.
    Yields,
    /// The second call of `control` fails.
    ControlFails,
    /// The second new table cannot be created.
    CreateFails,
    /// The second new table cannot be written.
    AppendFails,
    /// The second new table cannot be finished.
    FinishFails,
    /// The names of the new tables cannot be made durable.
    NamesFail,
}

/// A place for tables whose operations on the second table fail.
#[derive(Debug)]
struct Failing {
    inner: Arc<dyn TableStore>,
    end: End,
    created: AtomicU64,
}

/// A table of it.
struct FailingSink {
    inner: Box<dyn TableSink>,
    end: Option<End>,
}

fn failed() -> Error {
    device::Error::Unavailable { name: "table".to_owned() }.into()
}

impl TableStore for Failing {
    fn fragments_max(&self) -> u32 {
        self.inner.fragments_max()
    }

    fn create(&self, id: TableId, buffer_bytes: usize) -> engine::Result<Box<dyn TableSink>> {
        let is_second = self.created.fetch_add(1, Relaxed) == 1;
        if is_second && self.end == End::CreateFails {
            return Err(failed());
        }
        let inner = self.inner.create(id, buffer_bytes)?;
        Ok(Box::new(FailingSink { inner, end: is_second.then_some(self.end) }))
    }

    fn open(&self, summary: &Summary) -> engine::Result<Arc<dyn TableSource>> {
        self.inner.open(summary)
    }

    fn remove(&self, number: u64) -> engine::Result<()> {
        self.inner.remove(number)
    }

    fn close(&self) {
        self.inner.close();
    }

    fn list(&self) -> engine::Result<Vec<u64>> {
        self.inner.list()
    }

    fn sync_names(&self) -> engine::Result<()> {
        if self.end == End::NamesFail { Err(failed()) } else { self.inner.sync_names() }
    }
}

impl TableSink for FailingSink {
    fn append(&mut self, fragment: u32, bytes: &[u8]) -> engine::Result<()> {
        if self.end == Some(End::AppendFails) {
            return Err(failed());
        }
        self.inner.append(fragment, bytes)
    }

    fn finish(self: Box<Self>, metadata: &[u8]) -> engine::Result<u64> {
        if self.end == Some(End::FinishFails) {
            return Err(failed());
        }
        self.inner.finish(metadata)
    }

    fn memory(&self) -> usize {
        self.inner.memory()
    }
}

/// However it ends, its tables are removed, the finished ones too.
#[test]
fn a_compaction_that_ends_early_leaves_no_table() {
    use End::{AppendFails, ControlFails, CreateFails, FinishFails, NamesFail, Yields};
    for end in [Yields, ControlFails, CreateFails, AppendFails, FinishFails, NamesFail] {
        let yard = Yard::new();
        let many: Vec<Versioned> = (0..2 * CHECK_EVERY)
            .map(|number| (format!("key{number:05}").into_bytes(), number + 1, Some(vec![7; 40])))
            .collect();
        let added = vec![(0, yard.build(1, &many)), (0, yard.build(2, &many))];
        let version = Version::default().after(&Change { removed: Vec::new(), added });
        let pins = Pins::new(Vec::new(), SeqNo::new(2 * CHECK_EVERY));
        let compaction = compaction(&yard, &version, pins);
        let inner = Arc::clone(&yard.store);
        let store = Arc::new(Failing { inner, end, created: AtomicU64::new(0) });
        let (mut calls, mut number) = (0, 9);
        let ended = compaction.run(CompactionContext {
            tables: &*store,
            budget: &yard.budget,
            next_id: &mut || {
                number += 1;
                TableId { number, nonce: 3 }
            },
            control: &mut || {
                calls += 1;
                match end {
                    Yields if calls == 2 => Ok(Control::Yield),
                    ControlFails if calls == 2 => Err(Error::Closed),
                    _ => Ok(Control::GoOn),
                }
            },
        });
        match ended {
            Ok(Compacted::Yielded { written }) => assert!(end == Yields && written > 0),
            Err(Error::Closed) => assert_eq!(end, ControlFails),
            Err(error) => assert!(end != Yields && error == failed(), "{end:?}: {error}"),
            Ok(Compacted::Done { .. }) => panic!("it was to end early: {end:?}"),
        }
        assert!(store.created.load(Relaxed) >= 2, "{end:?}: a table was finished");
        assert_eq!(yard.store.list().expect("memory lists").len(), 2, "{end:?}");
        assert_eq!(yard.budget.used(), 0, "{end:?}: no memory is charged");
    }
}

/// Returns a version with these keys in one table of Level 0, as tombstones, and with tables of
/// Level 2 that have values of the keys "b" to "d" and "m" to "p".
fn tombstones_over_level2(yard: &Yard, keys: &[&str]) -> Version {
    let tombstone = |key: &&str| (key.as_bytes().to_vec(), 9, None);
    let level0 = yard.build(3, &keys.iter().map(tombstone).collect::<Vec<_>>());
    let added = vec![
        (0, level0),
        (2, yard.of_keys(1, &["b", "c", "d"])),
        (2, yard.of_keys(2, &["m", "n", "p"])),
    ];
    Version::default().after(&Change { removed: Vec::new(), added })
}

/// A tombstone stays if its key is within the bounds of a table below, the bounds included.
#[test]
fn a_tombstone_stays_above_an_older_version() {
    let yard = Yard::new();
    let keys = ["a", "b", "c", "d", "dd", "l", "m", "p", "pp", "z"];
    let version = tombstones_over_level2(&yard, &keys);
    let options = yard.options.clone();
    let jobs = Job::new(&version, 0, version.level(0).to_vec());
    let pins = Pins::new(Vec::new(), HORIZON);
    let compaction = CompactionJob::new(&jobs, &version, pins, options, 1 << 16);
    let tables = done(run(&yard, &compaction, &mut || Ok(Control::GoOn)));
    let kept: Vec<Vec<u8>> = all(&yard, &tables).into_iter().map(|(key, ..)| key).collect();
    let expected = ["b", "c", "d", "m", "p"].map(|key| key.as_bytes().to_vec());
    assert_eq!(kept, expected, "the others have no older version");
}

/// A table ends when it overlaps with [`OVERLAP_TABLES_MAX`] tables' bytes of the level below its
/// own, and not before.
#[test]
fn a_table_overlaps_with_few_tables_of_the_next_level() {
    let yard = Yard::new();
    let name = |number: u64| format!("key{number:05}").into_bytes();
    let below = |number: u64| {
        let entries: Vec<_> =
            (0..10).map(|at| (name(number * 10 + at), 1, Some(vec![9; 50]))).collect();
        (2, yard.build(10 + number, &entries))
    };
    let sparse: Vec<_> = (0..100).map(|number| (name(number * 10), 5, Some(vec![1]))).collect();
    let mut added: Vec<_> = (0..100).map(below).collect();
    added.push((0, yard.build(1, &sparse)));
    let version = Version::default().after(&Change { removed: Vec::new(), added });
    let job = Job::new(&version, 0, version.level(0).to_vec());
    let table_bytes = 600;
    let options = TableOptions { table_bytes, ..yard.options.clone() };
    let pins = Pins::new(Vec::new(), HORIZON);
    let compaction = CompactionJob::new(&job, &version, pins, options, 1 << 16);
    let mut number = 1000;
    let compacted = compaction.run(CompactionContext {
        tables: &*yard.store,
        budget: &yard.budget,
        next_id: &mut || {
            number += 1;
            TableId { number, nonce: 3 }
        },
        control: &mut || Ok(Control::GoOn),
    });
    let tables = done(compacted);
    assert!(tables.len() > 2, "they overlap with a lot: {}", tables.len());
    for table in &tables {
        let Summary { properties, .. } = table;
        let overlapping = version.overlapping(2, &properties.smallest, &properties.largest);
        let bytes: u64 = overlapping.iter().map(|table| table.summary().stored_bytes).sum();
        let last = overlapping.last().map_or(0, |table| table.summary().stored_bytes);
        // The last one is noticed with the first key behind it.
        assert!(bytes <= OVERLAP_TABLES_MAX * table_bytes + 2 * last, "{bytes}");
    }
}

/// The directory of the tables, for the second process.
const DIR: &str = "THERMOCLINE_LSM_TREE_DIR";
/// A file in it with the summaries of the inputs, or of the outputs.
const INPUTS: &str = "inputs";
const OUTPUTS: &str = "outputs";

fn write_summaries(dir: &Path, name: &str, summaries: &[Summary]) {
    let mut bytes = Vec::new();
    let mut out = Writer::new(&mut bytes);
    out.put_varint(summaries.len() as u64);
    summaries.iter().for_each(|summary| summary.encode(&mut out));
    let device = device::open(dir, device::Options::default()).expect("it is a directory");
    let file = device.open(name, device::Mode::CreateNew).expect("it is new");
    file.write_at(0, &bytes).expect("it is written");
}

fn read_summaries(dir: &Path, name: &str) -> Vec<Summary> {
    let device = device::open(dir, device::Options::default()).expect("it is a directory");
    let file = device.open(name, device::Mode::Read).expect("it is there");
    let mut bytes = vec![0; file.len().expect("it has a length") as usize];
    file.read_at(0, &mut bytes).expect("it is read");
    let mut reader = Reader::new(&bytes);
    let count = reader.take_count(1).expect("whole");
    (0..count).map(|_| Summary::decode(&mut reader).expect("whole")).collect()
}

fn yard_in(dir: &Path) -> Yard {
    let device: Arc<dyn Device> =
        device::open(dir, device::Options::default()).expect("it is a directory");
    Yard::of(LocalTables::on(device))
}

/// A second process compacts the tables that the first one has written. It has no store, and knows
/// only which tables there are.
#[test]
fn a_compaction_runs_in_a_second_process_over_the_same_tables() {
    if let Some(dir) = std::env::var_os(DIR) {
        return compact_in(Path::new(&dir));
    }
    let dir = tempfile::tempdir().expect("the system has room");
    let yard = yard_in(dir.path());
    let version = version(&yard);
    let inputs: Vec<Summary> =
        version.level(0).iter().map(|table| table.summary().clone()).collect();
    write_summaries(dir.path(), INPUTS, &inputs);
    let name = "tests::compaction::a_compaction_runs_in_a_second_process_over_the_same_tables";
    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new(program).args([name, "--exact"]).env(DIR, dir.path()).output();
    assert!(output.expect("it is started").status.success());
    let outputs = read_summaries(dir.path(), OUTPUTS);
    assert!(outputs.len() > 1 && outputs.iter().all(|table| table.id.number >= 10));
    assert_eq!(all(&yard, &outputs), expected(&[]));
}

fn compact_in(dir: &Path) {
    let yard = yard_in(dir);
    let cache = NoCache::new(&yard.budget) as Arc<dyn PieceCache>;
    let open = |summary: Summary| {
        (0, Table::open(summary, &yard.store, &cache).expect("the first process wrote it"))
    };
    let added = read_summaries(dir, INPUTS).into_iter().map(open).collect();
    let version = Version::default().after(&Change { removed: Vec::new(), added });
    assert!((1..LEVELS).all(|level| version.level(level).is_empty()));
    let compaction = compaction(&yard, &version, Pins::new(Vec::new(), HORIZON));
    let tables = done(run(&yard, &compaction, &mut || Ok(Control::GoOn)));
    write_summaries(dir, OUTPUTS, &tables);
}
