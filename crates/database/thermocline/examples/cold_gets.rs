//! Gets of uniform keys over ten times the memory, by each way of asking for many at the same time.
//!
//! `fio` runs on the same files for comparison. The ways are a session, `multi_get`, and futures;
//! then come updates of such keys on a session and as futures.
//!
//! ```text
//! cargo run --release -p thermocline --example cold_gets -- DIR [KEYS [DEPTH [ROUNDS [SECONDS]]]]
//! ```
//!
//! Keys of 8 bytes, values of 100, engine `f2` with a tenth of that as memory. In each round a
//! session, `multi_get`, futures on one thread, and `fio` (random reads of 4 KiB, direct, by
//! io_uring) take turns, each at the depth of the session. A cold get takes two reads of the
//! device, the chunk and the record, so the device's reads per second are compared. `fio` has to be
//! installed (`apt install fio`). Updates change the data on disk, and compactions read meanwhile,
//! so these are compared with each other: updates per second, in turns as well.
#![expect(clippy::unwrap_used, reason = "a measurement that goes wrong stops")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use futures::StreamExt;
use futures::executor::block_on;
use futures::stream::FuturesUnordered;
use rand::Rng;
use thermocline::{
    Change, Completed, Db, Durability, EngineKind, Environment, Keyspace, KeyspaceOptions,
    Operator, Options, Session, SessionGet, SessionRmw,
};

const PAIR_BYTES: u64 = 108;
/// Bytes that a database needs in addition to its keyspaces: the journal's buffers.
const JOURNAL_BYTES: u64 = Options::MEMORY_BYTES_MIN;
const WAYS: [(&str, Way); 3] =
    [("session", Bench::session), ("multi_get", Bench::multi_get), ("futures", Bench::futures)];

/// On a session, and as futures.
const UPDATES: [Way; 2] = [Bench::session_updates, Bench::future_updates];

/// One turn of gets or updates, chosen by a seed.
type Way = fn(&Bench, u64) -> Turn;

/// The result of one turn of a way.
struct Turn {
    done_per_s: f64,
    reads_per_s: f64,
}

struct Bench {
    environment: Environment,
    db: Db,
    keyspace: Keyspace,
    keys: u64,
    depth: usize,
    seconds: u64,
}

impl Bench {
    fn open(dir: &Path, keys: u64, depth: usize, seconds: u64) -> Self {
        let environment = Environment::real();
        let budget = keys * PAIR_BYTES / 10;
        let options = Options {
            memory_bytes: budget + JOURNAL_BYTES,
            durability: Durability::Buffered,
            ..Options::default()
        };
        let db = Db::open(dir, options).unwrap();
        let options = KeyspaceOptions {
            engine: EngineKind::F2,
            journaled: false,
            memory_bytes: Some(budget),
            ..KeyspaceOptions::default()
        };
        let keyspace = db.keyspace("cold", options).unwrap();
        Self { environment, db, keyspace, keys, depth, seconds }
    }

    fn load(&self) {
        for key in 0..self.keys {
            self.keyspace.put(&scatter(key), &[7; 100]).unwrap();
        }
        self.keyspace.flush().unwrap();
    }

    /// Prints the memory that a key of the cold log takes: the directory of its index.
    fn print_memory(&self) {
        let detail = self.keyspace.stats().unwrap().detail;
        let figure = |name| detail.iter().find(|(known, _)| *known == name).unwrap().1;
        let (bytes, keys) = (figure("cold_index_directory_bytes"), figure("cold_index_entries"));
        println!(
            "{keys} entries of the cold index, {:.3} B of memory each",
            bytes as f64 / keys as f64
        );
    }

