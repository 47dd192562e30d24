//! Updates whose values grow, with little memory: they stay within it, and waiters block no others.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use device::{FaultDevice, OperationKind};
use engine::KeyRange;

use super::*;
use crate::database::Db;
use crate::drivers::EngineKind;
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::options::{KeyspaceOptions, Options};

const UPDATERS: u64 = 4;
const KEYS: u64 = 6;
/// The length of a value at which it starts over.
const VALUE_BYTES_MAX: usize = 64 << 10;
/// The time after which a wait counts as endless.
const LONG: Duration = Duration::from_secs(20);

fn options() -> Options {
    Options {
        memory_bytes: Options::MEMORY_BYTES_MIN,
        sync_interval: None,
        balance_memory: false,
        durability: Durability::Buffered,
        ..Options::default()
    }
}

fn small(engine: EngineKind, journaled: bool) -> KeyspaceOptions {
    let memory_bytes = (engine != EngineKind::Memory).then_some(2 << 20);
    KeyspaceOptions { engine, journaled, memory_bytes, ..KeyspaceOptions::default() }
}

fn twice(old: Option<&[u8]>) -> Change {
    let len = old.map_or(0, <[u8]>::len);
    Change::Put(vec![7; if len < VALUE_BYTES_MAX { len * 2 + 100 } else { 1 }])
}

/// Runs many updates of few keys at the same time; returns the most memory used meanwhile, by
/// `used`.
fn update_all(space: &Keyspace, count: u64, used: impl Fn() -> u64 + Sync) -> u64 {
    let (is_over, most) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                most.fetch_max(used(), Relaxed);
                std::thread::yield_now();
            }
        });
        let updaters: Vec<_> = (0..UPDATERS)
            .map(|updater| {
                scope.spawn(move || {
                    for at in 0..count {
                        let key = ((at * 5 + updater) % KEYS).to_be_bytes();
                        match space.rmw(&key, twice) {
                            Ok(_)
                            | Err(Error::Engine(
                                EngineError::OutOfMemory { .. } | EngineError::WriteTooLarge { .. },
                            )) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                })
            })
            .collect();
        let ended: Vec<_> = updaters.into_iter().map(|updater| updater.join()).collect();
        is_over.store(true, Relaxed);
        ended.into_iter().for_each(|ended| ended.unwrap());
    });
    most.into_inner().max(used())
}

/// Bytes that updaters which saw the same room may take: a value each.
const BESIDE: u64 = UPDATERS * 2 * VALUE_BYTES_MAX as u64;

/// Nothing is flushed to make room: a value without room is refused.
#[test]
fn growing_values_keep_what_is_all_in_memory_within_the_budget() {
    for journaled in [true, false] {
        let db = Db::open_on(device::memory(), "growing", options()).unwrap();
        let filled = db.keyspace("filled", small(EngineKind::Memory, journaled)).unwrap();
        let (_, limit) = db.memory_bytes();
        let value = vec![7; VALUE_BYTES_MAX];
        let room = 2 * VALUE_BYTES_MAX as u64;
        for key in 0_u64.. {
            if db.memory_bytes().0 + room > limit {
                break;
            }
            filled.put(&key.to_be_bytes(), &value).unwrap();
        }
        let space = db.keyspace("s", small(EngineKind::Memory, journaled)).unwrap();
        let most = update_all(&space, 200, || db.memory_bytes().0);
        assert!(most <= limit + BESIDE, "{most} of {limit}, journaled: {journaled}");
        assert!(most + room > limit, "{most} of {limit} is no want of room");
        let refused = (0..KEYS).any(|key| {
            let much = |_: Option<&[u8]>| Change::Put(vec![7; 4 * VALUE_BYTES_MAX]);
            space.rmw(&key.to_be_bytes(), much).is_err()
        });
        assert!(refused, "nothing is refused, journaled: {journaled}");
    }
}

/// Runs `work` in another thread, so that a failure of the test does not wait for it.
fn beside<T: Send + 'static>(db: &Db, work: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (tell, told) = channel();
    let environment = db.inner.options.environment.clone();
    drop(environment.spawn("beside", move || drop(tell.send(work()))).unwrap());
    told
}

/// How often writers had to wait for room, or for a commit to make some.
fn waits(space: &Keyspace) -> u64 {
    let detail = space.stats().unwrap().detail;
    let waits = detail.iter().filter(|(name, _)| *name == "stalls");
    waits.map(|(_, count)| count).sum()
}

/// A flush is held, and values grow until there is no room for the next. The share of the memory is
/// kept then, and all keys can be locked.
#[test]
fn who_waits_for_a_flush_to_grow_a_value_holds_no_key() {
    for engine in [EngineKind::Lsm, EngineKind::FlexDb] {
        let device = FaultDevice::new(device::memory());
        let db = Db::open_on(Arc::clone(&device) as _, "growing", options()).unwrap();
        let space = db.keyspace("s", small(engine, true)).unwrap();
        let other = db.keyspace("other", KeyspaceOptions::default()).unwrap();
        let ((held, holding), (release, released)) = (channel(), channel::<()>());
        device.interpose_anywhere(OperationKind::Sync, move || {
            let _if_nobody_listens = held.send(());
            let _once_it_may_go = released.recv();
        });
        let (growing, is_over) = (space.clone(), Arc::new(AtomicBool::new(false)));
        let until = Arc::clone(&is_over);
        let grown = beside(&db, move || {
            let mut at = 0_u64;
            while !until.load(Relaxed) {
                growing.rmw(&(at % KEYS).to_be_bytes(), twice)?;
                at += 1;
            }
            Ok::<_, Error>(())
        });
        holding.recv_timeout(LONG).unwrap();
        let environment = db.inner.options.environment.clone();
        let latest = environment.now() + LONG;
        while waits(&space) == 0 && environment.now() < latest {
            std::thread::yield_now();
        }
        assert!(waits(&space) > 0, "{engine}: nobody waits");
        let instance = space.entry.instance().unwrap();
        let budget = &instance.share.as_ref().unwrap().budget;
        assert!(budget.used() <= budget.limit(), "{engine}: {} are used", budget.used());
        let locked = beside(&db, move || other.delete_range(&KeyRange::all()).map(drop));
        let locked = locked.recv_timeout(LONG);
        is_over.store(true, Relaxed);
        drop(release);
        // Before the test may fail: a database is closed with all keys locked.
        assert_eq!(grown.recv_timeout(LONG), Ok(Ok(())), "{engine}");
        assert_eq!(locked, Ok(Ok(())), "{engine}: a key stays locked");
    }
}
