//! A child of a fork is refused, touches nothing of its parent, and opens the database itself once
//! the parent has ended.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write as _;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::sync_channel;
use std::task::{Context, Poll, Waker};
use std::thread;

use device::process::testing::{Child, exit_without_destructors};
use thermocline::{
    Backups, Batch, Change, Db, Durability, EngineKind, Error, ExpiringChange, KeyRange, Keyspace,
    KeyspaceOptions, MergeName, MergeOperators, Options, Progress, Result, check,
};

/// Writes that the parent makes before the fork, and again during the child's life.
const WRITES: u32 = 100;

fn open(dir: &std::path::Path, engine: EngineKind) -> (Db, Keyspace) {
    let name: MergeName = "replace".parse().unwrap();
    let merge_operators =
        MergeOperators::new().with(name, |_, _, operand: &[u8]| Ok(Change::Put(operand.to_vec())));
    let options = Options { memory_bytes: 64 << 20, merge_operators, ..Options::default() };
    let db = Db::open(dir, options).unwrap();
    let options =
        KeyspaceOptions { engine, expiring: true, merge: Some(name), ..Default::default() };
    let space = db.keyspace("space", options).unwrap().durability(Durability::Synced);
    (db, space)
}

fn key(prefix: &str, number: u32) -> Vec<u8> {
    format!("{prefix}{number}").into_bytes()
}

/// Names of the calls whose outcome is not the refusal.
#[derive(Default)]
struct Unlike(Vec<String>);

impl Unlike {
    fn check<T: std::fmt::Debug>(&mut self, call: &str, outcome: Result<T>) {
        let this = std::process::id();
        match outcome {
            Err(Error::Forked { called_by, opened_by })
                if called_by == this && opened_by != this => {}
            other => self.0.push(format!("{call}: {other:?}")),
        }
    }

    fn poll<T: std::fmt::Debug>(
        &mut self,
        call: &str,
        mut future: impl Future<Output = Result<T>> + Unpin,
    ) {
        match std::pin::Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => self.check(call, outcome),
            Poll::Pending => self.0.push(format!("{call}: pending")),
        }
    }
}

fn calls_of_keyspace(space: &Keyspace, unlike: &mut Unlike) {
    unlike.check("put", space.put(b"child", b"c"));
    unlike.check("delete", space.delete(b"before1"));
    unlike.check("get", space.get(b"before1"));
    unlike.check("try_get", space.try_get(b"before1", &mut Vec::new()));
    unlike.check("multi_get", space.multi_get(&[b"before1"]));
    unlike.check("rmw", space.rmw(b"before1", |_| Change::Delete));
    unlike.check(
        "try_rmw",
        space.try_rmw(b"before1", &mut |_: Option<&[u8]>| Change::Delete).map(drop),
    );
    unlike.check("compare_and_swap", space.compare_and_swap(b"before1", None, None));
    unlike.check("delete_range", space.delete_range(&KeyRange::all()));
    unlike.check(
        "delete_range of nothing",
        space.delete_range(&KeyRange::of::<&[u8]>(&b"b"[..]..&b"a"[..])),
    );
    unlike.check("scan", space.scan(KeyRange::all()).map(drop));
    calls_of_values_that_end(space, unlike);
    unlike.check("get_into", space.get_into(b"before1", &mut Vec::new()));
    unlike.check("contains_key", space.contains_key(b"before1"));
    unlike.check("multi_get_with", space.multi_get_with(&[b"before1"], &mut |_, _| {}));
    unlike.check("try_put", space.try_put(b"child", b"c"));
    unlike.check("wait_to_write", space.wait_to_write());
    unlike.check("merge", space.merge(b"child", b"c"));
    unlike.check("scan_reverse", space.scan_reverse(KeyRange::all()).map(drop));
    unlike.check("compact_range", space.compact_range(&KeyRange::all()));
    unlike.check("approximate_bytes", space.approximate_bytes(&KeyRange::all()));
    unlike.check("ingest", space.ingest([(b"child", b"c")]));
    unlike.check("walk", space.walk(None, |_, _| ControlFlow::Continue(())));
    unlike.check("position", space.position(b"before1"));
    unlike.check("flush", space.flush());
    unlike.check("clear", space.clear());
    unlike.check("live_keys", space.live_keys());
    unlike.check("stats", space.stats().map(drop));
    unlike.check("session", space.session(1).map(drop));
    unlike.check("ingestion", space.ingestion().map(drop));
    unlike.poll("get_async", space.futures().get(b"before1"));
    unlike.poll("put_async", space.futures().put(b"child", b"c"));
    unlike.poll("rmw_async", space.futures().rmw(b"child", |_| Change::Delete));
    unlike.poll("compare_and_swap_async", space.futures().compare_and_swap(b"before1", None, None));
    unlike.poll("multi_get_async", space.futures().multi_get(&[b"before1"]));
    unlike.poll("delete_async", space.futures().delete(b"before1"));
    unlike.poll("merge_async", space.futures().merge(b"child", b"c"));
}

