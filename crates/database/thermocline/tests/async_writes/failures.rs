//! Errors of the device arrive at the futures that they are of, typed.

use std::sync::Arc;

use device::{Device, Failure, Fault, FaultDevice, Lasting, OperationKind};
use futures::executor::block_on;
use futures::future::join_all;
use thermocline::{Batch, Durability, EngineKind, Error};

use super::{add_one, filled, key, open_on, options, pending, read, value};

/// Has the third read from now on fail while updates are under way. Returns how many of them
/// failed.
fn updates_that_fail(journaled: bool) -> u64 {
    let device = FaultDevice::new(device::memory());
    let (db, space) = filled(&(Arc::clone(&device) as Arc<dyn Device>), journaled);
    let (kind, failure) = (Some(OperationKind::Read), Failure::Io);
    let nth = device.count(kind) + 3;
    device.fail(Fault { kind, nth, failure, lasting: Lasting::Once });
    let mut failed = 0;
    for (at, future) in pending(&space, 0, 8) {
        match block_on(future) {
            Ok(seqno) => assert!(seqno.is_some() && read(&space, at) == at + 1),
            Err(Error::Engine(engine::Error::Device(_))) => {
                failed += 1;
                assert_eq!(read(&space, at), at);
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!((device.failed(), db.failure()), (1, None));
    assert!(block_on(space.futures().rmw(&key(2), add_one)).unwrap().is_some(), "writes go on");
    failed
}

#[test]
fn a_read_that_fails_is_told_to_its_future_alone() {
    for journaled in [false, true] {
        // The read that fails may be one of the background, which tries it again.
        let failed = (0..20).map(|_| updates_that_fail(journaled)).find(|failed| *failed > 0);
        assert_eq!(failed, Some(1));
    }
}

/// The journal's sync: every write that waits for the durability gets the error, and later ones are
/// refused.
#[test]
fn a_sync_that_fails_is_told_to_all_who_wait_for_it() {
    for &engine in EngineKind::ALL {
        let device = FaultDevice::new(device::memory());
        let on = Arc::clone(&device) as Arc<dyn Device>;
        let (db, space) = open_on(&on, options(), engine, true);
        let synced = space.durability(Durability::Synced);
        block_on(synced.futures().put(b"k", b"v")).unwrap();
        let (kind, failure) = (Some(OperationKind::Sync), Failure::Io);
        let nth = device.count(kind) + 1;
        device.fail(Fault { kind, nth, failure, lasting: Lasting::ForGood });
        let puts = (0..20).map(|at| synced.futures().put(&key(at), &value(at)));
        let outcomes = block_on(join_all(puts));
        for outcome in &outcomes {
            assert!(
                matches!(outcome, Err(Error::ReadOnly { .. } | Error::Journal(_))),
                "{engine}: {outcome:?}"
            );
        }
        assert!(db.failure().is_some());
        let refused = block_on(synced.futures().rmw(b"k", add_one));
        assert!(matches!(refused, Err(Error::ReadOnly { .. })), "{engine}: {refused:?}");
        assert_eq!(block_on(space.futures().get(b"k")).unwrap().as_deref(), Some(&b"v"[..]));
    }
}

#[test]
fn what_an_engine_refuses_is_told_as_a_blocking_call_tells_it() {
    let (db, space) = open_on(&device::memory(), options(), EngineKind::F2, true);
    // More than a poll writes, and less, which it would write; both are more than a page takes.
    for bytes in [1 << 20, 20_000] {
        let long = vec![0; bytes];
        let blocking = space.put(b"k", &long).unwrap_err();
        let is_typed = matches!(blocking, Error::Engine(engine::Error::RecordTooLong { .. }));
        assert!(is_typed, "{blocking}");
        assert_eq!(block_on(space.futures().put(b"k", &long)), Err(blocking.clone()));
        let mut batch = Batch::new();
        batch.put(&space, b"other", b"v").put(&space, b"k", &long);
        assert_eq!(block_on(db.write_async(batch)), Err(blocking.clone()));
        let update = move |_: Option<&[u8]>| thermocline::Change::Put(long.clone());
        assert_eq!(block_on(space.futures().rmw(b"k", update)), Err(blocking));
        assert_eq!(space.get(b"other").unwrap(), None);
    }
    let unmerged = space.merge(b"k", b"x").unwrap_err();
    assert_eq!(block_on(space.futures().merge(b"k", b"x")), Err(unmerged));
    assert_eq!(db.failure(), None);
    db.close().unwrap();
    assert_eq!(block_on(space.futures().put(b"k", b"v")), Err(Error::Closed));
}
