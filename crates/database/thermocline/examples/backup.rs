//! Backups: incremental copies of an open database, and a database that is restored from one.
//!
//! `cargo run -p thermocline --example backup -- DIRECTORY`

use std::path::Path;

use thermocline::{Backups, Db, EngineKind, KeyspaceOptions, Options, Progress};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: backup DIRECTORY")?;
    show(Path::new(&path))
}

/// Does so in a directory.
pub(crate) fn show(path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let db = Db::open(path.join("db"), Options::default())?;
    let options = KeyspaceOptions { engine: EngineKind::Lsm, ..KeyspaceOptions::default() };
    let users = db.keyspace("users", options)?;
    users.clear()?;
    for number in 0..10_000_u32 {
        users.put(&number.to_be_bytes(), &[b'a'; 100])?;
    }

    let backups = Backups::open(path.join("backups"))?;
    let first = db.backup(&backups, &Progress::default())?;
    users.put(b"late", b"not in the first backup")?;
    let second = db.backup(&backups, &Progress::default())?;
    println!("{} bytes, of which {} are shared", second.bytes, second.shared_bytes);

    // Every file is compared with its sum. A restored database is a directory of its own.
    backups.verify(Some(first.number), &Progress::default())?;
    let copy = path.join("copy");
    backups.restore(Some(first.number), &copy, &Progress::default())?;
    let restored = Db::open(&copy, Options::default())?;
    let old_users = restored.existing_keyspace("users")?;
    assert_eq!(old_users.get(b"late")?, None);
    assert!(old_users.contains_key(&9_999_u32.to_be_bytes())?);
    drop(old_users);
    restored.close()?;
    std::fs::remove_dir_all(&copy)?;

    println!("{} old backups removed", backups.keep(1)?);
    db.close()?;
    Ok(())
}
