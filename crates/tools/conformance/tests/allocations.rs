//! Allocations of lookups in each engine: none if memory has the key, and two if the device has to
//! be read once, for the lookup itself and its key.

use std::sync::Arc;

use device::Device;
use engine::{At, Engine, Host, Lookup, NoJournal, Result};
use thermocline_conformance::{Bench, key};

const KEYS: u64 = 5_000;
/// Keys that are looked up.
const LOOKED_UP: u64 = 500;
/// Allocations that other parts sometimes make.
const FEW: u64 = LOOKED_UP / 20;

fn filled<S: Engine>(open: fn(Host) -> Result<S>, budget: u64) -> Bench<S> {
    let device: Arc<dyn Device> = device::memory();
    let (bench, crank) = Bench::cranked(device, Arc::new(NoJournal), budget, open);
    for number in 0..KEYS {
        bench.put(&key(number), &[7; 400]);
        if number.is_multiple_of(64) {
            crank.run_all();
        }
    }
    bench.store.flush().expect("flushes");
    crank.run_all();
    bench
}

/// Returns two pairs: of the lookups that memory serves, and of the lookups with one read. Each
/// pair has their number and their allocations.
fn count<S: Engine>(store: &S, numbers: impl Fn(u64) -> u64) -> [(u64, u64); 2] {
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

fn check<S: Engine>(name: &str, open: fn(Host) -> Result<S>, may_wait: bool) {
    // All in memory.
    let bench = filled(open, 64 << 20);
    let scattered = |at: u64| at * 7_919 % KEYS;
    count(&bench.store, scattered);
    for at in 0..LOOKED_UP {
        let mut value = Vec::new();
        let found = reads::BlockingReads::get(&bench.store, &key(scattered(at)), &mut value);
        assert_eq!(found, Ok(true), "{name}");
    }
    let [(hits, allocations), _] = count(&bench.store, scattered);
    assert!(hits > LOOKED_UP * 9 / 10, "{name}: {hits} of {LOOKED_UP} in memory");
    assert!(allocations <= FEW, "{name}: {allocations} allocations of {hits} lookups");
    if !may_wait {
        return;
    }
    let bench = filled(open, 1 << 20);
    let [_, (pending, allocations)] = count(&bench.store, scattered);
    assert!(pending > LOOKED_UP / 4, "{name}: {pending} of {LOOKED_UP} need one read");
    assert!(allocations <= 2 * pending + FEW, "{name}: {allocations} allocations of {pending}");
}

#[test]
fn a_lookup_allocates_nothing_but_itself() {
    check("memory", |host| memory::Store::open(host, memory::Options::default()), false);
    check("f2", |host| f2::Store::open(host, f2::Options::default()), true);
    check("lsm", |host| lsm::Store::open(host, lsm::Options::default()), true);
    check("flexdb", |host| flexdb::Store::open(host, flexdb::Options::default()), true);
}
