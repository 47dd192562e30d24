//! Segments that a sync could not make durable.

use device::{Failure, Fault, FaultDevice, Lasting, OperationKind};
use environment::Environment;

use super::*;

const PAGE_BYTES: u64 = 4096;

/// A checkpoint that is tried again must not name pages that no sync has covered.
#[test]
fn segments_stay_unsynced_after_a_sync_that_cannot_open_one() {
    let faulty = FaultDevice::new(device::memory());
    let geometry = Geometry::new(PAGE_BYTES, PAGE_BYTES, Geometry::FRAMES_MIN, 0.5);
    let salts = Environment::seeded(7).random("segments");
    let (device, none) = (Arc::clone(&faulty) as Arc<dyn Device>, LogAddress::NONE);
    let segments = Segments::open(device, "log", geometry, none, none, salts).expect("is empty");
    for number in 0..2 {
        let segment = segments.of_write(number).expect("there is room");
        let page = Buffer::zeroed(PAGE_BYTES as usize);
        segment.write(geometry.segment_begin(number), &page).expect("there is room");
        // The sync releases the file, so that the next one has to open it.
        segment.file.sync(SyncKind::All).expect("syncs");
        segments.note_written(number);
    }
    let count = |kind| faulty.count(Some(kind));
    let (opens, syncs) = (count(OperationKind::Open), count(OperationKind::Sync));
    let (kind, lasting) = (Some(OperationKind::Open), Lasting::ForGood);
    faulty.fail(Fault { kind, nth: opens + 1, failure: Failure::OutOfFiles, lasting });
    let failed = segments.sync().expect_err("no descriptor is left");
    assert!(failed.is_retryable(), "{failed}");
    assert_eq!(count(OperationKind::Sync), syncs);
    faulty.heal();
    segments.sync().expect("syncs");
    assert_eq!(count(OperationKind::Sync), syncs + 2, "both segments are synced");
    assert_eq!(count(OperationKind::SyncDir), 1);
    segments.sync().expect("syncs");
    assert_eq!(count(OperationKind::Sync), syncs + 2, "nothing is left to sync");
}
