//! The way of a program with the database inside.
//!
//! A child writes batches over keyspaces of different engines and reports each acknowledgement on a
//! pipe, until it is killed. Write `n` of a thread goes to every keyspace in one batch, with a
//! counter that says `n`. So in any state all keyspaces must be equal, and the counter names the
//! state. Each thread reads back immediately what it has written. Concurrently with them keyspaces
//! are flushed, and keyspaces with snapshots are compared with each other at one moment.

use std::io::{BufRead, BufReader, Stdout, Write as _};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use environment::Seed;
use rand::RngExt;
use thermocline::{
    Batch, Db, Durability, EngineKind, KeyRange, Keyspace, KeyspaceOptions, Options,
};

use crate::model::{Script, State};
use crate::round::{Bug, Round, check_offline};
use crate::sigkill::kill;
use crate::small::{engines, figures, with_small_parts};

/// Variable that makes this binary the child, and contains its orders.
const CHILD_VARIABLE: &str = "KILL_EMBEDDED_CHILD";

/// Little for engines that keep data on disk, enough for the other.
const MEMORY_BYTES: u64 = 128 << 20;

pub(crate) fn is_child() -> bool {
    std::env::var_os(CHILD_VARIABLE).is_some()
}

/// The first word of a child's lines that are no acknowledgements.
const BESIDE: &str = "beside";

/// The sums of [`figures`] over all lives, by the last report of each.
pub(crate) type Beside = Vec<u64>;

/// Returns the sums before the first life.
pub(crate) fn no_work() -> Beside {
    vec![0; figures().count()]
}

/// The orders that parent and child agree on.
struct Orders {
    path: String,
    /// Each of a keyspace of its name.
    engines: &'static [EngineKind],
    is_small: bool,
    seed: Seed,
    durability: Durability,
    journal_bytes: u64,
    scripts: Vec<Script>,
    misreads: bool,
}