    /// Calls `some`, which returns the number of gets or updates that it has done, for a while, and
    /// at the end for the rest.
    fn turn(&self, mut some: impl FnMut(bool) -> u64) -> Turn {
        let (start, before) = (self.environment.now(), self.db.stats().io.read_ops);
        let length = Duration::from_secs(self.seconds);
        let mut done = 0;
        while self.environment.now() - start < length {
            done += some(false);
        }
        done += some(true);
        let seconds = (self.environment.now() - start).as_secs_f64();
        let reads = self.db.stats().io.read_ops - before;
        Turn { done_per_s: done as f64 / seconds, reads_per_s: reads as f64 / seconds }
    }

    /// Keys to ask for, as they come.
    fn keys(&self, round: u64, way: &str) -> impl FnMut() -> [u8; 8] {
        let (keys, mut random) = (self.keys, Environment::seeded(round).random(way));
        move || scatter(random.next_u64() % keys)
    }

    fn session(&self, round: u64) -> Turn {
        let mut next = self.keys(round, "session");
        let mut session = self.keyspace.session(self.depth).unwrap();
        let mut into = Vec::new();
        self.turn(|is_end| {
            let mut done = 0;
            if is_end {
                while session.pending() > 0 {
                    done += complete(&mut session);
                }
                return done;
            }
            let key = next();
            loop {
                match session.begin_get(0, &key, &mut into).unwrap() {
                    SessionGet::Found => return done + 1,
                    SessionGet::Pending => return done,
                    SessionGet::Full => done += complete(&mut session),
                    SessionGet::Absent => panic!("a key is lost"),
                }
            }
        })
    }

    fn multi_get(&self, round: u64) -> Turn {
        let mut next = self.keys(round, "multi_get");
        self.turn(|is_end| {
            if is_end {
                return 0;
            }
            let keys: Vec<[u8; 8]> = (0..self.depth).map(|_| next()).collect();
            let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
            let mut found = |_: usize, value: Option<&[u8]>| {
                assert!(value.is_some(), "a key is lost");
            };
            self.keyspace.multi_get_with(&keys, &mut found).unwrap();
            keys.len() as u64
        })
    }

    fn futures(&self, round: u64) -> Turn {
        let mut next = self.keys(round, "futures");
        let mut under_way: FuturesUnordered<_> =
            (0..self.depth).map(|_| self.keyspace.futures().get(&next())).collect();
        self.turn(|is_end| {
            let mut done = 0;
            while let Some(value) = block_on(under_way.next()) {
                assert!(value.unwrap().is_some(), "a key is lost");
                done += 1;
                if !is_end {
                    under_way.push(self.keyspace.futures().get(&next()));
                    break;
                }
            }
            done
        })
    }

    fn session_updates(&self, round: u64) -> Turn {
        let mut next = self.keys(round, "session updates");
        let mut session = self.keyspace.session(self.depth).unwrap();
        self.turn(|is_end| {
            let mut done = 0;
            if is_end {
                while session.pending() > 0 {
                    done += complete(&mut session);
                }
                return done;
            }
            let (key, mut operator) = (next(), Box::new(add_one) as Box<dyn Operator + Send>);
            loop {
                match session.begin_rmw(0, &key, operator).unwrap() {
                    SessionRmw::Done(_) => return done + 1,
                    SessionRmw::Pending => return done,
                    SessionRmw::Full(back) => {
                        operator = back;
                        done += complete(&mut session);
                    }
                }
            }
        })
    }

    fn future_updates(&self, round: u64) -> Turn {
        let mut next = self.keys(round, "future updates");
        let mut under_way: FuturesUnordered<_> =
            (0..self.depth).map(|_| self.keyspace.futures().rmw(&next(), add_one)).collect();
        self.turn(|is_end| {
            let mut done = 0;
            while let Some(seqno) = block_on(under_way.next()) {
                assert!(seqno.unwrap().is_some(), "an update is lost");
                done += 1;
                if !is_end {
                    under_way.push(self.keyspace.futures().rmw(&next(), add_one));
                    break;
                }
            }
            done
        })
    }