fn calls_of_values_that_end(space: &Keyspace, unlike: &mut Unlike) {
    let (never, hour) = (u64::MAX, std::time::Duration::from_secs(3600));
    unlike.check("put_with_expiry", space.expiring().put(b"child", b"c", never));
    unlike.check("put_with_ttl", space.expiring().put_with_ttl(b"child", b"c", hour));
    unlike.check("get_with_expiry", space.expiring().get(b"before1"));
    unlike.check("expire_at", space.expiring().expire_at(b"before1", 1));
    unlike.check("persist", space.expiring().persist(b"before1"));
    unlike.check("rmw_with_expiry", space.expiring().rmw(b"before1", |_| ExpiringChange::Delete));
    unlike.check(
        "compare_and_swap_with_expiry",
        space.expiring().compare_and_swap(b"a", None, b"c", never),
    );
    unlike.check("expiry_stats", space.expiring().stats());
    unlike.check("remove_expired", space.expiring().remove_expired());
    unlike.poll("put_with_expiry_async", space.futures().put_with_expiry(b"child", b"c", never));
    unlike.poll("put_with_ttl_async", space.futures().put_with_ttl(b"child", b"c", hour));
    unlike.poll(
        "rmw_with_expiry_async",
        space.futures().rmw_with_expiry(b"before1", |_| ExpiringChange::Delete),
    );
    unlike.poll(
        "compare_and_swap_with_expiry_async",
        space.futures().compare_and_swap_with_expiry(b"a", None, b"c", never),
    );
}

fn calls_of_database(db: &Db, space: &Keyspace, place: &std::path::Path, unlike: &mut Unlike) {
    let mut batch = Batch::new();
    batch.put(space, b"child", b"c");
    unlike.check("write", db.write(&batch));
    unlike.check("write of nothing", db.write(&Batch::new()));
    unlike.check("write_after", db.write_after(&batch, || ()));
    unlike.check("try_write", db.try_write(&batch));
    unlike.check("try_write of nothing", db.try_write(&Batch::new()));
    unlike.check("wait", db.wait(db.last(), Durability::Synced));
    unlike.check("transaction", db.transaction(|_| Ok(())));
    unlike.poll("write_async", db.write_async(batch));
    unlike.check("sync", db.sync());
    unlike.check("flush", db.flush());
    unlike.check("snapshot", db.snapshot().map(drop));
    unlike.check("begin", db.begin().map(drop));
    unlike.check("atomically", db.atomically(&[(space, b"a")], |_| Ok(())));
    unlike.check("keyspace", db.keyspace("other", KeyspaceOptions::default()).map(drop));
    unlike.check("existing_keyspace", db.existing_keyspace("space").map(drop));
    unlike.check("drop_keyspace", db.drop_keyspace("space"));
    unlike.check("checkpoint", db.checkpoint(place.join("copy")));
    unlike.check("checkpoint_on", db.checkpoint_on(device::memory(), "copy"));
    let backups = Backups::open(place.join("backups")).unwrap();
    unlike.check("backup", db.backup(&backups, &Progress::default()).map(drop));
    unlike.check("failure", db.failure().map_or(Ok(()), Err));
    assert!(db.keyspaces().is_empty() && db.background_errors().is_empty());
    assert!(db.stats().keyspaces.is_empty());
    drop(db.pause_expiry().hold());
    // These read figures in memory.
    let _figures = (db.last(), db.now_ms(), db.memory_bytes());
    unlike.check("close", db.close());
}

