//! Power cuts at every operation of merges over keyspaces of all engines. Recovery has no operator,
//! and gives the content after some step that is no older than the last durable one.

use std::collections::BTreeMap;
use std::ops::ControlFlow::Continue;
use std::sync::Arc;

use device::{Device, Faults, SimulatedDisk};
use rand::RngExt;
use thermocline::{
    Batch, Db, Durability, EngineKind, Environment, Keyspace, MergeOperators, check_on,
};

use super::{merged_by, operators, options};

const STEPS: usize = 24;

type Content = BTreeMap<(String, Vec<u8>), Vec<u8>>;

fn open_on(disk: &Arc<SimulatedDisk>, seed: u64, operators: MergeOperators) -> Db {
    let (environment, _clock) = Environment::simulated(seed);
    let device: Arc<dyn Device> = disk.clone();
    Db::open_on(device, "merges", options(environment, operators)).unwrap()
}

fn content(db: &Db) -> Content {
    let mut all = Content::new();
    for space in db.keyspaces() {
        let name = space.name().to_owned();
        let mut take = |key: &[u8], value: &[u8]| {
            all.insert((name.clone(), key.to_vec()), value.to_vec());
            Continue(())
        };
        space.walk(None, &mut take).unwrap();
    }
    all
}

/// One step, which merges into keyspaces, and into their content alike.
fn step(db: &Db, spaces: &[Keyspace], random: &mut environment::Random, content: &mut Content) {
    let mut chosen = || (random.random_range(0..spaces.len()), [random.random_range(0..3_u8)]);
    let way = chosen().0;
    let merges: Vec<(usize, [u8; 1])> = (0..4).map(|_| chosen()).collect();
    let operand = [&b"+"[..], &[random.random_range(0..255); 90]].concat();
    let mut merged = |space: usize, key: [u8; 1]| {
        let value = content.entry((spaces[space].name().to_owned(), key.to_vec())).or_default();
        value.extend_from_slice(&operand[1..]);
    };
    match way {
        0 => {
            let (space, key) = merges[0];
            spaces[space].merge(&key, &operand).unwrap();
            merged(space, key);
        }
        1 => {
            let transaction = db.begin().unwrap();
            for (space, key) in merges {
                transaction.merge(&spaces[space], &key, &operand).unwrap();
                merged(space, key);
            }
            transaction.commit().unwrap();
        }
        _ => {
            let mut batch = Batch::new();
            for (space, key) in merges {
                batch.merge(&spaces[space], &key, &operand);
                merged(space, key);
            }
            db.write(&batch).unwrap();
        }
    }
}

#[test]
fn every_power_cut_leaves_a_prefix_of_the_merges() {
    let seed = 5;
    let disk = SimulatedDisk::new(seed, Faults::none());
    disk.keep_history();
    let db = open_on(&disk, seed, operators());
    let engines = EngineKind::ALL.iter().copied();
    let spaces: Vec<_> = engines
        .map(|engine| db.keyspace(engine.name(), merged_by("edit", engine, true)).unwrap())
        .collect();
    db.sync().unwrap();
    let begun = disk.operations();
    let mut random = Environment::seeded(seed).random("merges");
    let mut after = Content::new();
    // The content after each step, and the operation from which on it must not be older.
    let mut steps = vec![(after.clone(), begun, true)];
    for number in 0..STEPS {
        let is_durable = number % 3 == 2;
        let durability = if is_durable { Durability::Synced } else { Durability::Buffered };
        let spaces: Vec<_> = spaces.iter().map(|space| space.durability(durability)).collect();
        step(&db.durability(durability), &spaces, &mut random, &mut after);
        if number % 8 == 5 {
            db.flush().unwrap();
        }
        steps.push((after.clone(), disk.operations(), is_durable));
    }
    assert_eq!(content(&db), after);
    let history = disk.history();
    let mut replay = history.replay();
    let mut seen = 0;
    for operation in begun..=history.last_operation() {
        replay.advance_to(operation);
        let image = replay.crash(seed ^ operation);
        let db = open_on(&image, seed, MergeOperators::new());
        let found = content(&db);
        let returned = |(_, at, is_durable): &(Content, u64, bool)| *is_durable && *at <= operation;
        let first = steps.iter().rposition(returned).unwrap();
        let at = steps[first..].iter().position(|(content, ..)| *content == found);
        assert!(at.is_some(), "operation {operation}: none of the steps from {first} on");
        seen += at.unwrap();
        drop(db);
        assert!(check_on(image.clone(), "image").unwrap().is_whole(), "operation {operation}");
        let db = open_on(&image, seed, operators());
        let space = db.existing_keyspace("lsm").unwrap();
        space.merge(b"after", b"+on").unwrap();
        assert_eq!(space.get(b"after").unwrap().as_deref(), Some(&b"on"[..]));
    }
    assert!(seen > 0, "what was not durable yet never survived");
}