    /// Reads per second of `fio` on the engine's files.
    fn fio(&self, dir: &Path) -> f64 {
        let paths: Vec<String> =
            cold_files(dir).iter().map(|path| path.display().to_string()).collect();
        let output = Command::new("fio")
            .args(["--name=cold_gets", "--ioengine=io_uring", "--direct=1", "--time_based"])
            .args(["--norandommap", "--output-format=terse", "--readonly", "--rw=randread"])
            .args(["--bs=4096", "--file_service_type=random"])
            .arg(format!("--filename={}", paths.join(":")))
            .arg(format!("--iodepth={}", self.depth))
            .arg(format!("--runtime={}", self.seconds))
            .output()
            .expect("fio is installed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        // The eighth field of the terse format, version 3: reads per second.
        let report = String::from_utf8_lossy(&output.stdout);
        report.split(';').nth(7).and_then(|iops| iops.parse().ok()).unwrap()
    }
}

/// The segments of the cold log and of its index.
fn cold_files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(cold_files(&entry.path()));
        } else if name.starts_with("cold-") || name.starts_with("chunks-") {
            found.push(entry.path());
        }
    }
    found
}

/// Waits for at least one of the pending operations, and returns the number of completed ones.
fn complete(session: &mut Session) -> u64 {
    let told = session.complete(true, &mut |_, outcome| {
        let is_there =
            matches!(outcome, Ok(Completed::Value(Some(_)) | Completed::Updated(Some(_))));
        assert!(is_there, "a key is lost");
    });
    told.unwrap() as u64
}

fn add_one(old: Option<&[u8]>) -> Change {
    let mut value = old.expect("a key is lost").to_vec();
    value[0] = value[0].wrapping_add(1);
    Change::Put(value)
}

/// Another key for each number, so that keys are not loaded in an order.
fn scatter(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Has a session and futures take turns with updates.
fn compare_updates(bench: &Bench, rounds: u64) {
    println!("updates/s on a session and as futures, and these by those");
    let mut ratios = Vec::new();
    for round in 0..rounds {
        let mut turns = [0.0; 2];
        // The one that goes first changes.
        let first = (round % 2) as usize;
        for at in [first, 1 - first] {
            turns[at] = UPDATES[at](bench, round).done_per_s;
        }
        let ratio = turns[1] / turns[0];
        println!("session {:.0}; futures {:.0} {ratio:.3}", turns[0], turns[1]);
        ratios.push(ratio);
    }
    println!("updates as futures: median {:.3}", median(ratios));
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let dir = arguments.first().expect("usage: cold_gets DIR [KEYS [DEPTH [ROUNDS [SECONDS]]]]");
    let dir = Path::new(dir);
    let number = |at: usize, default: u64| {
        arguments.get(at).map_or(default, |text| text.parse().expect("a number"))
    };
    let (keys, depth, rounds) = (number(1, 5_000_000), number(2, 128) as usize, number(3, 5));
    let bench = Bench::open(dir, keys, depth, number(4, 3));
    bench.load();
    bench.print_memory();
    println!("{keys} keys, depth {depth}; gets/s, reads/s, and these by the reads/s of fio");
    let mut ratios = WAYS.map(|_| Vec::new());
    for round in 0..rounds {
        // The one that goes first changes.
        let first = (round % 2 == 1).then(|| bench.fio(dir));
        let turns = WAYS.map(|(_, way)| way(&bench, round));
        let fio = first.unwrap_or_else(|| bench.fio(dir));
        print!("fio {fio:.0}");
        for (((name, _), turn), ratios) in WAYS.iter().zip(turns).zip(&mut ratios) {
            let ratio = turn.reads_per_s / fio;
            print!("; {name} {:.0} {:.0} {ratio:.3}", turn.done_per_s, turn.reads_per_s);
            ratios.push(ratio);
        }
        println!();
    }
    for ((name, _), ratios) in WAYS.iter().zip(ratios) {
        println!("{name}: median {:.3}", median(ratios));
    }
    compare_updates(&bench, rounds);
    bench.db.close().unwrap();
}
