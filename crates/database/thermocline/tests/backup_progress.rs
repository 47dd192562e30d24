//! A progress that is kept after its backup has failed holds no descriptor of the target.
//!
//! One test, since descriptors are counted for the whole process.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use device::{Failure, Fault, FaultDevice, Lasting, OperationKind};
use thermocline::{Backups, Db, Options, Progress, Stage};

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn a_progress_holds_no_descriptor_after_a_failed_backup() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open_on(device::memory(), "database", Options::default()).unwrap();
    db.keyspace("space", Default::default()).unwrap().put(b"key", b"value").unwrap();
    let before = descriptors();
    let progress = Progress::default();
    let real = device::open(dir.path(), device::Options::default()).unwrap();
    let target = FaultDevice::new(real);
    let kind = Some(OperationKind::Write);
    target.fail(Fault { kind, nth: 1, failure: Failure::Io, lasting: Lasting::ForGood });
    let backups = Backups::open_on(target.clone(), "backups").unwrap();
    db.backup(&backups, &progress).unwrap_err();
    assert_eq!(target.failed(), 1);
    drop((backups, target));
    assert_eq!(descriptors(), before, "{progress:?}");
    assert_eq!(progress.now().0, Stage::Copying, "it tells how far the backup came");
}
