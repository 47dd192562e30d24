//! The time, syncs and descriptors of opening a database with many keyspaces after an orderly
//! close, and the costs of the idle database: `many_keyspaces DIRECTORY [KEYSPACES] [ENGINE]`. The
//! directory must be new.

#![expect(clippy::unwrap_used, reason = "an example ends at its first error")]
#![expect(clippy::disallowed_methods, reason = "it measures")]

use std::time::{Duration, Instant};

use thermocline::{Db, Durability, EngineKind, KeyspaceOptions, Options};

/// From the opening until nothing is done any more, and how long the idle database is watched.
const SETTLING: Duration = Duration::from_secs(8);
const IDLE: Duration = Duration::from_secs(10);

fn main() {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().expect("a directory");
    let keyspaces: u32 = arguments.next().map_or(1000, |text| text.parse().unwrap());
    let engine: EngineKind = arguments.next().map_or(EngineKind::Lsm, |text| text.parse().unwrap());
    let options =
        Options { memory_bytes: 16 << 30, durability: Durability::Buffered, ..Options::default() };
    let began = Instant::now();
    let db = Db::open(&dir, options.clone()).unwrap();
    for number in 0..keyspaces {
        let options = KeyspaceOptions { engine, ..KeyspaceOptions::default() };
        let space = db.keyspace(&format!("space-{number}"), options).unwrap();
        space.put(b"key", &number.to_le_bytes()).unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    drop(db);
    println!("{keyspaces} keyspaces of {engine} made in {:?}", began.elapsed());
    for _ in 0..3 {
        let began = Instant::now();
        let device = device::open(&dir, device::Options::default()).unwrap();
        let db = Db::open_on(std::sync::Arc::clone(&device), &dir, options.clone()).unwrap();
        let (took, counts) = (began.elapsed(), device.accounting().counts());
        let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().count();
        println!(
            "opened in {took:?}: {} syncs, {} reads, {} writes, {descriptors} descriptors",
            counts.syncs, counts.read_ops, counts.write_ops
        );
        db.close().unwrap();
    }
    let db = Db::open(&dir, options).unwrap();
    std::thread::sleep(SETTLING);
    let (wakes, ticks) = idle_costs();
    std::thread::sleep(IDLE);
    let (wakes, ticks) = (idle_costs().0 - wakes, idle_costs().1 - ticks);
    println!("idle for {IDLE:?}: threads woke {wakes} times, {} ms of a processor", ticks * 10);
    db.close().unwrap();
}

/// How often the threads of this process have waited, and hundredths of a second that they have
/// run.
fn idle_costs() -> (u64, u64) {
    let wakes = std::fs::read_dir("/proc/self/task").unwrap().map(|task| {
        let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.unwrap().trim().parse::<u64>().unwrap()
    });
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields = stat.rsplit_once(')').unwrap().1.split_whitespace().skip(11).take(2);
    (wakes.sum(), fields.map(|ticks| ticks.parse::<u64>().unwrap()).sum())
}
