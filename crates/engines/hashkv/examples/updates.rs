//! Loads a store without a database around it, and then updates its keys by Zipf's law.
//!
//! ```text
//! cargo run --release -p thermocline-hashkv --example updates -- \
//!     DIR KEYS SECONDS [MEMORY_MIB [VALUE_BYTES [RESERVE_PERCENT [POLICY [DISK_MIB]]]]]
//! ```
//!
//! Keys of 24 bytes. Prints the speed and the bytes of the volumes on the device each second, and
//! the figures of the store after each phase. With DISK_MIB values take at most that space, and
//! writes that are refused are counted.

use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::time::Duration;

use engine::{BlockingWrites, Engine, Host, NoJournal, Op, Sequence};
use environment::Environment;
use memory_budget::MemoryBudget;
use rand::RngExt;
use telemetry::Registry;
use thermocline_hashkv::{Options, Policy, Store};
use workers::Pool;

/// Writes between two looks at the clock.
const STEP: u64 = 1024;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let dir = arguments.first().ok_or("usage: updates DIR KEYS SECONDS [MEMORY_MIB ...]")?;
    let number =
        |at: usize, default: u64| arguments.get(at).map_or(Ok(default), |text| text.parse::<u64>());
    let (keys, seconds, memory) = (number(1, 1_000_000)?, number(2, 10)?, number(3, 100)? << 20);
    let (value_bytes, reserve) = (number(4, 1000)? as usize, number(5, 30)? as u32);
    let policy = match arguments.get(6) {
        Some(name) => Policy::ALL.into_iter().find(|policy| policy.name() == name),
        None => Some(Policy::CostBenefit),
    };
    let environment = Environment::real();
    let telemetry = Registry::default();
    let sequence = Arc::new(Sequence::new());
    let host = Host {
        device: device::open(dir, device::Options::default())?,
        workers: Pool::start(&environment, 2, &telemetry)?,
        telemetry,
        environment: environment.clone(),
        sequence: Arc::clone(&sequence),
        barrier: Arc::new(NoJournal),
        memory: Arc::new(MemoryBudget::new(memory)),
    };
    let policy = policy.ok_or("a policy: cost-benefit, greedy, greedy-random or group")?;
    let disk_bytes_max = Some(number(7, 0)? << 20).filter(|bytes| *bytes > 0);
    let options =
        Options { reserve_percent: reserve, policy, disk_bytes_max, ..Options::default() };
    let store = Store::open(host, options)?;
    sequence.recover_to(store.persisted());
    let value = vec![7; value_bytes];
    let mut refused = 0_u64;
    let mut write = |key: u64| {
        let key = format!("{key:024}").into_bytes();
        match store.write_next(&[Op::Put { key: &key, value: &value }], &sequence) {
            Err(engine::Error::NoSpace { .. }) => refused += 1,
            written => return written.map(|_| ()),
        }
        Ok(())
    };
    let began = environment.now();
    for key in 0..keys {
        write(scattered(key, keys))?;
    }
    println!("load: {:.1} k/s", keys as f64 / (environment.now() - began).as_secs_f64() / 1e3);
    print(&store);
    let mut random = environment.random("updates");
    let began = environment.now();
    let (mut done, mut printed, mut second) = (0_u64, 0_u64, 1);
    while second <= seconds {
        for _ in 0..STEP {
            // Zipf's law with the exponent 1.
            let rank = (keys as f64).powf(random.random::<f64>()) as u64 - 1;
            write(scattered(rank, keys))?;
        }
        done += STEP;
        if environment.now() - began >= Duration::from_secs(second) {
            let (speed, bytes) = ((done - printed) as f64 / 1e3, volume_bytes(dir)?);
            println!("{second} s: {speed:.1} k/s, {:.1} MiB", bytes as f64 / 1048576.0);
            (printed, second) = (done, second + 1);
        }
    }
    println!("updates: {:.1} k/s", done as f64 / (environment.now() - began).as_secs_f64() / 1e3);
    println!("refused {refused}");
    print(&store);
    Ok(store.close()?)
}

/// Returns another key for each rank: the prime divides no number of keys that is of use.
fn scattered(rank: u64, keys: u64) -> u64 {
    rank * 2_654_435_761 % keys
}

/// Returns the bytes that volumes take on the device.
fn volume_bytes(dir: &str) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("volume-") {
            bytes += entry.metadata()?.blocks() * 512;
        }
    }
    Ok(bytes)
}

fn print(store: &Store) {
    for (name, figure) in store.stats().detail {
        println!("{name} {figure}");
    }
}
