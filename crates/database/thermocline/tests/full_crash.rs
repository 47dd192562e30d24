//! Power cuts and kills at operations of a database that was opened on a full device after a kill.
//!
//! The journal has more than there is room for in the engine's files, so the engine makes
//! checkpoints of the part that is flushed. Every image opens with room. It holds each write that
//! was synced before the cut, or a newer one of the same key, and nothing that was never written.
//! `THERMOCLINE_SEED` chooses the first seed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use device::{Device, Faults, RoomDevice, SimulatedDisk};
use thermocline::{Db, EngineKind, Environment, KeyspaceOptions, Options, f2};

const KEYS: u32 = 16_000;
const VALUE_BYTES: usize = 1000;
/// Writes before the kill, for which there is room.
const BEFORE: u32 = 7_500;
/// All writes.
const WRITES: u32 = BEFORE + 4_000;
/// Writes between two syncs.
const SYNC_EVERY: u32 = 100;
/// Bytes that are free after the kill, for each seed.
const ROOM_BYTES: [u64; 3] = [5 << 20, 6 << 20, 7 << 20];
/// Images of a seed.
const IMAGES: u64 = 30;

fn options() -> Options {
    Options {
        memory_bytes: 64 << 20,
        journal_bytes: 8 << 20,
        engines: f2::Options {
            log_memory_bytes: Some(16 << 20),
            read_cache_bytes: Some(128 << 10),
            page_bytes: Some(16 << 10),
            segment_bytes: 64 << 10,
            disk_bytes_max: Some(64 << 20),
            index_bits: Some(4),
            ..f2::Options::default()
        }
        .into(),
        ..Options::default()
    }
}

fn value(write: u32) -> Vec<u8> {
    let mut value = vec![write as u8; VALUE_BYTES];
    value[..4].copy_from_slice(&write.to_be_bytes());
    value
}

/// The newest write of each key that a sync covers, and the operation of the disk after that sync.
struct Synced {
    operation: u64,
    newest: Vec<Option<u32>>,
}

fn key(seed: u64, write: u32) -> u32 {
    codec::hash64(seed, &write.to_le_bytes()) as u32 % KEYS
}

/// A disk as a kill has left it, and the newest write of each key.
fn killed(seed: u64) -> (Arc<SimulatedDisk>, Vec<Option<u32>>) {
    let disk = SimulatedDisk::new(seed, Faults::none());
    let db = Db::open_on(Arc::clone(&disk) as Arc<dyn Device>, "large", options()).unwrap();
    let f2 = KeyspaceOptions { engine: EngineKind::F2, ..Default::default() };
    let space = db.keyspace("space", f2).unwrap();
    let mut newest = vec![None; KEYS as usize];
    for write in 0..BEFORE {
        let key = key(seed, write);
        space.put(&key.to_be_bytes(), &value(write)).unwrap();
        newest[key as usize] = Some(write);
    }
    db.sync().unwrap();
    let image = disk.crash(seed);
    // A flush that was under way has spent the held room.
    image.remove("ballast").unwrap();
    image.remove("keyspaces/space/1/ballast").unwrap();
    (image, newest)
}

/// Writes beyond the room, after writes of which `newest` are the newest. Returns the syncs, the
/// number of refused writes, and the checkpoints of a part.
fn fill(
    disk: &Arc<SimulatedDisk>,
    seed: u64,
    mut newest: Vec<Option<u32>>,
) -> (Vec<Synced>, u32, u64) {
    let device = RoomDevice::new(Arc::clone(disk) as Arc<dyn Device>, 0).unwrap();
    device.fill();
    device.grow(ROOM_BYTES[(seed % 3) as usize]);
    let mut synced = vec![Synced { operation: 0, newest: newest.clone() }];
    let db = Db::open_on(device, "full", options()).unwrap();
    let space = db.existing_keyspace("space").unwrap();
    let mut refused = 0;
    for write in BEFORE..WRITES {
        let key = key(seed, write);
        match space.put(&key.to_be_bytes(), &value(write)) {
            Ok(_) => newest[key as usize] = Some(write),
            Err(error) => {
                assert!(error.is_no_space(), "{error}");
                refused += 1;
                if refused % 16 == 0 {
                    Environment::real().sleep(Duration::from_millis(5));
                }
                if refused % 200 == 0 {
                    let _may_have_no_room = space.flush();
                }
            }
        }
        if write % SYNC_EVERY == 0 && db.sync().is_ok() {
            synced.push(Synced { operation: disk.operations(), newest: newest.clone() });
        }
    }
    // Time for the background to flush and trim parts.
    let clock = Environment::real();
    let deadline = clock.now() + Duration::from_secs(5);
    while clock.now() < deadline && db.stats().journal.bytes > 1 << 20 {
        clock.sleep(Duration::from_millis(20));
    }
    assert_eq!(db.failure(), None);
    let stats = space.stats().unwrap();
    let parts = stats.detail.iter().find(|(name, _)| *name == "checkpoints_in_part").unwrap().1;
    let _may_have_no_room = db.close();
    (synced, refused, parts)
}

#[test]
fn power_cuts_after_an_opening_on_a_full_device_lose_nothing_that_was_synced() {
    let seed = std::env::var("THERMOCLINE_SEED").ok().and_then(|text| text.parse().ok());
    let first: u64 = seed.unwrap_or(1);
    let mut all_parts = 0;
    for seed in first..first + 3 {
        println!("THERMOCLINE_SEED={seed}");
        let (disk, newest) = killed(seed);
        disk.keep_history();
        let (synced, refused, parts) = fill(&disk, seed, newest);
        all_parts += parts;
        let history = disk.history();
        let mut replay = history.replay();
        let last = history.last_operation();
        for image in 1..=IMAGES {
            let operation = last * image / IMAGES;
            replay.advance_to(operation);
            // Every fourth is a kill, which loses nothing that was written.
            let found = match image % 4 {
                0 => replay.crash_losing_nothing(),
                _ => replay.crash(seed ^ (image << 8)),
            };
            let db = Db::open_on(found, "image", options()).unwrap();
            let space = db.existing_keyspace("space").unwrap();
            let before = synced.iter().rev().find(|synced| synced.operation <= operation);
            for key in 0..KEYS {
                let found = space.get(&key.to_be_bytes()).unwrap();
                let found = found.map(|found| {
                    let write = u32::from_be_bytes(found[..4].try_into().unwrap());
                    assert!(found == value(write) && write < WRITES, "{key} at {operation}");
                    write
                });
                let least = before.and_then(|before| before.newest[key as usize]);
                assert!(found >= least, "key {key} at {operation}: {found:?}, synced {least:?}");
            }
        }
        let syncs = synced.len();
        println!("{refused} refused, {syncs} syncs, {parts} parts, {last} operations");
    }
    assert!(all_parts > 0, "no checkpoint of a part was made");
}