fn orders(text: &str) -> Orders {
    let fields: Vec<&str> = text.split('\t').collect();
    let [path, durability, journal, seed, clients, keys, bytes, misreads, names, is_small] =
        fields[..]
    else {
        panic!("ten fields: {text:?}")
    };
    let seed = Seed::from(seed.parse::<u64>().unwrap());
    let clients: usize = clients.parse().unwrap();
    let script = |client| Script::new(seed, client, keys.parse().unwrap(), bytes.parse().unwrap());
    Orders {
        path: path.to_owned(),
        engines: engines(names),
        is_small: is_small.parse().unwrap(),
        seed,
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
        round.engines.to_owned(),
        round.is_small.to_string(),
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
    let options = if orders.is_small { with_small_parts(options) } else { options };
    Db::open(&orders.path, options).unwrap()
}

/// All keyspaces.
fn keyspaces(db: &Db, orders: &Orders) -> Vec<Keyspace> {
    let keyspace = |engine: &EngineKind| {
        let options = KeyspaceOptions { engine: *engine, ..Default::default() };
        db.keyspace(engine.name(), options).unwrap()
    };
    orders.engines.iter().map(keyspace).collect()
}

fn counter_key(script: &Script) -> Vec<u8> {
    format!("counter:{}", script.prefix()).into_bytes()
}

/// Aborts a child at its first panic. The threads of a child wait for each other: one that has
/// found an error would leave the others to be killed. The parent would take that for a life that
/// was well until then.
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
    let keyspaces = keyspaces(&db, &orders);
    let out = Mutex::new(std::io::stdout());
    thread::scope(|scope| {
        scope.spawn(|| do_chores(&db, &keyspaces, orders.seed, &out));
        for (client, script) in orders.scripts.iter().enumerate() {
            let (db, keyspaces, out) = (&db, &keyspaces, &out);
            // The others would continue.
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

/// Flushes keyspaces, compares them, and reports the figures of this work.
fn do_chores(db: &Db, keyspaces: &[Keyspace], seed: Seed, out: &Mutex<Stdout>) -> ! {
    let mut random = seed.child(db.stats().last.get()).stream("chores");
    // In some lives flushes come seldom, so that much is in memory.
    let one_of = [1, 10, 100][random.random_range(0..3)];
    loop {
        let began = Instant::now();
        compare_at_one_moment(db, keyspaces);
        if random.random_ratio(1, one_of) {
            keyspaces[random.random_range(0..keyspaces.len())].flush().unwrap();
        }
        let figures = figures().map(|(engine, name)| figure(keyspaces, engine, name).to_string());
        let figures: Vec<String> = figures.collect();
        let mut told = out.lock().unwrap();
        writeln!(told, "{BESIDE} {}", figures.join(" ")).and_then(|()| told.flush()).unwrap();
        drop(told);
        thread::sleep(began.elapsed() * 4 + Duration::from_millis(random.random_range(1..40)));
    }
}

/// Batches are there in all keyspaces or in none.
fn compare_at_one_moment(db: &Db, keyspaces: &[Keyspace]) {
    let snapshot = db.snapshot().unwrap();
    let ordered = keyspaces.iter().filter(|keyspace| keyspace.is_ordered());
    let states = ordered.map(|keyspace| {
        let scan = snapshot.scan(keyspace, KeyRange::all()).unwrap();
        (keyspace.name(), scan.map(Result::unwrap).collect::<State>())
    });
    let states: Vec<(&str, State)> = states.collect();
    for pair in states.windows(2) {
        let [(one, in_one), (other, in_other)] = pair else { continue };
        assert!(in_one == in_other, "{one} and {other} differ in a snapshot");
    }
}

/// A figure of the engine's keyspace; 0 if there is none.
fn figure(keyspaces: &[Keyspace], engine: EngineKind, name: &str) -> u64 {
    let is_its = |keyspace: &&Keyspace| keyspace.options().engine == engine;
    let Some(keyspace) = keyspaces.iter().find(is_its) else { return 0 };
    let stats = keyspace.stats().unwrap();
    let found = stats.detail.iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("{engine} has no figure {name}")).1
}

/// Does write `number`, in all keyspaces in one batch.
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

/// Only this thread writes its keys.
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

pub(crate) fn run(round: &Round, path: &Path, beside: &mut Beside) -> String {
    let text = text(round, path);
    let orders = orders(&text);
    let mut acknowledged = vec![0_u64; round.clients];
    let mut unacknowledged = 0;
    for life in 0..round.lives_ms.len() {
        let told = live(&text, round, life);
        beside.iter_mut().zip(told.beside).for_each(|(sum, figure)| *sum += figure);
        for (client, number) in told.acknowledged {
            acknowledged[client] = acknowledged[client].max(number);
        }
        check_offline(path);
        let resolved = verify(&orders, &acknowledged);
        unacknowledged += resolved.iter().sum::<u64>() - acknowledged.iter().sum::<u64>();
        acknowledged = resolved;
    }
    let total: u64 = acknowledged.iter().sum();
    format!("{total} batches verified, {unacknowledged} of them not acknowledged")
}

/// The lines that the parent has received from a life.
struct Told {
    acknowledged: Vec<(usize, u64)>,
    /// The last of each figure.
    beside: Beside,
}

impl Told {
    /// A line, whose end the kill may have cut off; whether it is an acknowledgement.
    fn note(&mut self, line: &str) -> bool {
        let (word, numbers) = line.split_once(' ').unwrap_or_default();
        if word == BESIDE {
            let numbers = numbers.split(' ').map_while(|number| number.parse().ok());
            self.beside.iter_mut().zip(numbers).for_each(|(figure, number)| *figure = number);
            return false;
        }
        let parsed = word.parse().ok().zip(numbers.parse().ok());
        self.acknowledged.extend(parsed);
        parsed.is_some()
    }
}

/// One life of the child.
fn live(text: &str, round: &Round, life: usize) -> Told {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .env(CHILD_VARIABLE, text)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (first, first_came) = mpsc::channel();
    let reader = thread::spawn(move || {
        let mut told = Told { acknowledged: Vec::new(), beside: no_work() };
        for line in lines.map_while(Result::ok) {
            if told.note(&line) {
                // The receiver is dropped once it has received the first line.
                let _ = first.send(());
            }
        }
        told
    });
    if round.acknowledged_first {
        first_came.recv().expect("the child ended before it wrote anything");
    }
    thread::sleep(round.life(life));
    kill(&mut child);
    reader.join().unwrap()
}

/// Opens the database and returns, per client, the number of writes in its state.
fn verify(orders: &Orders, acknowledged: &[u64]) -> Vec<u64> {
    let db = open(orders);
    let walk = |keyspace: &Keyspace| {
        let mut state = State::new();
        let walked = keyspace.walk(None, |key, value| {
            state.insert(key.to_vec(), value.to_vec());
            ControlFlow::Continue(())
        });
        walked.unwrap();
        state
    };
    let all: Vec<State> = keyspaces(&db, orders).iter().map(walk).collect();
    for (state, engine) in all.iter().zip(orders.engines) {
        let first = orders.engines[0];
        assert!(*state == all[0], "a batch is in keyspace {first} and not in {engine}");
    }
    let mut resolved = Vec::new();
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
        script.resolve(&found.collect(), number, number);
        resolved.push(number);
    }
    db.close().unwrap();
    resolved
}
