//! Values in memory are read, and changed in place, without an allocation.

use std::sync::Arc;

use engine::{Change, Host, NoJournal, Operator, Sequence};
use environment::Environment;
use memory_budget::MemoryBudget;
use reads::BlockingReads;
use telemetry::Registry;
use thermocline_f2::{Options, Store, Typed};
use workers::{Order, Pool};

const KEYS: u64 = 1_000;
const ROUNDS: u64 = 20;
/// Allocations that other parts sometimes make, as the sequence of writes does.
const FEW: u64 = ROUNDS;

/// Opens a store without threads.
fn open() -> (Store, Pool) {
    let (environment, _clock) = Environment::simulated(7);
    let telemetry = Registry::default();
    let (pool, _crank) = Pool::hand_cranked(&environment, &telemetry, Order::InOrder);
    let host = Host {
        device: device::memory(),
        workers: pool.clone(),
        environment,
        telemetry,
        sequence: Arc::new(Sequence::new()),
        barrier: Arc::new(NoJournal),
        memory: Arc::new(MemoryBudget::new(64 << 20)),
    };
    (Store::open(host, Options::default()).expect("the store opens"), pool)
}

/// Returns the allocations of `work` for each key, after it was done once.
fn allocations(work: impl Fn(u64)) -> u64 {
    (0..KEYS).for_each(&work);
    let counted = allocation_counter::measure(|| {
        (0..ROUNDS).for_each(|_| (0..KEYS).for_each(&work));
    });
    counted.count_total
}

fn assert_few(count: u64) {
    assert!(count <= FEW, "{count} allocations in {} operations", ROUNDS * KEYS);
}

#[test]
fn a_typed_store_reads_and_changes_in_place_without_any() {
    let (store, _pool) = open();
    let counters: Typed<u64, u64> = Typed::over(store);
    let update = |key| counters.update(key, 0, |count| *count += 1).expect("it is taken");
    assert_few(allocations(update));
    let get = |key| assert_eq!(counters.get(key), Ok(Some(ROUNDS + 1)));
    assert_few(allocations(get));
    // This checks that allocations are counted at all.
    assert_eq!(allocations(|key| drop(std::hint::black_box(Box::new(key)))), ROUNDS * KEYS);
}

struct AddOne;

impl Operator for AddOne {
    fn update_in_place(&mut self, value: &mut [u8]) -> bool {
        value[0] = value[0].wrapping_add(1);
        true
    }

    fn update(&mut self, _value: Option<&[u8]>) -> Change {
        Change::Put(vec![1; 100])
    }
}

#[test]
fn a_read_modify_write_in_place_makes_none() {
    let (store, _pool) = open();
    let sequence = Sequence::new();
    let rmw = |key: u64| {
        let key = key.to_le_bytes();
        let ticket = sequence.begin();
        store.rmw(&key, &mut AddOne, ticket.seqno()).expect("it is taken");
    };
    assert_few(allocations(rmw));
}
