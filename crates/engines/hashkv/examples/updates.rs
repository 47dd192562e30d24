//! Loads a store without a database around it, and then updates its keys by Zipf's law.
//!
//! ```text
//! cargo run --release -p thermocline-hashkv --example updates -- \
//!     DIR KEYS SECONDS [MEMORY_MIB [VALUE_BYTES [RESERVE_PERCENT [POLICY]]]]
//! ```
//!
//! Keys of 24 bytes. Prints the speed each second, and the figures of the store after each phase.

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
    let options = Options { reserve_percent: reserve, policy, ..Options::default() };
    let store = Store::open(host, options)?;
    sequence.recover_to(store.persisted());
    let value = vec![7; value_bytes];
    let write = |key: u64| {
        let key = format!("{key:024}").into_bytes();
        store.write_next(&[Op::Put { key: &key, value: &value }], &sequence)
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
            println!("{second} s: {:.1} k/s", (done - printed) as f64 / 1e3);
            (printed, second) = (done, second + 1);
        }
    }
    println!("updates: {:.1} k/s", done as f64 / (environment.now() - began).as_secs_f64() / 1e3);
    print(&store);
    Ok(store.close()?)
}

/// Returns another key for each rank: the prime divides no number of keys that is of use.
fn scattered(rank: u64, keys: u64) -> u64 {
    rank * 2_654_435_761 % keys
}

fn print(store: &Store) {
    for (name, figure) in store.stats().detail {
        println!("{name} {figure}");
    }
}
