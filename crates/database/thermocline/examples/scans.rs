//! Scans of ranges in both directions, and a snapshot that they can be of.
//!
//! `cargo run -p thermocline --example scans -- DIRECTORY`

use std::path::Path;

use thermocline::{Db, Direction, EngineKind, KeyRange, KeyspaceOptions, Options};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: scans DIRECTORY")?;
    show(Path::new(&path))
}

/// Does so in a directory.
pub(crate) fn show(path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let db = Db::open(path, Options::default())?;
    let options = KeyspaceOptions { engine: EngineKind::Lsm, ..KeyspaceOptions::default() };
    let readings = db.keyspace("readings", options)?;
    for day in 1..=30 {
        readings.put(format!("2026-11-{day:02}").as_bytes(), b"7 degrees")?;
    }

    // The days from the tenth on, without the twentieth and later ones.
    let days = KeyRange::of("2026-11-10".."2026-11-20");
    println!("{} days", readings.scan(days)?.count());

    // The last three days, the newest first.
    let newest_first = readings.scan_in(KeyRange::prefix(b"2026-11-"), Direction::Backward)?;
    for pair in newest_first.take(3) {
        let (day, value) = pair?;
        println!("{}: {}", day.escape_ascii(), value.escape_ascii());
    }

    // A scan without a copy of each pair, at a snapshot that later writes do not change.
    let before = db.snapshot()?;
    readings.delete_range(&KeyRange::all())?;
    let (mut scan, mut bytes) = (before.scan(&readings, KeyRange::all())?, 0);
    while let Some((day, value)) = scan.next_ref()? {
        bytes += day.len() + value.len();
    }
    println!("{bytes} bytes before, {} days now", readings.scan(KeyRange::all())?.count());
    assert_eq!(bytes, 30 * (10 + 9));
    drop((scan, before));
    db.close()?;
    Ok(())
}
