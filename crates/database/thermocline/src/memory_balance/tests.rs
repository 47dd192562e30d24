//! Making a keyspace, and closing the database, while a step is under way.

use std::sync::mpsc;

use super::*;
use crate::database::Db;
use crate::drivers::EngineKind;
use crate::error::Error;
use crate::keyspace_entry::InstanceFiles;
use crate::options::Options;
use crate::stand_in::StandIn;

const MIB: u64 = 1 << 20;

fn open() -> Db {
    let options = Options { memory_bytes: 12 * MIB, ..Options::default() };
    Db::open_on(device::memory(), "balance", options).unwrap()
}

fn lsm() -> KeyspaceOptions {
    KeyspaceOptions { engine: EngineKind::Lsm, ..KeyspaceOptions::default() }
}

/// Makes a keyspace on another thread, which sends the outcome.
fn make(db: &Db) -> mpsc::Receiver<Result<()>> {
    let (tell, told) = mpsc::channel();
    let (db, environment) = (db.clone(), db.inner.options.environment.clone());
    let make = move || drop(tell.send(db.keyspace("new", lsm()).map(drop)));
    drop(environment.spawn("maker", make).unwrap());
    told
}

/// Deals all memory out, and adds a keyspace that has most of it and releases it as `resize` does.
/// Returns the other shares.
fn add_giver(
    db: &Db,
    is_within_limit: bool,
    resize: impl Fn(&MemoryShare, u64) -> u64 + Send + Sync + 'static,
) -> Vec<Arc<MemoryShare>> {
    let inner = &db.inner;
    let (mut is_first, most) = (true, inner.options.memory_bytes);
    let shares = || {
        let is_first = std::mem::take(&mut is_first);
        inner.factory.memory.shares().share_of_new(lsm(), (is_first, most)).ok().flatten()
    };
    let mut dealt: Vec<_> = std::iter::from_fn(shares).collect();
    let share = dealt.remove(0);
    let needs = MemoryNeeds {
        least_bytes: MIB,
        most_bytes: u64::MAX,
        is_within_limit,
        gain: Default::default(),
    };
    let of_engine = Arc::clone(&share);
    let engine = StandIn {
        needs: Some(needs),
        resize: Box::new(move |limit| resize(&of_engine, limit)),
        ..StandIn::default()
    };
    let device = Arc::clone(&inner.directory.device);
    let files = InstanceFiles::new("keyspaces/giver/9".to_owned(), device);
    let instance = KeyspaceInstance::new(9, false, Box::new(engine), files, Some(share), None);
    let entry = Arc::new(KeyspaceEntry::new("giver", lsm(), instance));
    inner.keyspaces.entries.write().insert("giver".to_owned(), entry);
    dealt
}

#[test]
fn a_new_keyspace_takes_its_share_before_a_step_or_after_it() {
    let db = open();
    let inner = &db.inner;
    let step = inner.factory.memory.0.state.lock();
    let made = make(&db);
    let beside = made.recv_timeout(Duration::from_millis(300));
    assert!(beside.is_err(), "it was made in the midst of a step");
    let taken = inner.factory.memory.shares().take_free(u64::MAX);
    assert!(taken.bytes() > 6 * MIB);
    drop(step);
    made.recv().unwrap().unwrap();
    let (used, limit) = db.memory_bytes();
    assert!(used <= limit, "{used} of {limit}");
    drop(taken);
}

#[test]
fn a_close_does_not_wait_for_the_memory_that_a_new_keyspace_waits_for() {
    let db = open();
    let (ask, asked) = mpsc::channel();
    let _no_others = add_giver(&db, false, move |_, limit| {
        let _if_nobody_listens = ask.send(limit);
        limit
    });
    let made = make(&db);
    assert!(asked.recv().unwrap() >= MIB);
    db.close().unwrap();
    assert_eq!(made.recv().unwrap(), Err(Error::Closed), "it has waited to the end");
}

/// The next look at the shares comes after up to 100 ms.
#[test]
fn a_new_keyspace_waits_for_no_look_if_another_one_gives_immediately() {
    let db = open();
    let _others = add_giver(&db, true, |share, limit| {
        share.budget.set_limit(limit);
        limit
    });
    let inner = &db.inner;
    let memory = &inner.factory.memory;
    let mut state = memory.0.state.lock();
    let missing = || memory.shares().missing_for_new(EngineKind::Lsm);
    assert!(missing() > 0);
    assert!(!memory.go_on_freeing(&mut state, missing), "it would wait");
    assert_eq!(missing(), 0);
}
