//! Threads that write the same few keys of all engines at the same time, in every way.
//!
//! An image of a power cut or a kill is the result of a prefix of their writes, in the order of
//! their numbers. The prefix has every write that was acknowledged as synced, and all writes before
//! these. So the journal has racing writes in the order in which the engines took them, and the
//! value that a read-modify-write saw was the value before it.
//!
//! `THERMOCLINE_SEED` chooses the writes, but not how the threads meet.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread;

use super::{ENGINES, small_parts};
use device::{Device, Faults, SimulatedDisk};
use environment::Seed;
use rand::RngExt;
use thermocline::{
    Batch, Change, Db, Durability, EngineKind, Keyspace, KeyspaceOptions, Options, SeqNo,
};

const THREADS: u64 = 4;
/// Writes of each thread, and of how many one waits for the device: threads that wait meet seldom.
const WRITES: u64 = 600;
const SYNCED: u64 = 12;
/// So few that threads meet.
const KEYS: u64 = 2;
const CUTS: u64 = 40;
/// Bytes of memory of each keyspace of an engine on disk.
const MEMORY_BYTES: u64 = 2 << 20;

/// The values that a write gives keys of keyspaces, by the places of their engines.
type Steps = Vec<(usize, Vec<u8>, Value)>;
/// None where there is nothing.
type Value = Option<Vec<u8>>;
/// The pairs of each keyspace.
type State = [BTreeMap<Vec<u8>, Vec<u8>>; ENGINES.len()];

/// A write, and how many operations the disk had done when it was acknowledged, if it was as
/// synced.
struct Written {
    seqno: SeqNo,
    steps: Steps,
    /// The value that a read-modify-write saw.
    shown: Option<Value>,
    at: Option<u64>,
}

fn open(disk: &Arc<SimulatedDisk>) -> (Db, Vec<Keyspace>) {
    let options = Options {
        background_threads: 2,
        sync_interval: None,
        durability: Durability::Buffered,
        ..Options::default()
    };
    let options = small_parts::with_small_parts(options);
    let db = Db::open_on(Arc::clone(disk) as Arc<dyn Device>, "simulated", options).unwrap();
    let space = |engine: &EngineKind| {
        let memory_bytes = (*engine != EngineKind::Memory).then_some(MEMORY_BYTES);
        let options = KeyspaceOptions { engine: *engine, memory_bytes, ..Default::default() };
        db.keyspace(engine.name(), options).unwrap()
    };
    let spaces = ENGINES.iter().map(space).collect();
    (db, spaces)
}

/// Makes a write, and returns a description of it.
fn write(db: &Db, spaces: &[Keyspace], random: &mut impl RngExt, value: &[u8]) -> Written {
    let key = random.random_range(0..KEYS).to_be_bytes().to_vec();
    let at = random.random_range(0..spaces.len());
    let (space, mut shown) = (&spaces[at], None);
    let (seqno, steps) = match random.random_range(0..8) {
        0..2 => (space.put(&key, value).unwrap(), vec![(at, key, Some(value.to_vec()))]),
        2 => (space.delete(&key).unwrap(), vec![(at, key, None)]),
        3..6 => {
            let mut made = Vec::new();
            let seqno = space.rmw(&key, |old| {
                shown = Some(old.map(<[u8]>::to_vec));
                let old = old.unwrap_or_default();
                made = [&old[..old.len().min(300)], value].concat();
                Change::Put(made.clone())
            });
            (seqno.unwrap().unwrap(), vec![(at, key, Some(made))])
        }
        _ => {
            let mut batch = Batch::new();
            let all = 0..spaces.len();
            all.clone().for_each(|at| _ = batch.put(&spaces[at], &key, value));
            let steps = all.map(|at| (at, key.clone(), Some(value.to_vec()))).collect();
            (db.write(&batch).unwrap(), steps)
        }
    };
    Written { seqno, steps, shown, at: None }
}

