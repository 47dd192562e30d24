//! Checkpoints that engines make while the journal is replayed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use device::{Device, Faults, SimulatedDisk};
use thermocline::{Db, EngineKind, Keyspace, KeyspaceOptions, Options, f2};

const KEYS: u32 = 20_000;
const VALUE_BYTES: usize = 1000;

/// An `f2` with small parts. Its hot log may take up to `disk_bytes_max` bytes of the disk.
fn options(disk_bytes_max: u64) -> Options {
    Options {
        memory_bytes: 64 << 20,
        engines: f2::Options {
            log_memory_bytes: Some(512 << 10),
            read_cache_bytes: Some(128 << 10),
            page_bytes: Some(16 << 10),
            segment_bytes: 64 << 10,
            disk_bytes_max: Some(disk_bytes_max),
            index_bits: Some(4),
            ..f2::Options::default()
        }
        .into(),
        ..Options::default()
    }
}

fn value(key: u32) -> Vec<u8> {
    vec![key as u8; VALUE_BYTES]
}

fn keyspace(db: &Db, name: &str, engine: EngineKind, journaled: bool) -> Keyspace {
    db.keyspace(name, KeyspaceOptions { engine, journaled, ..Default::default() }).unwrap()
}

fn open(disk: &Arc<SimulatedDisk>, disk_bytes_max: u64) -> Db {
    let device = Arc::clone(disk) as Arc<dyn Device>;
    Db::open_on(device, "database", options(disk_bytes_max)).unwrap()
}

/// Keyspaces without a journal, and journaled ones that were flushed, have larger numbers than the
/// record that is replayed. A checkpoint of a third one during the replay must name only what was
/// replayed into it: the opening skips the records below that number, and the journal is trimmed to
/// it.
#[test]
fn a_checkpoint_during_the_replay_has_all_writes_that_it_names() {
    for others in
        [&[(EngineKind::F2, false)][..], &[(EngineKind::Lsm, false), (EngineKind::Lsm, true)]]
    {
        let disk = SimulatedDisk::new(7, Faults::none());
        let db = open(&disk, 256 << 20);
        let behind = keyspace(&db, "behind", EngineKind::F2, true);
        for key in 0..KEYS {
            behind.put(&key.to_be_bytes(), &value(key)).unwrap();
        }
        for (number, (engine, journaled)) in others.iter().enumerate() {
            let other = keyspace(&db, &format!("other{number}"), *engine, *journaled);
            for key in 0..1000_u32 {
                other.put(&key.to_be_bytes(), b"value").unwrap();
            }
            other.flush().unwrap();
        }
        db.sync().unwrap();
        // The second life compacts the hot log while the journal is replayed.
        let mut image = disk.crash(1);
        drop(db);
        for life in 0..3 {
            let db = open(&image, 1 << 20);
            let behind = db.existing_keyspace("behind").unwrap();
            let lost: Vec<u32> = (0..KEYS)
                .filter(|key| behind.get(&key.to_be_bytes()).unwrap() != Some(value(*key)))
                .collect();
            assert!(lost.is_empty(), "life {life}: {} lost, first {:?}", lost.len(), lost.first());
            let next = image.crash(life);
            drop(db);
            image = next;
        }
    }
}
