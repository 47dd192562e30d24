//! Power cuts at moments of a run of futures that wait for the device's sync.
//!
//! An image has a prefix of the writes in the order of their numbers, with all that were
//! acknowledged before the cut.
//!
//! `THERMOCLINE_SEED` chooses the run, up to what its threads do.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use device::{Device, Faults, SimulatedDisk};
use futures::StreamExt;
use futures::executor::block_on;
use futures::stream::FuturesUnordered;
use rand::RngExt;
use thermocline::{
    Batch, Db, Durability, EngineKind, Environment, Keyspace, Options, Result, SeqNo,
};

use super::{add_one, key, open_on, options, read, value};

const COUNTERS: u64 = 1_500;
const WRITES: usize = 900;
const UNDER_WAY: usize = 24;
const CUTS: u64 = 16;

/// A kind of write: a counter is incremented, or a key of its own is put, or such a key in each of
/// two places.
#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    Counted(u64),
    Put(u64),
    PutBoth(u64),
}

/// The other place of a key that a batch puts.
fn twin(at: u64) -> Vec<u8> {
    key(COUNTERS + WRITES as u64 + at)
}

struct Acknowledged {
    seqno: SeqNo,
    what: What,
    /// The number of operations that the disk had done then.
    at: u64,
}

fn simulated(seed: u64) -> Options {
    let (environment, _clock) = Environment::simulated(seed);
    Options { environment, background_threads: 1, ..options() }
}

type Written<'a> = Pin<Box<dyn Future<Output = (What, Result<SeqNo>)> + Send + 'a>>;

fn begin<'a>(db: &'a Db, space: &'a Keyspace, what: What) -> Written<'a> {
    Box::pin(async move {
        let seqno = match what {
            What::Counted(at) => {
                space.futures().rmw(&key(at), add_one).await.map(|seqno| seqno.unwrap())
            }
            What::Put(at) => space.futures().put(&key(COUNTERS + at), &value(at)).await,
            What::PutBoth(at) => {
                let mut batch = Batch::new();
                batch.put(space, &key(COUNTERS + at), &value(at)).put(space, &twin(at), &value(at));
                db.write_async(batch).await
            }
        };
        (what, seqno)
    })
}

/// Writes with many futures at work, and returns them in the order of their numbers.
fn run(disk: &SimulatedDisk, db: &Db, space: &Keyspace, seed: u64) -> Vec<Acknowledged> {
    let mut random = Environment::seeded(seed).random("async crash run");
    let (mut under_way, mut acknowledged) = (FuturesUnordered::new(), Vec::new());
    let mut begun = 0;
    while acknowledged.len() < WRITES {
        while begun < WRITES && under_way.len() < UNDER_WAY {
            let what = match begun % 4 {
                0 => What::Put(begun as u64),
                1 => What::PutBoth(begun as u64),
                _ => What::Counted(random.random_range(0..COUNTERS)),
            };
            under_way.push(begin(db, space, what));
            begun += 1;
        }
        let (what, seqno) = block_on(under_way.next()).unwrap();
        acknowledged.push(Acknowledged { seqno: seqno.unwrap(), what, at: disk.operations() });
    }
    acknowledged.sort_unstable_by_key(|one| one.seqno);
    acknowledged
}

/// The counters, and which of the keys are there.
fn state(space: &Keyspace) -> (Vec<u64>, Vec<bool>) {
    let counters = (0..COUNTERS).map(|at| read(space, at)).collect();
    let is_there = |at| {
        let is_there = space.get(&key(COUNTERS + at)).unwrap().is_some();
        let has_twin = space.get(&twin(at)).unwrap().is_some();
        assert_eq!(has_twin, is_there && at % 4 == 1, "a half of batch {at}");
        is_there
    };
    (counters, (0..WRITES as u64).map(is_there).collect())
}

fn expected(writes: &[Acknowledged]) -> (Vec<u64>, Vec<bool>) {
    let (mut counters, mut puts) = (vec![0; COUNTERS as usize], vec![false; WRITES]);
    for write in writes {
        match write.what {
            What::Counted(at) => counters[at as usize] += 1,
            What::Put(at) | What::PutBoth(at) => puts[at as usize] = true,
        }
    }
    (counters, puts)
}

fn crash(seed: u64, engine: EngineKind) {
    let disk = SimulatedDisk::new(seed, Faults::none());
    disk.keep_history();
    let on = Arc::clone(&disk) as Arc<dyn Device>;
    let (db, space) = open_on(&on, simulated(seed), engine, true);
    for at in 0..COUNTERS {
        space.put(&key(at), &value(0)).unwrap();
    }
    db.flush().unwrap();
    let loaded_at = disk.operations();
    let durability = Durability::Synced;
    let writes = run(&disk, &db.durability(durability), &space.durability(durability), seed);
    let history = disk.history();
    drop((space, db));
    let last = writes.iter().map(|write| write.at).max().unwrap();
    let mut replay = history.replay();
    let step = usize::try_from((last - loaded_at) / CUTS).unwrap().max(1);
    for operation in (loaded_at..=last).step_by(step) {
        replay.advance_to(operation);
        let image = replay.crash(seed ^ operation) as Arc<dyn Device>;
        let (_db, space) = open_on(&image, simulated(seed), engine, true);
        let found = state(&space);
        let puts = found.1.iter().filter(|is_there| **is_there).count();
        let kept = found.0.iter().sum::<u64>() as usize + puts;
        let told = writes.iter().filter(|write| write.at <= operation).count();
        let place = format!("{engine}, seed {seed}, cut after {operation}");
        assert!(kept >= told, "{place}: {kept} are left of {told} that were acknowledged");
        assert_eq!(found, expected(&writes[..kept]), "{place}: no prefix of {kept}");
    }
}

#[test]
fn a_power_cut_leaves_what_was_acknowledged() {
    let setting = std::env::var("THERMOCLINE_SEED").ok().and_then(|text| text.parse().ok());
    let seed: u64 = setting.unwrap_or(3);
    for &engine in EngineKind::ALL {
        crash(seed, engine);
    }
}
