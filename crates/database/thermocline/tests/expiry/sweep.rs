//! The expiry sweep in the background, next to writers that renew values, and with the database
//! closed in its midst.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use thermocline::{Db, EngineKind, Environment, ExpiryStats, Keyspace, Options};

use super::database::{Bench, kinds, with_ends};

const KEYS: u32 = 2000;

fn options() -> Options {
    Options {
        memory_bytes: 96 << 20,
        expiry_sweep_interval: Some(Duration::from_millis(5)),
        ..Options::default()
    }
}

fn wait_until(what: &str, mut met: impl FnMut() -> bool) {
    let real = Environment::real();
    let begun = real.now();
    while !met() {
        assert!(real.now() - begun < Duration::from_secs(240), "{what}");
        real.sleep(Duration::from_millis(2));
    }
}

fn stats(space: &Keyspace) -> ExpiryStats {
    space.expiring().stats().unwrap().unwrap()
}

/// A keyspace of which half the values end soon, and a quarter an hour later. All of them were put
/// before the first end: a put whose end is past is a delete, which leaves nothing to remove. Also
/// returns how soon that is.
fn filled(db: &Db, engine: EngineKind) -> (Keyspace, u64) {
    let mut soon_ms = 300;
    loop {
        let space = db.keyspace("s", with_ends(engine, false)).unwrap();
        let expiry_ms = db.now_ms() + soon_ms;
        for number in 0..KEYS {
            let (key, value) = (number.to_be_bytes(), [7; 8000]);
            match number % 4 {
                0 => space.put(&key, &value).unwrap(),
                1 => space.expiring().put(&key, &value, expiry_ms + 3_600_000).unwrap(),
                _ => space.expiring().put(&key, &value, expiry_ms).unwrap(),
            };
        }
        if db.now_ms() < expiry_ms {
            return (space, soon_ms);
        }
        db.drop_keyspace("s").unwrap();
        soon_ms *= 4;
    }
}

/// No read asks for the keys, and most of their values are on disk alone.
#[test]
fn what_has_ended_is_removed_though_nobody_asks_for_it() {
    for engine in EngineKind::ALL.iter().copied() {
        let dir = TempDir::new().unwrap();
        let db = Db::open(dir.path(), options()).unwrap();
        let (space, soon_ms) = filled(&db, engine);
        space.flush().unwrap();
        let removed = u64::from(KEYS / 2);
        wait_until(engine.name(), || stats(&space).removed == removed);
        let counted = |stats: ExpiryStats| (stats.keys, stats.keys_with_expiry);
        let left = (removed, u64::from(KEYS / 4));
        wait_until("the counts", || counted(stats(&space)) == left);
        let mean_ms = stats(&space).mean_left_ms;
        assert!((3_000_000..3_600_000 + soon_ms).contains(&mean_ms), "{engine}: {mean_ms}");
        let mut stored = 0;
        space
            .expiring()
            .raw()
            .walk(None, |_, _| {
                stored += 1;
                std::ops::ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(stored, removed, "{engine}");
        let figures = db.stats().keyspaces.remove(0).expiry.unwrap();
        assert_eq!((figures.removed, counted(figures)), (removed, left));
        db.close().unwrap();
    }
}

/// A removal under way neither keeps the database open nor is lost.
#[test]
fn a_database_closes_amid_removal_and_goes_on_when_it_is_opened() {
    let dir = TempDir::new().unwrap();
    let options = Options { expiry_sweep_interval: Some(Duration::from_millis(1)), ..options() };
    for engine in [EngineKind::Lsm, EngineKind::F2] {
        let name = engine.name();
        let mut db = Db::open(dir.path(), options.clone()).unwrap();
        let mut space = db.keyspace(name, with_ends(engine, true)).unwrap();
        let expiry_ms = db.now_ms() + 200;
        for number in 0..KEYS {
            space.expiring().put(&number.to_be_bytes(), &[1; 100], expiry_ms).unwrap();
        }
        let mut openings = 0;
        loop {
            openings += 1;
            Environment::real().sleep(Duration::from_millis(20));
            db.close().unwrap();
            assert!(openings < 1000, "it goes on");
            db = Db::open(dir.path(), options.clone()).unwrap();
            space = db.existing_keyspace(name).unwrap();
            let mut is_empty = true;
            space
                .expiring()
                .raw()
                .walk(None, |_, _| {
                    is_empty = false;
                    std::ops::ControlFlow::Break(())
                })
                .unwrap();
            if is_empty {
                break;
            }
        }
        db.close().unwrap();
    }
}

/// The clock is read before the engine is called: an old value whose end passes after a renewal
/// does not make the key look absent.
#[test]
fn a_key_that_is_renewed_in_time_is_never_absent() {
    for (engine, journaled) in kinds() {
        let bench = Bench::new(22);
        let space = bench.space(engine, journaled);
        let renew = || space.expiring().put(b"k", b"v", bench.now_ms() + 3).unwrap();
        renew();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for reader in 0..2 {
                let (space, bench, is_over) = (&space, &bench, &is_over);
                scope.spawn(move || {
                    while !is_over.load(Relaxed) {
                        let found = match reader {
                            0 => space.get(b"k").unwrap().is_some(),
                            _ if space.is_ordered() => {
                                bench.db.snapshot().unwrap().get(space, b"k").unwrap().is_some()
                            }
                            _ => space.multi_get(&[b"k"]).unwrap()[0].is_some(),
                        };
                        assert!(found, "{engine}, {journaled}, reader {reader}");
                        assert_eq!(space.expiring().remove_expired(), Ok(0));
                    }
                });
            }
            for _ in 0..4000 {
                bench.pass(1);
                renew();
            }
            is_over.store(true, Relaxed);
        });
    }
}

#[test]
fn what_is_held_is_not_removed() {
    let bench = Bench::new(23);
    let space = bench.space(EngineKind::Memory, true);
    space.expiring().put(b"k", b"v", bench.now_ms() + 1).unwrap();
    bench.pass(1);
    let hold = bench.db.pause_expiry();
    let held = hold.hold();
    thread::scope(|scope| {
        let removing = scope.spawn(|| space.expiring().remove_expired());
        Environment::real().sleep(Duration::from_millis(100));
        assert!(space.expiring().raw().get(b"k").unwrap().is_some());
        drop(held);
        assert_eq!(removing.join().unwrap(), Ok(1));
    });
}

/// A thread that holds removal up may wait for a close, which waits for the thread that removes.
#[test]
fn a_close_does_not_wait_for_who_holds_removal_up() {
    let dir = TempDir::new().unwrap();
    let db = Db::open(dir.path(), options()).unwrap();
    let space = db.keyspace("s", with_ends(EngineKind::Memory, true)).unwrap();
    let hold = db.pause_expiry();
    let held = hold.hold();
    (0..KEYS).for_each(|number| {
        space
            .expiring()
            .put_with_ttl(&number.to_be_bytes(), b"v", Duration::from_millis(1))
            .unwrap();
    });
    // Long enough for a turn to have found them and to wait.
    Environment::real().sleep(Duration::from_millis(200));
    db.close().unwrap();
    drop(held);
}
