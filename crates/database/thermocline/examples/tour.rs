//! A tour of the database: keyspaces, a batch over two of them, a counter, a snapshot, a scan.
//!
//! `cargo run -p thermocline --example tour -- DIRECTORY`

use std::path::Path;

use thermocline::{Batch, Change, Db, Durability, KeyRange, KeyspaceOptions, Options};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: tour DIRECTORY")?;
    show(Path::new(&path))
}

/// Does so in a directory.
pub(crate) fn show(path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let db = Db::open(path, Options::default())?;
    let orders = db.keyspace("orders", KeyspaceOptions::default())?;
    let counts = db.keyspace("counts", KeyspaceOptions::default())?;

    // One write over two keyspaces, acknowledged once it would survive a power cut.
    let mut batch = Batch::new();
    batch.put(&orders, b"2026-001", b"12 apples").put(&orders, b"2026-002", b"3 pears");
    batch.put(&counts, b"customers", b"1");
    db.durability(Durability::Synced).write(&batch)?;

    // An atomic counter.
    counts.rmw(b"customers", |old| {
        let text = old.map_or("0", |bytes| std::str::from_utf8(bytes).unwrap_or("0"));
        Change::Put((text.parse::<u64>().unwrap_or(0) + 1).to_string().into_bytes())
    })?;

    // A snapshot does not move.
    let yesterday = db.snapshot()?;
    orders.put(b"2026-002", b"4 pears")?;
    for pair in yesterday.scan(&orders, KeyRange::prefix(b"2026-"))? {
        let (key, value) = pair?;
        println!("{}: {}", key.escape_ascii(), value.escape_ascii());
    }

    let stats = db.stats();
    println!("{} keyspaces, {} bytes on disk", stats.keyspaces.len(), stats.disk_bytes());
    db.close()?;
    Ok(())
}
