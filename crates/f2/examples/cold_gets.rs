//! Gets of uniform keys over ten times the memory, on one session and by `multi_get`, beside `fio` on the same files.
//!
//! ```text
//! cargo run --release -p thermocline-f2 --example cold_gets -- DIR [KEYS [DEPTH [ROUNDS [SECONDS]]]]
//! ```
//!
//! Keys of 8 bytes, values of 100, a budget of a tenth of that, direct I/O. In each round the session, `multi_get` of
//! as many keys as the session is deep, and `fio` (random reads of 4 KiB, direct, by io_uring, as deep) take turns. A cold get takes two reads of
//! the device, the chunk and the record, so what is compared is the device's reads per second. `fio`
//! has to be installed (`apt install fio`).
#![expect(clippy::unwrap_used, reason = "a measurement that goes wrong stops")]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use device::{Device, Io, Options as DeviceOptions};
use engine::{Engine, Host, MemoryBudget, NoJournal, Op, Sequence};
use environment::Environment;
use rand::Rng;
use telemetry::Registry;
use thermocline_f2::{Completed, Get, Options, Session, Store, Wait};
use workers::Pool;

const PAIR_BYTES: u64 = 108;

/// What one turn of a session did.
struct Turn {
    gets_per_s: f64,
    reads_per_s: f64,
}

struct Bench {
    environment: Environment,
    device: Arc<dyn Device>,
    store: Store,
    sequence: Arc<Sequence>,
    keys: u64,
    depth: usize,
    seconds: u64,
}

impl Bench {
    fn open(dir: &str, keys: u64, depth: usize, seconds: u64) -> Self {
        let environment = Environment::real();
        let telemetry = Registry::default();
        let options = DeviceOptions { io: Io::DirectBlocks, ..DeviceOptions::default() };
        let device = device::open(dir, options).unwrap();
        let sequence = Arc::new(Sequence::new());
        let host = Host {
            device: Arc::clone(&device),
            workers: Pool::start(&environment, 2, &telemetry).unwrap(),
            telemetry,
            environment: environment.clone(),
            sequence: Arc::clone(&sequence),
            barrier: Arc::new(NoJournal),
            memory: Arc::new(MemoryBudget::new(keys * PAIR_BYTES / 10)),
        };
        let store = Store::open(host, Options::default()).unwrap();
        Self { environment, device, store, sequence, keys, depth, seconds }
    }

    fn load(&self) {
        let value = [7; 100];
        for key in 0..self.keys {
            let ops = [Op::Put { key: &scatter(key).to_le_bytes(), value: &value }];
            self.store.admit(&ops).unwrap();
            let number = self.sequence.begin();
            self.store.apply(&ops, number.seqno()).unwrap();
        }
        self.store.flush().unwrap();
    }

    /// What a key of the cold log takes of memory: the directory of its index.
    fn tell_memory(&self) {
        let detail = self.store.stats().detail;
        let figure = |name| detail.iter().find(|(known, _)| *known == name).unwrap().1;
        let (bytes, keys) = (figure("cold_index_directory_bytes"), figure("cold_index_entries"));
        println!(
            "{keys} entries of the cold index, {:.3} B of memory each",
            bytes as f64 / keys as f64
        );
    }

    /// Calls `some`, which answers how many values it has got, for a while.
    fn turn(&self, mut some: impl FnMut(bool) -> u64) -> Turn {
        let (start, before) = (self.environment.now(), self.device.accounting().counts().read_ops);
        let length = Duration::from_secs(self.seconds);
        let mut done = 0;
        while self.environment.now() - start < length {
            done += some(false);
        }
        done += some(true);
        let seconds = (self.environment.now() - start).as_secs_f64();
        let reads = self.device.accounting().counts().read_ops - before;
        Turn { gets_per_s: done as f64 / seconds, reads_per_s: reads as f64 / seconds }
    }

    fn multi_get(&self, round: u64) -> Turn {
        let mut random = Environment::seeded(round).random("keys of many");
        self.turn(|is_end| {
            if is_end {
                return 0;
            }
            let keys: Vec<[u8; 8]> = (0..self.depth)
                .map(|_| scatter(random.next_u64() % self.keys).to_le_bytes())
                .collect();
            let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
            let mut done = 0;
            let mut found = |_: usize, value: Option<&[u8]>| {
                assert!(value.is_some(), "a key is lost");
                done += 1;
            };
            self.store.multi_get(&keys, &mut found).unwrap();
            done
        })
    }

    fn session(&self, round: u64) -> Turn {
        let mut random = Environment::seeded(round).random("keys");
        let mut session = self.store.session_of_depth(self.depth).unwrap();
        let mut into = Vec::new();
        self.turn(|is_end| {
            if is_end {
                return complete(&mut session, Wait::ForAll);
            }
            let mut done = 0;
            let key = scatter(random.next_u64() % self.keys).to_le_bytes();
            loop {
                match session.get(&key, &mut into).unwrap() {
                    Get::Found => done += 1,
                    Get::Pending(_) => {}
                    Get::Full => {
                        done += complete(&mut session, Wait::ForOne);
                        continue;
                    }
                    Get::Absent => panic!("a key is lost"),
                }
                break;
            }
            done
        })
    }

    /// Reads per second of `fio` on the store's files.
    fn fio(&self, dir: &Path) -> f64 {
        let entries = self.device.list("").unwrap();
        let is_segment = |name: &str| name.starts_with("cold-") || name.starts_with("chunks-");
        let files = entries.iter().filter(|entry| is_segment(&entry.name));
        let paths: Vec<String> =
            files.map(|entry| dir.join(&entry.name).display().to_string()).collect();
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

fn complete(session: &mut Session, wait: Wait) -> u64 {
    let told = session.complete_pending(wait, &mut |_, outcome| {
        assert!(matches!(outcome, Ok(Completed::Value(Some(_)))), "{outcome:?}");
    });
    told.unwrap() as u64
}

/// Another number for each number, so that keys are not loaded in an order.
fn scatter(key: u64) -> u64 {
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let dir = arguments.first().expect("usage: cold_gets DIR [KEYS [DEPTH [ROUNDS [SECONDS]]]]");
    let number = |at: usize, default: u64| {
        arguments.get(at).map_or(default, |text| text.parse().expect("a number"))
    };
    let (keys, depth, rounds) = (number(1, 5_000_000), number(2, 128) as usize, number(3, 5));
    let bench = Bench::open(dir, keys, depth, number(4, 3));
    bench.load();
    bench.tell_memory();
    let (mut ratios, mut ratios_of_many) = (Vec::new(), Vec::new());
    println!(
        "{keys} keys, depth {depth}: a session's gets/s, reads/s; those of multi_get; reads/s of fio; ratios"
    );
    for round in 0..rounds {
        // The one that goes first changes.
        let first = (round % 2 == 1).then(|| bench.fio(Path::new(dir)));
        let (session, many) = (bench.session(round), bench.multi_get(round));
        let fio = first.unwrap_or_else(|| bench.fio(Path::new(dir)));
        let (ratio, ratio_of_many) = (session.reads_per_s / fio, many.reads_per_s / fio);
        println!(
            "{:>8.0} {:>8.0} {:>8.0} {:>8.0} {fio:>8.0} {ratio:.3} {ratio_of_many:.3}",
            session.gets_per_s, session.reads_per_s, many.gets_per_s, many.reads_per_s
        );
        ratios.push(ratio);
        ratios_of_many.push(ratio_of_many);
    }
    println!("median ratios {:.3} {:.3}", median(ratios), median(ratios_of_many));
    bench.store.close().unwrap();
}
