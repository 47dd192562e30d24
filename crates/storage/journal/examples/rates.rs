//! Prints the journal's rates on a directory's device, next to the device's own sync rate.
//! It measures appends and synced groups, in turn with that rate. If other processes use the device
//! too, rates that are measured sequentially do not compare; the share of the time in which a sync
//! was under way does.
//!
//! `cargo run --release -p thermocline-journal --example rates -- [DIR] [--direct]`

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use codec::SeqNo;
use device::{Device, Io, Mode, SyncKind};
use environment::Environment;
use thermocline_journal::{Durability, Journal, Options, Stats};

type Outcome<T> = Result<T, Box<dyn Error>>;

const PAYLOAD: [u8; 100] = [b'x'; 100];
const ROUND: Duration = Duration::from_secs(2);

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let io = if arguments.iter().any(|a| a == "--direct") { Io::Direct } else { Io::Buffered };
    let parent = arguments.iter().find(|a| !a.starts_with("--")).map_or(".", String::as_str);
    let dir = tempfile::Builder::new().prefix("journal-rates").tempdir_in(parent)?;
    let device = device::open(dir.path(), device::Options { io, ..device::Options::default() })?;
    let environment = Environment::real();
    println!("device {}, records of {} bytes", device.kind(), PAYLOAD.len());
    for threads in [1, 2] {
        buffered(&device, &environment, threads)?;
    }
    for threads in [1, 8, 64, 256] {
        let raw = raw_sync_rate(&device, &environment)?;
        synced(&device, &environment, threads, raw)?;
    }
    Ok(())
}

/// Syncs per second of a file that grows by one block each time.
fn raw_sync_rate(device: &Arc<dyn Device>, environment: &Environment) -> Outcome<f64> {
    let file = device.open("raw", Mode::Create)?;
    file.set_len(0)?;
    let block = vec![1; 4096];
    let began = environment.now();
    let mut syncs = 0;
    while environment.now() - began < ROUND {
        file.write_at(syncs * block.len() as u64, &block)?;
        file.sync(SyncKind::Data)?;
        syncs += 1;
    }
    Ok(syncs as f64 / (environment.now() - began).as_secs_f64())
}

fn buffered(device: &Arc<dyn Device>, environment: &Environment, threads: usize) -> Outcome<()> {
    let (seconds, stats) = run(device, environment, threads, Durability::Buffered)?;
    println!(
        "buffered, {threads:3} threads: {:10.0} records/s, {:6.0} records a write",
        stats.records as f64 / seconds,
        stats.records_per_group(),
    );
    Ok(())
}

fn synced(
    device: &Arc<dyn Device>,
    environment: &Environment,
    threads: usize,
    raw: f64,
) -> Outcome<()> {
    let (seconds, stats) = run(device, environment, threads, Durability::Synced)?;
    let syncs = stats.syncs as f64 / seconds;
    println!(
        "synced,   {threads:3} threads: {:10.0} records/s, {syncs:6.0} syncs/s of {raw:6.0} raw \
         ({:3.0}%), {:6.1} records a sync, sync {:6.2} ms mean {:6.2} ms max, device busy {:3.0}%",
        stats.records as f64 / seconds,
        100.0 * syncs / raw,
        stats.records_per_sync(),
        1e3 * stats.sync_time.as_secs_f64() / stats.syncs as f64,
        1e3 * stats.sync_time_max.as_secs_f64(),
        100.0 * stats.sync_time.as_secs_f64() / seconds,
    );
    Ok(())
}

/// Appends from `threads` threads for a round, each waiting for its record before the next.
fn run(
    device: &Arc<dyn Device>,
    environment: &Environment,
    threads: usize,
    durability: Durability,
) -> Outcome<(f64, Stats)> {
    device.remove_dir("journal")?;
    let device = device.clone();
    let options = Options::default();
    let opened =
        Journal::open(device, "journal", options, environment, SeqNo::ZERO, &mut |_, _| Ok(()))?;
    let journal = Arc::new(opened.0);
    let next = Arc::new(AtomicU64::new(1));
    let began = environment.now();
    let mut workers = Vec::new();
    for _ in 0..threads {
        let (journal, next, clock) = (journal.clone(), next.clone(), environment.clone());
        workers.push(environment.spawn("appender", move || {
            while clock.now() - began < ROUND {
                let batch = if durability == Durability::Buffered { 1000 } else { 1 };
                for _ in 0..batch {
                    let number = || SeqNo::new(next.fetch_add(1, Ordering::Relaxed));
                    let seqno =
                        journal.append(number, |_, bytes| bytes.extend_from_slice(&PAYLOAD))?;
                    journal.wait(seqno, durability)?;
                }
            }
            Ok::<_, thermocline_journal::Error>(())
        })?);
    }
    for worker in workers {
        worker.join().map_err(|_| "an appender panicked")??;
    }
    let seconds = (environment.now() - began).as_secs_f64();
    let stats = journal.stats();
    journal.close()?;
    Ok((seconds, stats))
}
