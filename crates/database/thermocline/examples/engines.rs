//! Which engine: one keyspace for each kind of data, in one database with one bound on memory.
//!
//! `cargo run -p thermocline --example engines -- DIRECTORY`

use std::path::Path;

use thermocline::{Db, EngineKind, KeyRange, KeyspaceOptions, Options};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: engines DIRECTORY")?;
    show(Path::new(&path))
}

/// Does so in a directory.
pub(crate) fn show(path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let db = Db::open(path, Options { memory_bytes: 256 << 20, ..Options::default() })?;
    let of = |engine| KeyspaceOptions { engine, ..KeyspaceOptions::default() };

    // Single keys, read and counted again and again, in no order.
    let hits = db.keyspace("hits", of(EngineKind::F2))?;
    // A time series: many writes, and scans of ranges.
    let events = db.keyspace("events", of(EngineKind::Lsm))?;
    // Small pairs that are read and scanned more often than written.
    let names = db.keyspace("names", of(EngineKind::FlexDb))?;
    // Documents of some kilobytes that are replaced again and again, within a bound on space.
    let drafts = db.keyspace("drafts", of(EngineKind::HashKv))?;
    // Small data that stays in memory, with a journal on disk.
    let settings = db.keyspace("settings", of(EngineKind::Memory))?;

    for number in 0..1000_u32 {
        hits.put(&number.to_be_bytes(), b"1")?;
        events.put(format!("2026-11-30 {number:06}").as_bytes(), b"started")?;
        names.put(format!("user {number:06}").as_bytes(), b"Ada")?;
        drafts.put(&number.to_be_bytes(), &[b'x'; 3000])?;
    }
    settings.put(b"theme", b"dark")?;

    let morning = KeyRange::prefix(b"2026-11-30 0000");
    println!("{} events", events.scan(morning)?.count());
    println!("{} users", names.scan(KeyRange::prefix(b"user "))?.count());
    for keyspace in &db.stats().keyspaces {
        println!("{}: {} bytes on disk", keyspace.name, keyspace.engine.disk_bytes);
    }
    db.close()?;
    Ok(())
}
