//! Files that an opening of a database opens and reads, counted for each table of `lsm`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use device::{Device, FaultDevice, OperationKind};
use thermocline::{Db, EngineKind, KeyspaceOptions, Options};

use crate::small_parts::with_small_parts;

fn options() -> Options {
    with_small_parts(Options { memory_bytes: 64 << 20, ..Options::default() })
}

/// A database that was closed in order, with a keyspace of `lsm`, and the number of its tables.
fn with_tables(keys: u32) -> (Arc<dyn Device>, u64) {
    let device = device::memory();
    let db = Db::open_on(Arc::clone(&device), "tables", options()).unwrap();
    let lsm = KeyspaceOptions { engine: EngineKind::Lsm, ..KeyspaceOptions::default() };
    let space = db.keyspace("space", lsm).unwrap();
    for number in 0..keys {
        space.put(&number.wrapping_mul(0x9e37_79b1).to_be_bytes(), &[7; 200]).unwrap();
    }
    space.flush().unwrap();
    db.close().unwrap();
    let dir = format!("keyspaces/space/{}", device.list("keyspaces/space").unwrap()[0].name);
    let files = device.list(&dir).unwrap();
    let tables = files.iter().filter(|entry| entry.name.starts_with("table-")).count();
    (device, tables as u64)
}

/// Operations and bytes of one kind of call.
#[derive(Debug)]
struct Costs {
    tables: u64,
    opens: u64,
    reads: u64,
    bytes: u64,
}

/// Counts the costs of `call` on the device of a database with `keys` keys.
fn costs(keys: u32, call: &dyn Fn(Arc<dyn Device>)) -> Costs {
    let (device, tables) = with_tables(keys);
    let counted = FaultDevice::new(device);
    let before = counted.accounting().counts();
    call(Arc::clone(&counted) as Arc<dyn Device>);
    let count = |kind| counted.count(Some(kind));
    let bytes = counted.accounting().counts().read_bytes - before.read_bytes;
    Costs { tables, opens: count(OperationKind::Open), reads: count(OperationKind::Read), bytes }
}

/// Bytes of a header.
const HEADER_BYTES: u64 = 16;
/// Operations that do not depend on the number of tables.
const OTHERS_MAX: u64 = 100;

/// Checks the keyspace alone for files of a newer release, as an opening does first.
fn check_for_newer(device: Arc<dyn Device>) {
    let dir = format!("keyspaces/space/{}", device.list("keyspaces/space").unwrap()[0].name);
    engine::refuse_newer(&*device.subdevice(&dir).unwrap(), lsm::FORMATS).unwrap();
}

#[test]
fn the_check_for_newer_files_opens_each_file_once_and_reads_its_header_once() {
    let costs = costs(10_000, &check_for_newer);
    assert!(costs.tables > 100, "{costs:?}");
    let files = costs.opens;
    // The superblock and manifests are files, too.
    assert!((costs.tables..costs.tables + 8).contains(&files), "{costs:?}");
    assert_eq!((costs.reads, costs.bytes), (files, files * HEADER_BYTES), "{costs:?}");
}

/// The check opens a table and reads its header. The keyspace opens it, and reads its header and
/// its footer.
#[test]
fn an_opening_opens_each_table_twice_and_reads_three_pieces_of_it() {
    // No compaction begins in a database that is opened to read.
    let open = |device: Arc<dyn Device>| {
        Db::open_read_only_on(device, "counted", options()).unwrap().close().unwrap();
    };
    let [few, many] = [10_000, 30_000].map(|keys| costs(keys, &open));
    let tables = many.tables - few.tables;
    assert!(tables > 200, "{few:?}, {many:?}");
    assert!(many.opens - few.opens <= 2 * tables + OTHERS_MAX, "{few:?}, {many:?}");
    assert!(many.reads - few.reads <= 3 * tables + OTHERS_MAX, "{few:?}, {many:?}");
}
