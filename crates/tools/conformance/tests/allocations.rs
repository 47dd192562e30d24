//! Allocations of lookups in each engine: none if memory has the key, and two if the device has to
//! be read once, for the lookup itself and its key.

use std::sync::Arc;

use engine::{
    At, BlockingWrites, Driver, Engine, Host, Lookup, MemoryUse, NoJournal, Op, Settings,
};
use reads::BlockingReads;
use thermocline::EngineKind;
use thermocline_conformance::{cranked_host, key};
use workers::Order;

const KEYS: u64 = 5_000;
/// Keys that are looked up.
const LOOKED_UP: u64 = 500;
/// Allocations that other parts sometimes make.
const FEW: u64 = LOOKED_UP / 20;

/// Opens a store that may take `budget` bytes, with its default settings, and fills it.
fn filled(driver: &'static Driver, budget: u64) -> (Box<dyn Engine>, Host) {
    let barrier = Arc::new(NoJournal);
    let (host, crank, _clock) = cranked_host(device::memory(), barrier, budget, Order::InOrder);
    let opened = (driver.open)(host.clone(), &Settings::new(driver), "");
    let store = opened.expect("the store opens");
    host.sequence.recover_to(store.persisted());
    for number in 0..KEYS {
        let ops = [Op::Put { key: &key(number), value: &[7; 400] }];
        store.write_next(&ops, &host.sequence).expect("the write is taken");
        if number.is_multiple_of(64) {
            crank.run_all();
        }
    }
    store.flush().expect("flushes");
    crank.run_all();
    (store, host)
}

/// Returns two pairs: of the lookups that memory serves, and of the lookups with one read. Each
/// pair has their number and their allocations.
fn count(store: &dyn Engine, numbers: impl Fn(u64) -> u64) -> [(u64, u64); 2] {
    let mut counts = [(0, 0); 2];
    let mut value = Vec::with_capacity(1024);
    for at in 0..LOOKED_UP {
        let key = key(numbers(at));
        let mut lookup = None;
        let counted = allocation_counter::measure(|| {
            lookup = Some(store.lookup(&key, At::Newest, &mut value));
        });
        let is_pending = match &lookup {
            Some(Ok(Lookup::Pending(pending))) if pending.reads().len() > 1 => continue,
            Some(Ok(Lookup::Pending(_))) => true,
            _ => false,
        };
        let (lookups, allocations) = &mut counts[usize::from(is_pending)];
        *lookups += 1;
        *allocations += counted.count_total;
    }
    counts
}

fn check(driver: &'static Driver) {
    let name = driver.name();
    // All in memory.
    let (store, _host) = filled(driver, 64 << 20);
    let scattered = |at: u64| at * 7_919 % KEYS;
    count(&*store, scattered);
    for at in 0..LOOKED_UP {
        let found = store.get(&key(scattered(at)), &mut Vec::new());
        assert_eq!(found, Ok(true), "{name}");
    }
    let [(hits, allocations), _] = count(&*store, scattered);
    assert!(hits > LOOKED_UP * 9 / 10, "{name}: {hits} of {LOOKED_UP} in memory");
    assert!(allocations <= FEW, "{name}: {allocations} allocations of {hits} lookups");
    let MemoryUse::Share { least_of_new, .. } = driver.memory else {
        // All data of its stores are in memory, so no lookup waits.
        return;
    };
    let (store, _host) = filled(driver, least_of_new.max(1 << 20));
    // The indexes of tables are cached afterwards, and other keys.
    for at in LOOKED_UP..2 * LOOKED_UP {
        assert_eq!(store.get(&key(scattered(at)), &mut Vec::new()), Ok(true), "{name}");
    }
    let [_, (pending, allocations)] = count(&*store, scattered);
    assert!(pending > LOOKED_UP / 4, "{name}: {pending} of {LOOKED_UP} need one read");
    // A lookup of `hashkv` has that of its index in it, which waits for its own read first.
    let most = if driver.name() == "hashkv" { 4 } else { 2 };
    assert!(allocations <= most * pending + FEW, "{name}: {allocations} allocations of {pending}");
}

#[test]
fn a_lookup_allocates_nothing_but_itself() {
    EngineKind::ALL.iter().for_each(|engine| check(engine.driver()));
}
