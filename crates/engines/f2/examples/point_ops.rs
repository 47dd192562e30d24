//! Reads, upserts and read-modify-writes of the store alone, without a facade around it.
//!
//! ```text
//! cargo run --release -p thermocline-f2 --example point_ops -- KEYS THREADS SECONDS [LOG_MIB
//! [DIR]]
//! ```
//!
//! Keys of 8 bytes drawn by Zipf's law (0.99), values of 100. Prints operations per second. The
//! threads lock no keys, so an update may be lost if the old value was read from the device.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use engine::{BlockingWrites, Change, Engine, Host, NoJournal, Op, Operator, SeqNo, Sequence};
use environment::Environment;
use memory_budget::MemoryBudget;
use rand::{Rng, RngExt};
use reads::BlockingReads;
use telemetry::Registry;
use thermocline_f2::{Options, Store};
use workers::Pool;

/// Keys of one call of `multi_get`.
const KEYS_PER_TURN: usize = 32;
/// Draws of one thread, made before the clock runs.
const DRAWS: usize = 1 << 20;

struct Count;

impl Operator for Count {
    fn update_in_place(&mut self, value: &mut [u8]) -> bool {
        if let Some(first) = value.first_mut() {
            *first = first.wrapping_add(1);
        }
        true
    }

    fn update(&mut self, value: Option<&[u8]>) -> Change {
        Change::Put(value.map_or_else(|| vec![0; 100], <[u8]>::to_vec))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |at: usize, default: u64| arguments.get(at).map_or(Ok(default), |text| text.parse::<u64>());
    let (keys, threads, seconds) = (number(0, 1_000_000)?, number(1, 1)?, number(2, 3)?);
    let log_bytes = number(3, 4096)? << 20;
    let environment = Environment::real();
    let telemetry = Registry::default();
    let device = match arguments.get(4) {
        Some(dir) => device::open(dir, device::Options::default())?,
        None => device::memory(),
    };
    let store = Store::open(
        Host {
            device,
            workers: Pool::start(&environment, 2, &telemetry)?,
            telemetry,
            environment: environment.clone(),
            sequence: Arc::new(Sequence::new()),
            barrier: Arc::new(NoJournal),
            memory: Arc::new(MemoryBudget::new(u64::MAX)),
        },
        Options { log_memory_bytes: Some(log_bytes), ..Options::default() },
    )?;
    let began = environment.now();
    let value = [7; 100];
    for key in 0..keys {
        store.write(&[Op::Put { key: &key.to_le_bytes(), value: &value }], SeqNo::new(1))?;
    }
    let took = environment.now() - began;
    println!("load: {:.0} k/s", keys as f64 / took.as_secs_f64() / 1e3);
    let draws: Vec<Vec<u32>> =
        (0..threads).map(|thread| zipf(&environment, keys, thread)).collect();
    for (name, reads, rmws) in [
        ("C (reads)", 100, 0),
        ("A (half upserts)", 50, 0),
        ("W (95% upserts)", 5, 0),
        ("F (half rmw)", 50, 50),
    ] {
        let (stop, total) = (AtomicBool::new(false), AtomicU64::new(0));
        let began = environment.now();
        std::thread::scope(|scope| {
            for draws in &draws {
                let (store, stop, total) = (&store, &stop, &total);
                scope.spawn(move || {
                    let mut into = Vec::new();
                    let mut done = 0;
                    for (at, key) in draws.iter().cycle().enumerate() {
                        let key = u64::from(*key).to_le_bytes();
                        let result = match at % 100 {
                            dice if dice < reads => store.get(&key, &mut into).map(drop),
                            _ if rmws > 0 => store.rmw(&key, &mut Count, SeqNo::new(1)),
                            _ => {
                                let put = Op::Put { key: &key, value: &value };
                                store.write(&[put], SeqNo::new(1))
                            }
                        };
                        assert!(result.is_ok(), "{result:?}");
                        done += 1;
                        if at % 256 == 0 && stop.load(Relaxed) {
                            break;
                        }
                    }
                    total.fetch_add(done, Relaxed);
                });
            }
            environment.sleep(Duration::from_secs(seconds));
            stop.store(true, Relaxed);
        });
        let took = (environment.now() - began).as_secs_f64();
        println!("{name}: {:.0} k/s", total.load(Relaxed) as f64 / took / 1e3);
    }
    many_at_once(&store, &environment, &draws, Duration::from_secs(seconds));
    for (name, figure) in store.stats().detail {
        println!("{name} {figure}");
    }
    Ok(store.close()?)
}

/// Reads several keys with each call.
fn many_at_once(store: &Store, environment: &Environment, draws: &[Vec<u32>], length: Duration) {
    let total = AtomicU64::new(0);
    let began = environment.now();
    let until = began + length;
    std::thread::scope(|scope| {
        for draws in draws {
            scope.spawn(|| {
                for some in draws.chunks_exact(KEYS_PER_TURN).cycle() {
                    multi_get(store, some);
                    total.fetch_add(KEYS_PER_TURN as u64, Relaxed);
                    if environment.now() > until {
                        return;
                    }
                }
            });
        }
    });
    let took = (environment.now() - began).as_secs_f64();
    let total = total.load(Relaxed) as f64;
    println!("C ({KEYS_PER_TURN} keys at once): {:.0} k/s", total / took / 1e3);
}

fn multi_get(store: &Store, some: &[u32]) {
    let keys: [[u8; 8]; KEYS_PER_TURN] =
        std::array::from_fn(|at| u64::from(some[at]).to_le_bytes());
    let keys: [&[u8]; KEYS_PER_TURN] = std::array::from_fn(|at| keys[at].as_slice());
    let mut found = 0;
    let outcome = store.multi_get(&keys, &mut |_, value| found += usize::from(value.is_some()));
    assert!(outcome.is_ok() && found == keys.len(), "{outcome:?}");
}

/// Draws keys by Zipf's law, scattered over the key space.
fn zipf(environment: &Environment, keys: u64, thread: u64) -> Vec<u32> {
    let mut random = environment.random("draws");
    for _ in 0..thread {
        random.next_u64();
    }
    let theta = 0.99;
    let zeta = |count: u64| (1..=count).map(|rank| (rank as f64).powf(-theta)).sum::<f64>();
    let (zeta_all, zeta_two) = (zeta(keys), zeta(2));
    let alpha = 1.0 / (1.0 - theta);
    let eta = (1.0 - (2.0 / keys as f64).powf(1.0 - theta)) / (1.0 - zeta_two / zeta_all);
    let mut draw = || {
        let uniform: f64 = random.random();
        let scaled = uniform * zeta_all;
        let rank = if scaled < 1.0 {
            0
        } else if scaled < 1.0 + 0.5_f64.powf(theta) {
            1
        } else {
            (keys as f64 * (eta * uniform - eta + 1.0).powf(alpha)) as u64
        };
        (rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) % keys) as u32
    };
    (0..DRAWS).map(|_| draw()).collect()
}
