//! The costs of compaction of a single log by lookups, and by scans as FASTER first had it.
//!
//! ```text
//! cargo run --release -p thermocline-f2 --example compactions -- DIR [KEYS [ROUNDS]]
//! ```
//!
//! Keys of 8 bytes, values of 100; a tenth of the loaded records is in memory, and direct I/O reads
//! the rest. Then one thread compacts the oldest tenth, and nothing else runs. The first compaction
//! follows the loading, when all records live, as in the paper's figure 9. In a second run `ROUNDS`
//! rounds follow `KEYS` updates, drawn by Zipf's law (1): then many records are dead, and their
//! newer versions are spread over the log. Each way has a process of its own. The example prints
//! how far its peak of resident memory is above the peak of the loading.

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use device::{Device, Io, Options as DeviceOptions};
use engine::{BlockingWrites, Engine, Host, NoJournal, Op, Sequence};
use environment::{Environment, ManualClock};
use memory_budget::MemoryBudget;
use rand::RngExt;
use telemetry::Registry;
use thermocline_f2::{Options, Store};
use workers::{HandCranked, Order, Pool};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Bytes of a record in the log.
const RECORD_BYTES: u64 = 128;
const VALUE: [u8; 100] = [7; 100];
const MIB: f64 = (1 << 20) as f64;

/// A store whose background work is done by the thread that cranks it.
struct Bench {
    store: Store,
    sequence: Arc<Sequence>,
    device: Arc<dyn Device>,
    crank: HandCranked,
    clock: Arc<ManualClock>,
    _pool: Pool,
}

impl Bench {
    fn open(dir: &Path, keys: u64, scan_compaction: bool) -> Outcome<Self> {
        let (environment, clock) = Environment::simulated(1);
        let telemetry = Registry::default();
        let device_options = DeviceOptions { io: Io::DirectBlocks, ..DeviceOptions::default() };
        let device = device::open(dir, device_options)?;
        let sequence = Arc::new(Sequence::new());
        let (pool, crank) = Pool::hand_cranked(&environment, &telemetry, Order::Random);
        let host = Host {
            device: Arc::clone(&device),
            workers: pool.clone(),
            telemetry,
            environment,
            sequence: Arc::clone(&sequence),
            barrier: Arc::new(NoJournal),
            memory: Arc::new(MemoryBudget::new(u64::MAX)),
        };
        let options = Options {
            single_log: true,
            scan_compaction,
            log_memory_bytes: Some(keys * RECORD_BYTES / 10),
            read_cache_bytes: Some(0),
            // The limit is so small that a round is always due.
            disk_bytes_max: Some(keys * RECORD_BYTES / 2),
            segment_bytes: 4 << 20,
            index_bits: Some((keys / 7).ilog2()),
            ..Options::default()
        };
        let store = Store::open(host, options)?;
        Ok(Self { store, sequence, device, crank, clock, _pool: pool })
    }

    fn put(&self, number: u64) -> Outcome<()> {
        let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
        let ops = [Op::Put { key: &key, value: &VALUE }];
        let ticket = self.sequence.begin();
        Ok(self.store.write(&ops, ticket.seqno())?)
    }

    fn figure(&self, name: &str) -> u64 {
        let detail = self.store.stats().detail;
        detail.iter().find(|(known, _)| *known == name).map_or(0, |(_, figure)| *figure)
    }
}

/// Measures one way, in this process.
fn measure(dir: &Path, keys: u64, updates: u64, rounds: u64, way: &str) -> Outcome<()> {
    let bench = Bench::open(dir, keys, way == "scans")?;
    (0..keys).try_for_each(|number| bench.put(number))?;
    let mut random = Environment::seeded(1).random("updates");
    // The logarithm of the rank is uniform.
    (0..updates).try_for_each(|_| bench.put((keys as f64).powf(random.random()) as u64 - 1))?;
    bench.store.flush()?;
    let (before, reads) = (peak()?, bench.device.accounting().counts());
    let log = bench.figure("log_bytes") as f64 / MIB;
    let environment = Environment::real();
    let began = environment.now();
    while bench.figure("compactions") < rounds {
        let done = bench.figure("compactions");
        bench.clock.advance(Duration::from_millis(20));
        bench.crank.run_all();
        if bench.figure("compactions") == done {
            return Err("no round was due".into());
        }
    }
    let seconds = (environment.now() - began).as_secs_f64();
    let counts = bench.device.accounting().counts();
    let compacted = bench.figure("compacted_bytes") as f64 / MIB;
    println!(
        "{way:<8} {seconds:6.2} s for {compacted:.0} MiB of {log:.0}, {:6.1} MiB/s, {:.2} M records/s, \
         read {:.0} MiB in {} reads, {:.1} MiB more resident, {:.0}% alive",
        compacted / seconds,
        bench.figure("compacted_records") as f64 / seconds / 1e6,
        (counts.read_bytes - reads.read_bytes) as f64 / MIB,
        counts.read_ops - reads.read_ops,
        (peak()? - before) as f64 / MIB,
        bench.figure("compacted_live_records") as f64 / bench.figure("compacted_records") as f64
            * 100.0,
    );
    Ok(bench.store.close()?)
}

/// Returns the most bytes that were resident until now.
fn peak() -> Outcome<u64> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no such line")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let parent = arguments.first().ok_or("usage: compactions DIR [KEYS [ROUNDS]]")?;
    let number =
        |at: usize, default: u64| arguments.get(at).map_or(Ok(default), |text| text.parse::<u64>());
    let (keys, rounds) = (number(1, 5_000_000)?, number(2, 3)?);
    if let Some(way) = arguments.get(3) {
        return measure(Path::new(parent), keys, number(4, keys)?, rounds, way);
    }
    for (updates, rounds) in [(0, 1), (keys, rounds)] {
        println!("after {keys} keys and {updates} updates:");
        for way in ["lookups", "scans"] {
            let dir = tempfile::Builder::new().prefix("compactions").tempdir_in(parent)?;
            let mut command = Command::new(std::env::current_exe()?);
            command.arg(dir.path()).args([keys, rounds].map(|number| number.to_string()));
            if !command.args([way, &updates.to_string()]).status()?.success() {
                return Err(format!("compaction by {way} failed").into());
            }
        }
    }
    Ok(())
}