/// Values that are open at the fork: each one's calls, and then its drop.
fn calls_of_open_values(db: &Db, space: &Keyspace) -> impl FnOnce(&mut Unlike) + use<> {
    let (space, is_ordered) = (space.clone(), space.is_ordered());
    let snapshot = db.snapshot().unwrap();
    let mut scan = is_ordered.then(|| space.scan(KeyRange::all()).unwrap());
    if let Some(scan) = &mut scan {
        scan.next_ref().unwrap();
    }
    let transaction = db.begin().unwrap();
    transaction.put(&space, b"child", b"c").unwrap();
    let committed = db.begin().unwrap();
    committed.put(&space, b"child", b"c").unwrap();
    let mut session = space.session(4).unwrap();
    let mut ingestion =
        (space.options().engine == EngineKind::Lsm).then(|| space.ingestion().unwrap());
    if let Some(ingestion) = &mut ingestion {
        ingestion.push(b"child", b"c").unwrap();
    }
    move |unlike| {
        unlike.check("snapshot.get", snapshot.get(&space, b"before1"));
        unlike.check("transaction.get", transaction.get(&space, b"before1"));
        unlike.check("transaction.put", transaction.put(&space, b"child", b"c"));
        unlike.check("transaction.delete", transaction.delete(&space, b"before1"));
        unlike.check("transaction.merge", transaction.merge(&space, b"child", b"c"));
        unlike.check("transaction.multi_get", transaction.multi_get(&space, &[b"before1"]));
        unlike.check(
            "transaction.put_with_expiry",
            transaction.put_with_expiry(&space, b"child", b"c", 1),
        );
        let all = KeyRange::all();
        unlike.check("transaction.delete_range", transaction.delete_range(&space, &all));
        unlike.check("transaction.commit", committed.commit());
        unlike.check(
            "session.begin_get",
            session.begin_get(0, b"before1", &mut Vec::new()).map(drop),
        );
        let operator = Box::new(|_: Option<&[u8]>| Change::Delete);
        unlike.check("session.begin_rmw", session.begin_rmw(0, b"before1", operator).map(drop));
        unlike
            .check("session.lookup_for_update", session.lookup_for_update(0, b"before1").map(drop));
        unlike.check("session.complete", session.complete(true, &mut |_, _| {}));
        if let Some(mut scan) = scan {
            scan.seek(b"before2");
            unlike.check("scan.next", scan.next().transpose());
            assert!(scan.next().is_none(), "an error ends the scan");
            unlike.check("snapshot.scan", snapshot.scan(&space, KeyRange::all()).map(drop));
            unlike.check("transaction.scan", transaction.scan(&space, KeyRange::all()).map(drop));
        }
        if let Some(mut ingestion) = ingestion {
            unlike.check("ingestion.push", ingestion.push(b"child2", b"c"));
            unlike.check(
                "ingestion.push_with_expiry",
                ingestion.push_with_expiry(b"child3", b"c", u64::MAX),
            );
            unlike.check("ingestion.commit", ingestion.commit());
        }
    }
}

/// The child uses and drops all that it has inherited; the parent writes meanwhile, and has all
/// afterwards.
fn a_child_is_refused_and_changes_nothing(engine: EngineKind) {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().to_owned();
    let (db, space) = open(&place.join("db"), engine);
    for number in 0..WRITES {
        space.put(&key("before", number), b"synced").unwrap();
    }
    let of_open_values = calls_of_open_values(&db, &space);
    let mut inherited = Some((db.clone(), space.clone(), of_open_values));
    let child = Child::fork(|_| {
        let (db, space, of_open_values) = inherited.take().unwrap();
        let mut unlike = Unlike::default();
        of_open_values(&mut unlike);
        calls_of_keyspace(&space, &mut unlike);
        calls_of_database(&db, &space, &place, &mut unlike);
        drop((db, space));
        unlike.0.join("; ")
    });
    for number in 0..WRITES {
        space.put(&key("after", number), b"synced").unwrap();
    }
    assert_eq!(child.join(), "", "{engine}");
    // The parent's values still work.
    let parents = inherited.take().unwrap();
    assert_eq!(parents.1.get(b"before1").unwrap().as_deref(), Some(&b"synced"[..]));
    drop(parents);
    for number in 0..WRITES {
        space.put(&key("later", number), b"synced").unwrap();
    }
    assert!(matches!(Db::open(place.join("db"), Options::default()), Err(Error::InUse { .. })));
    drop(space);
    db.close().unwrap();
    assert!(check(place.join("db")).unwrap().is_whole(), "{engine}");
    let (_db, space) = open(&place.join("db"), engine);
    for prefix in ["before", "after", "later"] {
        for number in 0..WRITES {
            assert!(
                space.get(&key(prefix, number)).unwrap().is_some(),
                "{engine}: {prefix}{number}"
            );
        }
    }
    assert_eq!(space.get(b"child").unwrap(), None, "{engine}");
}

