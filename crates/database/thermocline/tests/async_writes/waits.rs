//! A poll never waits: not for a sync, and not for an engine that has no room.

use std::sync::Arc;
use std::task::Poll;

use device::{Device, FaultDevice, OperationKind};
use futures::executor::block_on;
use thermocline::{
    AsyncUpdate, AsyncWrite, Db, Durability, EngineKind, Error, Keyspace, KeyspaceOptions, Options,
};

use super::{Held, add_one, key, number, open_on, options, poll};

/// Polls `count` puts, deletes and updates each.
fn polled(space: &Keyspace, count: u64) -> (Vec<AsyncWrite>, Vec<AsyncUpdate>) {
    let mut writes: Vec<AsyncWrite> = (0..count)
        .flat_map(|at| {
            [space.futures().put(&key(at), b"v"), space.futures().delete(&key(count + at))]
        })
        .collect();
    let mut updates: Vec<AsyncUpdate> =
        (0..count).map(|_| space.futures().rmw(b"counter", add_one)).collect();
    assert!(writes.iter_mut().all(|write| poll(write).is_pending()));
    assert!(updates.iter_mut().all(|update| poll(update).is_pending()));
    (writes, updates)
}

#[test]
fn no_poll_waits_for_a_sync() {
    for &engine in EngineKind::ALL {
        let device = FaultDevice::new(device::memory());
        let (_db, space) =
            open_on(&(Arc::clone(&device) as Arc<dyn Device>), options(), engine, true);
        let synced = space.durability(Durability::Synced);
        let syncs = device.count(Some(OperationKind::Sync));
        let held = Held::new(&device, OperationKind::Sync);
        let (mut writes, updates) = polled(&synced, 1);
        held.wait();
        // The thread is already in the sync, and takes no more.
        let (more_writes, more_updates) = polled(&synced, 100);
        // A writer that wants no durability does not wait for one that does.
        let mut unsynced = space.futures().put(b"unsynced", b"v");
        assert!(matches!(poll(&mut unsynced), Poll::Ready(Ok(_))), "{engine}");
        assert!(poll(&mut writes[0]).is_pending());
        assert!(!held.has_gone(), "{engine}: a poll has waited for the sync");
        drop(held);
        for write in writes.into_iter().chain(more_writes) {
            block_on(write).unwrap();
        }
        for update in updates.into_iter().chain(more_updates) {
            assert!(block_on(update).unwrap().is_some());
        }
        assert_eq!(number(space.get(b"counter").unwrap().as_deref()), 101);
        assert_eq!(space.get(&key(7)).unwrap().as_deref(), Some(&b"v"[..]));
        // All that came while the first was synced share another one.
        let syncs = device.count(Some(OperationKind::Sync)) - syncs;
        assert!(syncs <= 4, "{engine}: {syncs} syncs");
    }
}

/// Writes more than memory holds while the device's writes, which would make room, are held up.
#[test]
fn no_poll_waits_for_room_in_memory() {
    const VALUE_BYTES: usize = 4000;
    const PUTS: u64 = 8_000;
    for &engine in EngineKind::ALL.iter().filter(|engine| engine.driver().has_share()) {
        let device = FaultDevice::new(device::memory());
        let (_db, space) =
            open_on(&(Arc::clone(&device) as Arc<dyn Device>), options(), engine, false);
        let held = Held::new(&device, OperationKind::Write);
        let (mut at_once, mut pending) = (0, Vec::new());
        for at in 0..PUTS {
            let mut put = space.futures().put(&key(at), &vec![at as u8; VALUE_BYTES]);
            match poll(&mut put) {
                Poll::Ready(done) => {
                    done.unwrap();
                    at_once += 1;
                }
                Poll::Pending => pending.push(put),
            }
        }
        assert!(!held.has_gone(), "{engine}: a poll has waited for what was held up");
        assert!(at_once > 0 && !pending.is_empty(), "{engine}: {at_once}, {}", pending.len());
        drop(held);
        for put in pending {
            block_on(put).unwrap();
        }
        for at in (0..PUTS).step_by(61) {
            let expected = vec![at as u8; VALUE_BYTES];
            assert_eq!(space.get(&key(at)).unwrap(), Some(expected), "{engine}: {at}");
        }
    }
}

/// The engine in memory has nothing to wait for, and refuses.
#[test]
fn a_budget_that_is_used_up_is_reported() {
    let options = Options { memory_bytes: 12 << 20, ..options() };
    let db = Db::open_on(device::memory(), "memory", options).unwrap();
    // Otherwise the journal's group would be full first, and the thread would get the refusal that
    // the poll should get.
    let kind = KeyspaceOptions { journaled: false, ..Default::default() };
    let space = db.keyspace("s", kind).unwrap();
    let mut at = 0;
    let refused = loop {
        match block_on(space.futures().put(&key(at), &[7; 30_000])) {
            Ok(_) => at += 1,
            Err(error) => break error,
        }
        assert!(at < 1000, "it is never full");
    };
    let is_typed = matches!(refused, Error::Engine(engine::Error::OutOfMemory { .. }));
    assert!(is_typed, "{refused}");
    block_on(space.futures().delete(&key(0))).unwrap();
    block_on(space.futures().put(&key(0), b"v")).unwrap();
}
