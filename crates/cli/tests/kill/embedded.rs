//! The way of a program with the database inside: a child writes batches over keyspaces of different
//! engines and reports each acknowledgement on a pipe, until it is killed.
//!
//! Write `n` of a thread goes to every keyspace in one batch, with a counter that says `n`. So in
//! any state all keyspaces must be equal, and the counter tells which state it must be. Each thread reads
//! back at once what it has written.

use std::io::{BufRead, BufReader, Write as _};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, mpsc};
use std::thread;

use environment::Seed;
use thermocline::{Batch, Db, Durability, EngineKind, Keyspace, KeyspaceOptions, Options};

use crate::model::{Script, State};
use crate::round::{Bug, Round, check_offline, kill};

/// Tells this binary to be the child, and what to write.
const CHILD_VARIABLE: &str = "KILL_EMBEDDED_CHILD";

/// The engines, each of a keyspace of its name.
const ENGINES: [EngineKind; 4] =
    [EngineKind::Memory, EngineKind::F2, EngineKind::Lsm, EngineKind::FlexDb];
/// Little for engines that keep data on disk, enough for the other.
const MEMORY_BYTES: u64 = 128 << 20;

pub(crate) fn is_child() -> bool {
    std::env::var_os(CHILD_VARIABLE).is_some()
}

/// What parent and child agree on.
struct Orders {
    path: String,
    durability: Durability,
    journal_bytes: u64,
    scripts: Vec<Script>,
    misreads: bool,
}

fn orders(text: &str) -> Orders {
    let fields: Vec<&str> = text.split('\t').collect();
    let [path, durability, journal, seed, clients, keys, bytes, misreads] = fields[..] else {
        panic!("eight fields: {text:?}")
    };
    let seed = Seed::from(seed.parse::<u64>().unwrap());
    let clients: usize = clients.parse().unwrap();
    let script = |client| Script::new(seed, client, keys.parse().unwrap(), bytes.parse().unwrap());
    Orders {
        path: path.to_owned(),
        durability: match durability {
            "synced" => Durability::Synced,
            "flushed" => Durability::Flushed,
            _ => Durability::Buffered,
        },
        journal_bytes: match journal {
            "256kb" => 256 << 10,
            "2mb" => 2 << 20,
            _ => 256 << 20,
        },
        scripts: (0..clients).map(script).collect(),
        misreads: misreads.parse().unwrap(),
    }
}

fn text(round: &Round, path: &Path) -> String {
    [
        path.to_str().expect("a temporary path is UTF-8").to_owned(),
        round.asked_durability().to_owned(),
        round.journal_max.to_owned(),
        round.seed.get().to_string(),
        round.clients.to_string(),
        round.keys_per_client.to_string(),
        round.value_bytes_max.to_string(),
        (round.bug == Bug::Reads).to_string(),
    ]
    .join("\t")
}

fn open(orders: &Orders) -> Db {
    let options = Options {
        durability: orders.durability,
        sync_interval: None,
        journal_bytes: orders.journal_bytes,
        memory_bytes: MEMORY_BYTES,
        ..Options::default()
    };
    Db::open(&orders.path, options).unwrap()
}

/// All keyspaces.
fn keyspaces(db: &Db) -> [Keyspace; ENGINES.len()] {
    ENGINES.map(|engine| {
        let options = KeyspaceOptions { engine, ..Default::default() };
        db.keyspace(engine.name(), options).unwrap()
    })
}

fn counter_key(script: &Script) -> Vec<u8> {
    format!("counter:{}", script.prefix()).into_bytes()
}

/// The threads of a child wait for each other: one that has found what may not be would leave the others to be
/// killed, and the parent to take that for a life that was well until then.
fn end_with_the_first_panic(is_meant: bool) {
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !is_meant {
            told(panic);
        }
        std::process::abort();
    }));
}

/// Writes until killed; never returns.
pub(crate) fn run_child() -> ! {
    let orders = orders(&std::env::var(CHILD_VARIABLE).unwrap());
    end_with_the_first_panic(orders.misreads);
    let db = open(&orders);
    let keyspaces = keyspaces(&db);
    let out = Mutex::new(std::io::stdout());
    thread::scope(|scope| {
        for (client, script) in orders.scripts.iter().enumerate() {
            let (db, keyspaces, out) = (&db, &keyspaces, &out);
            // The others would go on.
            let misreads = orders.misreads && client == 0;
            scope.spawn(move || {
                let counter = keyspaces[0].get(&counter_key(script)).unwrap();
                let mut number = counter.map_or(0, |bytes| number_in(&bytes));
                loop {
                    number += 1;
                    write(db, keyspaces, script, number);
                    let mut out = out.lock().unwrap();
                    // The parent holds the other end until this process is dead.
                    writeln!(out, "{client} {number}").and_then(|()| out.flush()).unwrap();
                    drop(out);
                    read_back(keyspaces, script, number, misreads);
                }
            });
        }
    });
    unreachable!("the writers go on until the process is killed")
}

