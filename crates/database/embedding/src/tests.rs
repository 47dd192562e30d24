//! Errors and figures as an application sees them.

use thermocline::error::{FailedOperation, TaskPanic};
use thermocline::{Corruption, KeyspaceOptions, SeqNo};

use super::*;

fn device(error: DeviceError) -> Error {
    Error::Engine(EngineError::Device(error))
}

fn io(code: i32, operation: FailedOperation) -> DeviceError {
    DeviceError::Io { operation, name: "log-1".to_owned(), code }
}

#[test]
fn each_kind_has_an_error_and_an_action() {
    const EMFILE: i32 = 24;
    const EIO: i32 = 5;
    let name = || "log-1".to_owned();
    let full = || DeviceError::NoSpace { name: name() };
    let read_only = |cause: Error| Error::ReadOnly { cause: Arc::new(cause) };
    let damaged = || Corruption::new("a checksum differs", 4096).at("log-1", 4096);
    let path = || "data".to_owned();
    let used_up = |cause: EngineError| {
        let cause = Arc::new(cause);
        Error::Engine(EngineError::SpaceUsedUp { what: "a log", bytes: 2, limit: 1, cause })
    };
    let cases = [
        (Error::BadKeyspaceName { name: name() }, ErrorKind::InvalidInput, Action::MendTheCall),
        (Error::NoKeyspace { name: name() }, ErrorKind::NotFound, Action::MendTheCall),
        (Error::NotEmpty { path: path() }, ErrorKind::Exists, Action::MendTheCall),
        (Error::InUse { path: path() }, ErrorKind::InUse, Action::TryAgain),
        (Error::NotExpiring { keyspace: name() }, ErrorKind::Unsupported, Action::MendTheCall),
        (Error::TransactionTooOld { keyspace: name() }, ErrorKind::Conflict, Action::TryAgain),
        (device(full()), ErrorKind::NoSpace, Action::FreeRoom),
        (
            Error::Engine(EngineError::NoRoomForJournal { cause: full() }),
            ErrorKind::NoSpace,
            Action::FreeRoom,
        ),
        (
            Error::Journal(JournalError::NoRoom { cause: full() }),
            ErrorKind::NoSpace,
            Action::FreeRoom,
        ),
        (
            Error::Engine(EngineError::OutOfMemory { limit: 1 << 20 }),
            ErrorKind::OutOfMemory,
            Action::FreeRoom,
        ),
        (device(io(EMFILE, FailedOperation::Open)), ErrorKind::Unavailable, Action::TryAgain),
        (Error::Engine(EngineError::Corruption(damaged())), ErrorKind::Corruption, Action::Restore),
        (read_only(device(full())), ErrorKind::ReadOnly, Action::OpenAgain),
        (used_up(EngineError::Device(full())), ErrorKind::NoSpace, Action::FreeRoom),
        (used_up(EngineError::Corruption(damaged())), ErrorKind::ReadOnly, Action::OpenAgain),
        (
            Error::Journal(JournalError::Stopped { cause: io(EIO, FailedOperation::Sync) }),
            ErrorKind::ReadOnly,
            Action::OpenAgain,
        ),
        (device(io(EIO, FailedOperation::Read)), ErrorKind::Io, Action::OpenAgain),
        (Error::Closed, ErrorKind::Closed, Action::OpenAgain),
        (
            Error::Journal(JournalError::OutOfOrder { given: SeqNo::new(1), last: SeqNo::new(2) }),
            ErrorKind::Internal,
            Action::MendTheCall,
        ),
    ];
    for (error, kind, wanted) in cases {
        assert_eq!((error.kind(), action(&error)), (kind, wanted), "{error}");
    }
    // A background panic carries a type that an application can name.
    let of_panic = |panic: TaskPanic| Error::Background(panic).kind();
    let _: fn(TaskPanic) -> ErrorKind = of_panic;
}

#[test]
fn a_copy_has_the_kind_of_its_cause() {
    let cause = Arc::new(device(DeviceError::NoSpace { name: "backup".to_owned() }));
    let side = thermocline::CopySide::Target;
    let copy = Error::Copy { side, place: "backups".to_owned(), cause };
    assert_eq!(copy.kind(), ErrorKind::NoSpace);
    assert!(copy.is_retryable() && !Error::Closed.is_retryable());
}

#[test]
fn figures_of_a_real_database_have_names() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::open(dir.path(), Options::default()).expect("a database");
    let keyspace = db.keyspace("one", KeyspaceOptions::default()).expect("a keyspace");
    keyspace.put(b"key", b"value").expect("a write");
    let found = figures(&db, &keyspace).expect("figures");
    assert!(found.background_errors.is_empty() && found.journal.bytes > 0, "{found:?}");
    let refused = db.keyspace("../bad", KeyspaceOptions::default()).expect_err("a bad name");
    assert_eq!((refused.kind(), file_of(&refused)), (ErrorKind::InvalidInput, None));
    let _: &Registry = registry(&db);
    db.close().expect("a close");
}

#[test]
fn a_database_on_a_device_needs_no_other_crate() {
    let device = thermocline::device::memory();
    let db = Db::open_on(Arc::clone(&device), "mine", Options::default()).expect("it opens");
    let space = db.keyspace("s", KeyspaceOptions::default()).expect("it is made");
    space.put(b"key", b"value").expect("it is written");
    db.close().expect("it closes");
    let names = device.list("").expect("memory lists");
    assert!(names.iter().any(|entry| entry.is_dir && entry.name == "keyspaces"));
    let report = thermocline::check_on(device, "mine").expect("it is checked");
    assert!(report.is_whole(), "{:?}", report.damage);
}
