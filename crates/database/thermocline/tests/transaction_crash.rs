//! Power cuts at every operation of transactions over keyspaces of all engines, on the simulated
//! disk.
//!
//! Each transaction reads the step and the balances in all keyspaces, moves an amount from one to
//! another, and writes the new step to all of them. In every image of a power cut, all keyspaces
//! must be of one and the same step, no older than the last one that was durable. The balances must
//! add up, and the next transaction continues from there.
//!
//! `THERMOCLINE_SEED` chooses the first run and `THERMOCLINE_CASES` how many; a failure prints the
//! one command that replays it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use device::{Device, Faults, SimulatedDisk};
use rand::RngExt;
use thermocline::{
    Db, Durability, EngineKind, Environment, Error, Keyspace, KeyspaceOptions, Options, Transaction,
};

/// Transactions of one run.
const STEPS: u64 = 60;
/// Runs unless `THERMOCLINE_CASES` says otherwise.
const CASES: u64 = 4;
/// In each keyspace at the beginning.
const BALANCE: u64 = 1000;

fn open(disk: &Arc<SimulatedDisk>, seed: u64) -> Result<Db, Error> {
    let (environment, _clock) = Environment::simulated(seed);
    let options = Options {
        environment,
        memory_bytes: 32 << 20,
        sync_interval: None,
        background_threads: 1,
        durability: Durability::Buffered,
        ..Options::default()
    };
    Db::open_on(Arc::clone(disk) as Arc<dyn Device>, "simulated", options)
}

fn spaces(db: &Db) -> Result<Vec<Keyspace>, Error> {
    let open = |engine: &EngineKind| {
        let options =
            KeyspaceOptions { engine: *engine, memory_bytes: Some(4 << 20), ..Default::default() };
        db.keyspace(engine.name(), options)
    };
    EngineKind::ALL.iter().map(open).collect()
}

fn number(tx: &Transaction, space: &Keyspace, key: &[u8]) -> Result<Option<u64>, Error> {
    let value = tx.get(space, key)?;
    Ok(value.map(|bytes| u64::from_be_bytes(bytes[..8].try_into().unwrap())))
}

/// The step that all keyspaces are of, and the balance of each.
fn read(tx: &Transaction, spaces: &[Keyspace]) -> Result<(u64, Vec<u64>), Error> {
    let (mut steps, mut balances) = (Vec::new(), Vec::new());
    for space in spaces {
        steps.push(number(tx, space, b"step")?.unwrap_or(0));
        balances.push(number(tx, space, b"balance")?.unwrap_or(BALANCE));
    }
    assert!(steps.iter().all(|step| *step == steps[0]), "half a transaction: steps {steps:?}");
    let sum: u64 = balances.iter().sum();
    assert_eq!(sum, BALANCE * EngineKind::ALL.len() as u64, "balances {balances:?}");
    Ok((steps[0], balances))
}

fn step(db: &Db, spaces: &[Keyspace], payer: usize, amount: u64) -> Result<u64, Error> {
    db.transaction(|tx| {
        let (step, mut balances) = read(tx, spaces)?;
        let paid = amount.min(balances[payer]);
        balances[payer] -= paid;
        balances[(payer + 1) % spaces.len()] += paid;
        for (space, balance) in spaces.iter().zip(balances) {
            // A value of several sectors, so that a torn write shows.
            let long = [&balance.to_be_bytes()[..], &vec![7; amount as usize]].concat();
            tx.put(space, b"balance", &long)?;
            tx.put(space, b"step", &(step + 1).to_be_bytes())?;
        }
        Ok(step + 1)
    })
}

/// A step that has returned: the disk's operations until then, and whether it was durable.
struct Returned {
    returned_at: u64,
    is_durable: bool,
}

fn judge(
    image: &Arc<SimulatedDisk>,
    seed: u64,
    mut oldest: u64,
    mut newest: u64,
) -> Result<(), String> {
    let mut image = Arc::clone(image);
    for nested in 0..2 {
        let before = image.operations();
        let db = open(&image, seed).map_err(|error| format!("recovery {nested}: {error}"))?;
        let spaces = spaces(&db).map_err(|error| error.to_string())?;
        let found = db.transaction(|tx| read(tx, &spaces)).map_err(|error| error.to_string())?.0;
        if found < oldest || found > newest {
            return Err(format!("recovery {nested}: step {found}, not {oldest} to {newest}"));
        }
        let next = step(&db.durability(Durability::Synced), &spaces, 0, 1);
        if next != Ok(found + 1) {
            return Err(format!("recovery {nested}: after step {found} came {next:?}"));
        }
        (oldest, newest) = (found + 1, found + 1);
        drop((db, spaces));
        image = image.crash(seed ^ before);
    }
    Ok(())
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn every_power_cut_leaves_whole_transactions() {
    let first = setting("THERMOCLINE_SEED").unwrap_or(1);
    let cases = setting("THERMOCLINE_CASES").unwrap_or(CASES);
    let mut crashes = 0;
    for seed in first..first + cases {
        println!(
            "to replay: THERMOCLINE_SEED={seed} THERMOCLINE_CASES=1 \
             cargo test -p thermocline --test all transaction_crash"
        );
        let disk = SimulatedDisk::new(seed, Faults::none());
        disk.keep_history();
        let mut random = Environment::seeded(seed).random("transactions");
        let db = open(&disk, seed).unwrap();
        let keyspaces = spaces(&db).unwrap();
        let mut moments = vec![Returned { returned_at: disk.operations(), is_durable: true }];
        for index in 1..=STEPS {
            let all = [Durability::Buffered, Durability::Flushed, Durability::Synced];
            let durability = all[random.random_range(0..3)];
            let amount = [1, 500, 3000][random.random_range(0..3)];
            let payer = random.random_range(0..EngineKind::ALL.len());
            let done = step(&db.durability(durability), &keyspaces, payer, amount);
            assert_eq!(done, Ok(index));
            let is_durable = durability == Durability::Synced;
            moments.push(Returned { returned_at: disk.operations(), is_durable });
            if random.random_range(0..4) == 0 {
                keyspaces[random.random_range(0..EngineKind::ALL.len())].flush().unwrap();
            }
        }
        let history = disk.history();
        let mut replay = history.replay();
        for operation in moments[0].returned_at..=history.last_operation() {
            replay.advance_to(operation);
            let returned = |moment: &&Returned| moment.returned_at <= operation;
            let begun = moments.iter().take_while(returned).count() as u64;
            let durable = moments.iter().take_while(returned);
            let oldest = durable.enumerate().filter(|(_, one)| one.is_durable).last();
            let oldest = oldest.map_or(0, |(step, _)| step as u64);
            crashes += 1;
            let image = replay.crash(seed ^ (operation << 8));
            if let Err(what) = judge(&image, seed, oldest, begun.min(STEPS)) {
                panic!("seed {seed}, power cut after operation {operation}: {what}");
            }
        }
    }
    println!("{crashes} power cuts, each followed by another after one more transaction");
    assert!(crashes > 0);
}