/// Write `number`, in all keyspaces at once.
fn write(db: &Db, keyspaces: &[Keyspace], script: &Script, number: u64) {
    let mut batch = Batch::new();
    let write = script.write(number);
    for keyspace in keyspaces {
        match &write.value {
            Some(value) => batch.put(keyspace, &write.key, value),
            None => batch.delete(keyspace, &write.key),
        };
        batch.put(keyspace, &counter_key(script), &number.to_be_bytes());
    }
    db.write(&batch).unwrap();
}

/// Nobody but this thread writes its keys.
fn read_back(keyspaces: &[Keyspace], script: &Script, number: u64, misreads: bool) {
    let write = script.write(number);
    for keyspace in keyspaces {
        let found = keyspace.get(&write.key).unwrap();
        let is_right = found == write.value && !misreads;
        assert!(is_right, "{}: {write:?} is read as {found:?}", keyspace.name());
    }
}

fn number_in(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().expect("eight bytes"))
}

pub(crate) fn run(round: &Round, path: &Path) -> String {
    let text = text(round, path);
    let orders = orders(&text);
    let mut acknowledged = vec![0_u64; round.clients];
    let mut unacknowledged = 0;
    for life in 0..round.lives_ms.len() {
        for (client, number) in live(&text, round, life) {
            acknowledged[client] = acknowledged[client].max(number);
        }
        check_offline(path);
        let settled = verify(&orders, &acknowledged);
        unacknowledged += settled.iter().sum::<u64>() - acknowledged.iter().sum::<u64>();
        acknowledged = settled;
    }
    let total: u64 = acknowledged.iter().sum();
    format!("{total} batches verified, {unacknowledged} of them not acknowledged")
}

/// One life of the child; answers the acknowledgements that came through.
fn live(text: &str, round: &Round, life: usize) -> Vec<(usize, u64)> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .env(CHILD_VARIABLE, text)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (first, first_came) = mpsc::channel();
    let reader = thread::spawn(move || {
        let parse = |line: std::io::Result<String>| {
            let line = line.ok()?;
            let (client, number) = line.split_once(' ')?;
            // Nobody listens any more once the first has come.
            let _ = first.send(());
            Some((client.parse().ok()?, number.parse().ok()?))
        };
        lines.map_while(parse).collect::<Vec<(usize, u64)>>()
    });
    if round.acknowledged_first {
        first_came.recv().expect("the child ended before it wrote anything");
    }
    thread::sleep(round.life(life));
    kill(&mut child);
    reader.join().unwrap()
}

/// Opens the database and answers, per client, after how many writes its state is.
fn verify(orders: &Orders, acknowledged: &[u64]) -> Vec<u64> {
    let db = open(orders);
    let all = keyspaces(&db).map(|keyspace| -> State {
        let mut state = State::new();
        let walked = keyspace.walk(None, |key, value| {
            state.insert(key.to_vec(), value.to_vec());
            ControlFlow::Continue(())
        });
        walked.unwrap();
        state
    });
    for (state, engine) in all.iter().zip(ENGINES) {
        assert!(*state == all[0], "a batch is in keyspace {} and not in {engine}", ENGINES[0]);
    }
    let mut settled = Vec::new();
    for (client, script) in orders.scripts.iter().enumerate() {
        let number = all[0].get(&counter_key(script)).map_or(0, |bytes| number_in(bytes));
        assert!(
            number >= acknowledged[client],
            "client {client}: {} acknowledged, {number} there",
            acknowledged[client]
        );
        let prefix = script.prefix();
        let own = |(key, _): &(&Vec<u8>, &Vec<u8>)| key.starts_with(prefix.as_bytes());
        let found = all[0].iter().filter(own).map(|(key, value)| (key.clone(), value.clone()));
        script.settle(&found.collect(), number, number);
        settled.push(number);
    }
    db.close().unwrap();
    settled
}
