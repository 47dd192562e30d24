//! Passes of the expiry sweep during writes.

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::thread;

use engine::Change;

use super::*;
use crate::expiry::ValueForm;
use crate::keyspace_entry::InstanceFiles;
use crate::options::{KeyspaceOptions, Options};
use crate::rmw::Advance;
use crate::stand_in::StandIn;
use crate::tests::ENGINES;

/// An engine asks the operator first, and has the value a moment later.
#[test]
fn an_expiry_is_known_although_a_pass_came_between_the_reply_and_the_value() {
    let (environment, clock) = Environment::simulated(7);
    let options = Options {
        environment: environment.clone(),
        expiry_sweep_interval: None,
        ..Options::default()
    };
    let db = Db::open_on(device::memory(), "removal", options).unwrap();
    let place: Arc<OnceLock<Weak<KeyspaceEntry>>> = Arc::default();
    let (filled, inner) = (Arc::clone(&place), Arc::clone(&db.inner.0));
    let passing = environment.clone();
    let within_rmw = Box::new(move || {
        let entry = filled.get().unwrap().upgrade().unwrap();
        let time = Time { environment: &passing, begun: passing.now(), most: None };
        assert_eq!(inner.go_on(&entry, &entry.last_instance(), 1, time), (false, false));
    });
    let engine = Box::new(StandIn { within_rmw, ..StandIn::default() });
    let expiry = Some(Expiry::new(environment.clone()));
    let device = Arc::clone(&db.inner.directory.device);
    let files = InstanceFiles::new("keyspaces/s/9".to_owned(), device);
    let instance = KeyspaceInstance::new(9, false, engine, files, None, expiry);
    let options =
        KeyspaceOptions { journaled: false, expiring: true, ..KeyspaceOptions::default() };
    let entry = Arc::new(KeyspaceEntry::new("s", options, instance));
    place.set(Arc::downgrade(&entry)).unwrap();
    let expiry_ms = environment.wall_ms() + 1000;
    let stored = Expiring { value: b"value", expiry_ms: Some(expiry_ms) }.to_stored();
    let mut put = |_: Option<&[u8]>| Change::Put(stored.clone());
    let advanced = db.inner.advance_rmw(&entry, ValueForm::Stored, b"key", &mut put).unwrap();
    assert!(matches!(advanced, Advance::Done(Some(_))));
    let instance = entry.last_instance();
    assert!(!is_due(&instance, 2), "nothing has expired yet");
    clock.set_wall(Duration::from_millis(expiry_ms));
    assert!(is_due(&instance, 2), "the expiry was forgotten");
}

/// The first pass over many keys takes long, and clients read its figures meanwhile.
#[test]
fn the_first_pass_shows_about_how_many_keys_there_are() {
    const KEYS: u64 = 4000;
    let (environment, _clock) = Environment::simulated(7);
    let options = Options {
        environment: environment.clone(),
        expiry_sweep_interval: None,
        ..Options::default()
    };
    let db = Db::open_on(device::memory(), "removal", options).unwrap();
    for (name, engine) in [("hashed", crate::EngineKind::F2), ("ordered", crate::EngineKind::Lsm)] {
        let options = KeyspaceOptions { engine, expiring: true, ..KeyspaceOptions::default() };
        let keyspace = db.keyspace(name, options).unwrap();
        for key in 0..KEYS {
            let ttl = Duration::from_secs(1000);
            match key % 2 {
                0 => keyspace.put(&key.to_le_bytes(), b"value").unwrap(),
                _ => keyspace.expiring().put_with_ttl(&key.to_le_bytes(), b"value", ttl).unwrap(),
            };
        }
        let entry = db.inner.0.keyspaces.entries.read().get(name).cloned().unwrap();
        let time = Time { environment: &environment, begun: environment.now(), most: None };
        let instance = entry.last_instance();
        assert_eq!(db.inner.0.go_on(&entry, &instance, 1, time), (true, false));
        let stats = keyspace.expiring().stats().unwrap().unwrap();
        assert_eq!(stats.passes, 0, "it is under way");
        let expected = if engine == crate::EngineKind::F2 { KEYS } else { SLICE_PAIRS };
        assert!(stats.keys.abs_diff(expected) < expected / 5, "{} keys in {name}", stats.keys);
        assert!(stats.keys_with_expiry.abs_diff(expected / 2) < expected / 5);
        while db.inner.0.go_on(&entry, &instance, 1, time).0 {}
        let stats = keyspace.expiring().stats().unwrap().unwrap();
        assert_eq!((stats.passes, stats.keys, stats.keys_with_expiry), (1, KEYS, KEYS / 2));
    }
}

/// A key whose value is renewed at the moment when the old one is found to have expired.
#[test]
fn what_is_renewed_meanwhile_stays() {
    let kinds = ENGINES.iter().flat_map(|engine| [(*engine, true), (*engine, false)]);
    for (engine, journaled) in kinds {
        let (environment, clock) = Environment::simulated(21);
        let options = Options {
            environment,
            memory_bytes: 128 << 20,
            sync_interval: None,
            expiry_sweep_interval: None,
            ..Options::default()
        };
        let db = Db::open_on(device::memory(), "removal", options).unwrap();
        let memory_bytes = Some(12 << 20);
        let options = KeyspaceOptions {
            engine,
            journaled,
            memory_bytes,
            expiring: true,
            ..KeyspaceOptions::default()
        };
        let space = db.keyspace("s", options).unwrap();
        let keys: Vec<[u8; 4]> = (0..64_u32).map(u32::to_be_bytes).collect();
        for round in 0..30_u64 {
            for key in &keys {
                space.expiring().put(key, b"old", db.now_ms() + 1).unwrap();
            }
            clock.advance(Duration::from_millis(1));
            let is_over = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| {
                    while !is_over.load(Relaxed) {
                        space.expiring().remove_expired().unwrap();
                    }
                });
                for key in &keys {
                    let renewed = round.to_be_bytes();
                    match round % 3 {
                        0 => drop(space.expiring().put(key, &renewed, u64::MAX).unwrap()),
                        1 => drop(space.put(key, &renewed).unwrap()),
                        _ => {
                            let swap =
                                space.expiring().compare_and_swap(key, None, &renewed, u64::MAX);
                            assert!(swap.unwrap().is_done());
                        }
                    }
                }
                is_over.store(true, Relaxed);
            });
            for key in &keys {
                let found = space.get(key).unwrap();
                assert_eq!(found, Some(round.to_be_bytes().to_vec()), "{engine}, {journaled}");
            }
        }
    }
}
