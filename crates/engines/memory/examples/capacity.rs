//! Prints how fast a large store is filled, flushed and opened, and what memory each takes.
//!
//! `cargo run --release -p thermocline-memory --example capacity -- [KEYS] [DIR] [ROUNDS]`
//!
//! Keys of 8 bytes, scattered, with values of 100; ten million unless said otherwise, three flushes
//! and three openings. Memory is the process's resident memory by the kernel's count, less the
//! memory that was resident before.
#![expect(clippy::disallowed_methods, reason = "/proc is no storage of the database")]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use device::Device;
use engine::{BlockingWrites, Engine, Host, NoJournal, Op, Sequence};
use environment::Environment;
use memory_budget::MemoryBudget;
use thermocline_memory::{Options, Store};

type Outcome<T> = Result<T, Box<dyn Error>>;

const VALUE: [u8; 100] = [b'x'; 100];
const MIB: f64 = (1 << 20) as f64;

struct Bench {
    store: Store,
    sequence: Arc<Sequence>,
    budget: Arc<MemoryBudget>,
}

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let keys: u64 = arguments.next().map_or(Ok(10_000_000), |keys| keys.parse())?;
    let parent = arguments.next().unwrap_or_else(|| ".".to_owned());
    let rounds: u32 = arguments.next().map_or(Ok(3), |rounds| rounds.parse())?;
    let dir = tempfile::Builder::new().prefix("memory-capacity").tempdir_in(parent)?;
    let device = device::open(dir.path(), device::Options::default())?;
    let environment = Environment::real();

    let before = resident()?;
    let bench = open(&device, &environment)?;
    let took = timed(&environment, || (0..keys).try_for_each(|number| put(&bench, number)))?;
    println!(
        "fill   {:7.2} s, {:5.2} M keys/s, {:6.1} B a key resident, {:6.1} counted",
        took.as_secs_f64(),
        keys as f64 / took.as_secs_f64() / 1e6,
        (resident()? - before) as f64 / keys as f64,
        bench.budget.used() as f64 / keys as f64,
    );
    for _ in 0..rounds {
        put(&bench, 0)?;
        reset_peak()?;
        let (before, used) = (resident()?, bench.budget.used());
        let took = timed(&environment, || Ok(bench.store.flush()?))?;
        let bytes = bench.store.stats().disk_bytes as f64;
        println!(
            "flush  {:7.2} s, {:6.0} MiB/s, {:5.1} MiB more resident at its peak, {} B left counted",
            took.as_secs_f64(),
            bytes / MIB / took.as_secs_f64(),
            (peak()?.saturating_sub(before)) as f64 / MIB,
            bench.budget.used() as i64 - used as i64,
        );
    }
    bench.store.close()?;
    drop(bench);
    for _ in 0..rounds {
        let mut opened = None;
        let took = timed(&environment, || {
            opened = Some(open(&device, &environment)?);
            Ok(())
        })?;
        let Some(bench) = opened else { continue };
        let found = bench.store.stats().live_keys.ok_or("the store counts its keys")?;
        assert_eq!(found, keys, "every key is there");
        println!(
            "open   {:7.2} s, {:5.2} M keys/s, {:6.1} B a key counted",
            took.as_secs_f64(),
            keys as f64 / took.as_secs_f64() / 1e6,
            bench.budget.used() as f64 / keys as f64,
        );
        bench.store.close()?;
    }
    Ok(())
}

fn open(device: &Arc<dyn Device>, environment: &Environment) -> Outcome<Bench> {
    let telemetry = telemetry::Registry::default();
    let sequence = Arc::new(Sequence::new());
    let budget = Arc::new(MemoryBudget::new(u64::MAX));
    let host = Host {
        device: Arc::clone(device),
        workers: workers::Pool::start(environment, 1, &telemetry)?,
        environment: environment.clone(),
        telemetry,
        sequence: Arc::clone(&sequence),
        barrier: Arc::new(NoJournal),
        memory: Arc::clone(&budget),
    };
    let store = Store::open(host, Options::default())?;
    sequence.recover_to(store.persisted());
    Ok(Bench { store, sequence, budget })
}

/// Scattered over all of `u64`, each number another.
fn put(bench: &Bench, number: u64) -> Outcome<()> {
    let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let ticket = bench.sequence.begin();
    Ok(bench.store.write(&[Op::Put { key: &key, value: &VALUE }], ticket.seqno())?)
}

fn timed(environment: &Environment, work: impl FnOnce() -> Outcome<()>) -> Outcome<Duration> {
    let began = environment.now();
    work()?;
    Ok(environment.now() - began)
}

/// Bytes of the process's memory that are resident now.
fn resident() -> Outcome<u64> {
    status("VmRSS:")
}

/// The most that was, since the last [`reset_peak`].
fn peak() -> Outcome<u64> {
    status("VmHWM:")
}

fn status(field: &str) -> Outcome<u64> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)).ok_or("no such field")?;
    let kib = line.split_ascii_whitespace().next().ok_or("a field without a value")?;
    Ok(kib.parse::<u64>()? * 1024)
}

fn reset_peak() -> Outcome<()> {
    Ok(std::fs::write("/proc/self/clear_refs", "5")?)
}
