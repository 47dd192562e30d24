//! The time, syncs and descriptors of opening a database with many keyspaces after an orderly close:
//! `many_keyspaces DIRECTORY [KEYSPACES] [ENGINE]`. The directory must be new.

#![expect(clippy::unwrap_used, reason = "an example ends at its first error")]
#![expect(clippy::disallowed_methods, reason = "it measures")]

use std::time::Instant;

use thermocline::{Db, Durability, EngineKind, KeyspaceOptions, Options};

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
}
