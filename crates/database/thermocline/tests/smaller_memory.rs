//! A database that is opened again with less memory than before a crash.

use std::sync::Arc;

use device::{Device, Faults, SimulatedDisk};
use thermocline::{Batch, Db, Durability, EngineKind, KeyspaceOptions, Options};

const MIB: u64 = 1 << 20;
const PAIRS: u64 = 64;
const VALUE_BYTES: usize = 256 << 10;

/// The journal has a batch that is larger than the memory that its keyspace has now.
#[test]
fn a_batch_that_is_larger_than_the_memory_is_replayed() {
    for engine in [EngineKind::Lsm, EngineKind::FlexDb, EngineKind::HashKv] {
        let disk = SimulatedDisk::new(7, Faults::default());
        let open = |disk: &Arc<SimulatedDisk>, memory_bytes| {
            let options = Options { memory_bytes, ..Options::default() };
            Db::open_on(Arc::clone(disk) as Arc<dyn Device>, "smaller", options)
        };
        let db = open(&disk, 128 * MIB).unwrap();
        let options = KeyspaceOptions { engine, ..Default::default() };
        let space = db.keyspace("large", options).unwrap();
        let mut batch = Batch::new();
        for number in 0..PAIRS {
            batch.put(&space, &number.to_be_bytes(), &vec![number as u8; VALUE_BYTES]);
        }
        db.durability(Durability::Synced).write(&batch).unwrap();
        let crashed = disk.crash(1);
        db.close().unwrap();
        let db = open(&crashed, 12 * MIB).unwrap();
        let space = db.existing_keyspace("large").unwrap();
        for number in 0..PAIRS {
            let value = space.get(&number.to_be_bytes()).unwrap();
            assert_eq!(value, Some(vec![number as u8; VALUE_BYTES]), "{engine} {number}");
        }
        db.close().unwrap();
    }
}