/// Has all threads write, and returns their writes in the order of their numbers.
fn race(disk: &SimulatedDisk, db: &Db, spaces: &[Keyspace], seed: u64) -> Vec<Written> {
    let of_thread = |thread: u64| {
        let mut random = Seed::from(seed).child(thread).stream("racing writes");
        let one = |number: u64| {
            let len = random.random_range(16..200);
            let mut value = [thread.to_be_bytes(), number.to_be_bytes()].concat();
            value.resize(len, thread as u8);
            let mut written = write(db, spaces, &mut random, &value);
            if random.random_range(0..SYNCED) == 0 {
                db.wait(written.seqno, Durability::Synced).unwrap();
                written.at = Some(disk.operations());
            }
            if number % 50 == 49 {
                spaces[random.random_range(0..spaces.len())].flush().unwrap();
            }
            written
        };
        (0..WRITES).map(one).collect::<Vec<_>>()
    };
    let mut all: Vec<Written> = thread::scope(|scope| {
        let of_thread = &of_thread;
        let threads: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || of_thread(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    all.sort_unstable_by_key(|written| written.seqno);
    assert!(all.is_sorted_by(|one, other| one.seqno < other.seqno), "a number of two writes");
    all
}

fn content(spaces: &[Keyspace]) -> State {
    std::array::from_fn(|at| {
        let mut pairs = BTreeMap::new();
        let walked = spaces[at].walk(None, |key, value| {
            pairs.insert(key.to_vec(), value.to_vec());
            ControlFlow::Continue(())
        });
        walked.unwrap();
        pairs
    })
}

fn apply(state: &mut State, steps: &Steps) {
    for (at, key, value) in steps {
        match value {
            Some(value) => _ = state[*at].insert(key.clone(), value.clone()),
            None => _ = state[*at].remove(key),
        }
    }
}

/// Compares the state after a crash, at this number of operations, with the writes before it.
fn judge(image: &Arc<SimulatedDisk>, writes: &[Written], operation: u64, place: &str) {
    let (_db, spaces) = open(image);
    let found = content(&spaces);
    let told = |written: &Written| written.at.is_some_and(|at| at <= operation);
    let least = writes.iter().rposition(told).map_or(0, |last| last + 1);
    let mut state = State::default();
    writes[..least].iter().for_each(|written| apply(&mut state, &written.steps));
    for written in &writes[least..] {
        if state == found {
            return;
        }
        apply(&mut state, &written.steps);
    }
    let behind = writes.len() - least;
    assert!(state == found, "{place}: of no prefix of {least} writes and up to {behind} more");
}

#[test]
fn what_racing_writers_leave_is_a_prefix_in_the_order_of_their_numbers() {
    let setting = std::env::var("THERMOCLINE_SEED").ok().and_then(|text| text.parse().ok());
    let seed: u64 = setting.unwrap_or(1);
    println!("THERMOCLINE_SEED={seed}");
    let disk = SimulatedDisk::new(seed, Faults::none());
    disk.keep_history();
    let (db, spaces) = open(&disk);
    let begun = disk.operations();
    let writes = race(&disk, &db, &spaces, seed);
    let mut all = State::default();
    for Written { seqno, steps, shown, .. } in &writes {
        if let ([(at, key, _)], Some(shown)) = (steps.as_slice(), shown) {
            assert_eq!(all[*at].get(key), shown.as_ref(), "what update {seqno} was shown");
        }
        apply(&mut all, steps);
    }
    assert!(
        content(&spaces) == all,
        "what is there is not what the last write of each key gave it"
    );
    let history = disk.history();
    drop((spaces, db));
    let last = writes.iter().filter_map(|written| written.at).max().unwrap();
    let mut replay = history.replay();
    for cut in 0..=CUTS {
        let operation = begun + (last - begun) * cut / CUTS;
        replay.advance_to(operation);
        let place = format!("seed {seed}, after operation {operation} of {last}");
        judge(&replay.crash(seed ^ operation), &writes, operation, &format!("{place}, cut"));
        judge(&replay.crash_losing_nothing(), &writes, operation, &format!("{place}, killed"));
    }
}
