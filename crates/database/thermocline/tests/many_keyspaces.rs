//! Many keyspaces in one database: the costs of opening them, counted at the device.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use device::Device;
use thermocline::{Db, Durability, EngineKind, KeyspaceOptions, Options};

/// Syncs of an opening after an orderly close, whatever the number of keyspaces.
const SYNCS_MAX: u64 = 10;

fn open_with(device: &Arc<dyn Device>, memory_bytes: u64) -> Db {
    let durability = Durability::Buffered;
    let options = Options { memory_bytes, durability, ..Options::default() };
    Db::open_on(Arc::clone(device), "many", options).unwrap()
}

fn open(device: &Arc<dyn Device>) -> Db {
    open_with(device, 1 << 30)
}

fn syncs(device: &Arc<dyn Device>) -> u64 {
    device.accounting().counts().syncs
}

fn name(number: u32) -> String {
    format!("space-{number}")
}

/// Makes keyspaces, each with a pair that was flushed and one that the journal alone has.
fn fill(db: &Db, engine: EngineKind, keyspaces: u32) {
    for number in 0..keyspaces {
        let options = KeyspaceOptions { engine, ..KeyspaceOptions::default() };
        let space = db.keyspace(&name(number), options).unwrap();
        space.put(b"flushed", &number.to_le_bytes()).unwrap();
        space.flush().unwrap();
        space.put(b"journaled", &number.to_le_bytes()).unwrap();
    }
    db.close().unwrap();
}

fn check(db: &Db, keyspaces: u32) {
    for number in 0..keyspaces {
        let space = db.existing_keyspace(&name(number)).unwrap();
        for key in [&b"flushed"[..], b"journaled"] {
            assert_eq!(space.get(key).unwrap().as_deref(), Some(&number.to_le_bytes()[..]));
        }
    }
}

#[test]
fn a_thousand_keyspaces_of_lsm_open_with_few_syncs() {
    const KEYSPACES: u32 = 1000;
    const MEMORY_BYTES: u64 = 16 << 30;
    let device = device::memory();
    fill(&open_with(&device, MEMORY_BYTES), EngineKind::Lsm, KEYSPACES);
    for _ in 0..2 {
        let before = syncs(&device);
        let db = open_with(&device, MEMORY_BYTES);
        let syncs = syncs(&device) - before;
        assert!(syncs <= SYNCS_MAX, "{syncs} syncs");
        check(&db, KEYSPACES);
        db.close().unwrap();
    }
}

#[test]
fn keyspaces_of_every_engine_open_with_few_syncs() {
    const KEYSPACES: u32 = 30;
    for &engine in EngineKind::ALL {
        let device = device::memory();
        fill(&open(&device), engine, KEYSPACES);
        for _ in 0..2 {
            let before = syncs(&device);
            let db = open(&device);
            let syncs = syncs(&device) - before;
            assert!(syncs <= SYNCS_MAX, "{engine}: {syncs} syncs");
            check(&db, KEYSPACES);
            db.close().unwrap();
        }
    }
}

/// After a kill nothing says that the files are durable. The next close makes them durable before
/// it says so itself.
#[test]
fn a_close_makes_the_files_durable_that_an_opening_after_a_kill_has_found() {
    const KEYSPACES: u32 = 10;
    for &engine in EngineKind::ALL {
        let device = device::memory();
        fill(&open(&device), engine, KEYSPACES);
        open(&device).close().unwrap();
        // As a kill leaves it: an opening takes the mark away first.
        device.remove("CLOSED").unwrap();
        let before = syncs(&device);
        open(&device).close().unwrap();
        let syncs_of_close = syncs(&device) - before;
        assert!(syncs_of_close >= u64::from(2 * KEYSPACES), "{engine}: {syncs_of_close}");
        let before = syncs(&device);
        open(&device).close().unwrap();
        let again = syncs(&device) - before;
        assert!(again < u64::from(KEYSPACES), "{engine}: {again}");
    }
}

/// A close leaves an empty file. One with bytes in it says nothing.
#[test]
fn a_mark_of_a_close_that_has_bytes_is_not_trusted() {
    const KEYSPACES: u32 = 10;
    let device = device::memory();
    fill(&open(&device), EngineKind::Lsm, KEYSPACES);
    open(&device).close().unwrap();
    device.open("CLOSED", device::Mode::Write).unwrap().write_at(0, &[0; 17]).unwrap();
    let before = syncs(&device);
    open(&device).close().unwrap();
    let syncs_of_close = syncs(&device) - before;
    assert!(syncs_of_close >= u64::from(2 * KEYSPACES), "{syncs_of_close}");
}

/// A process was killed while its last commit was not synced. Another one opens the database, and
/// trims the journal: a power cut afterwards finds every write.
#[test]
fn nothing_is_trimmed_because_of_what_the_page_cache_alone_has() {
    use device::{Faults, SimulatedDisk};
    let runs = EngineKind::ALL.iter().flat_map(|&engine| (0..20).map(move |seed| (seed, engine)));
    for (seed, engine) in runs {
        let disk = SimulatedDisk::new(seed, Faults::none());
        let device: Arc<dyn Device> = disk.clone();
        let db = open(&device);
        let options = KeyspaceOptions { engine, ..KeyspaceOptions::default() };
        let space = db.keyspace("space", options).unwrap();
        for round in 0..20_u32 {
            space.put(&round.to_le_bytes(), &[seed as u8; 100]).unwrap();
        }
        db.sync().unwrap();
        // The flush fails at some sync, so the superblock may be in the page cache alone.
        disk.set_faults(Faults { sync_error_ppm: 300_000, ..Faults::none() });
        let _ = space.flush();
        let _ = db.close();
        drop((space, db));
        disk.set_faults(Faults::none());
        let db = open(&device);
        db.close().unwrap();
        drop(db);
        for image in 0..10 {
            let image: Arc<dyn Device> = disk.crash(image);
            let db = open(&image);
            let space = db.existing_keyspace("space").unwrap();
            for round in 0..20_u32 {
                let found = space.get(&round.to_le_bytes()).unwrap();
                assert_eq!(found.as_deref(), Some(&[seed as u8; 100][..]), "{engine}, seed {seed}");
            }
        }
    }
}