/// The last handle is dropped, or closed, in a child: it returns, and leaves everything to the
/// parent.
fn the_last_handle_goes_in_a_child(engine: EngineKind) {
    let dir = tempfile::tempdir().unwrap();
    let (db, space) = open(dir.path(), engine);
    space.put(b"key", b"synced").unwrap();
    let mut handles = Some((db, space));
    let child = Child::fork(|_| {
        drop(handles.take());
        "dropped".to_owned()
    });
    assert_eq!(child.join(), "dropped", "{engine}");
    let (db, space) = handles.unwrap();
    space.put(b"other", b"synced").unwrap();
    db.close().unwrap();
}

/// The process that opened the database ends by `_exit`, as one does that becomes a daemon.
fn a_daemon_opens_the_database_again(engine: EngineKind) {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().to_owned();
    let first = Child::fork(|says| {
        let (db, space) = open(&place, engine);
        space.put(b"key", b"synced").unwrap();
        let parent = std::process::id();
        let daemon = Child::fork(|_| {
            while std::os::unix::process::parent_id() == parent {
                std::thread::yield_now();
            }
            let mut unlike = Unlike::default();
            unlike.check("put", space.put(b"key", b"daemon"));
            drop((db, space));
            let (db, space) = open(&place, engine);
            let value = space.get(b"key").unwrap();
            space.put(b"key", b"daemon").unwrap();
            db.close().unwrap();
            let text = format!(
                "{} {:?}",
                unlike.0.join("; "),
                value.map(|value| value.escape_ascii().to_string())
            );
            says.write_all(text.as_bytes()).unwrap();
            text
        });
        std::mem::forget(daemon);
        exit_without_destructors()
    });
    assert_eq!(first.join(), " Some(\"synced\")", "{engine}");
    let (_db, space) = open(&place, engine);
    assert_eq!(space.get(b"key").unwrap().as_deref(), Some(&b"daemon"[..]), "{engine}");
}

/// Threads of the parent use one database while children open others. A lock that such a thread
/// holds at the fork stays held in the child, so a database must need no lock that it has in common
/// with the parent.
fn children_open_other_databases(engine: EngineKind) {
    const FORKS: u32 = 6;
    let dir = tempfile::tempdir().unwrap();
    let (db, space) = open(&dir.path().join("parent"), engine);
    let is_over = AtomicBool::new(false);
    let (db, space, is_over) = (&db, &space, &is_over);
    let said: Vec<String> = thread::scope(|scope| {
        let (runs, running) = sync_channel(2);
        for thread in 0..2 {
            let runs = runs.clone();
            scope.spawn(move || {
                runs.send(()).unwrap();
                while !is_over.load(Relaxed) {
                    write_and_read(space, "parent");
                    let name = format!("made{thread}");
                    db.keyspace(&name, KeyspaceOptions { engine, ..KeyspaceOptions::default() })
                        .unwrap();
                    db.drop_keyspace(&name).unwrap();
                }
            });
        }
        let fork = |number: u32| {
            let place = dir.path().join(format!("child{number}"));
            Child::fork(|_| {
                let (db, space) = open(&place, engine);
                write_and_read(&space, "child");
                drop(space);
                db.close().unwrap();
                let (_db, space) = open(&place, engine);
                let found = (0..WRITES).filter(|number| read(&space, "child", *number)).count();
                found.to_string()
            })
        };
        let _end = AtEnd(is_over);
        running.iter().take(2).for_each(drop);
        (0..FORKS).map(|number| fork(number).join()).collect()
    });
    assert_eq!(said, vec![WRITES.to_string(); FORKS as usize], "{engine}");
}

/// Ends the threads of a test, also if the test fails.
struct AtEnd<'a>(&'a AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn write_and_read(space: &Keyspace, value: &str) {
    for number in 0..WRITES {
        space.put(&key("key", number), value.as_bytes()).unwrap();
        assert!(read(space, value, number), "{value} reads {number}");
    }
}

fn read(space: &Keyspace, value: &str, number: u32) -> bool {
    space.get(&key("key", number)).unwrap().as_deref() == Some(value.as_bytes())
}

/// One test, as no thread of the process may start or end during a fork: a child that has a copy of
/// the standard library's lock for that, held, can start no thread.
#[test]
fn forks() {
    for &engine in EngineKind::ALL {
        a_child_is_refused_and_changes_nothing(engine);
        the_last_handle_goes_in_a_child(engine);
        a_daemon_opens_the_database_again(engine);
        children_open_other_databases(engine);
    }
}
