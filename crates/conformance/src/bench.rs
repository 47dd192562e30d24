//! What stores of tests are opened with, and what is read of them.

use std::sync::Arc;

use device::Device;
use engine::{Barrier, Direction, Host, KeyRange, MemoryBudget, Result, SeqNo, Sequence, View};
use environment::{Environment, ManualClock};
use telemetry::Registry;
use workers::{HandCranked, Order, Pool};

/// A journal that has everything, and takes no memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Journaled;

impl Barrier for Journaled {
    fn reach(&self, seqno: SeqNo) -> Result<SeqNo> {
        Ok(seqno)
    }

    fn is_journaled(&self) -> bool {
        true
    }
}

/// All pairs in the order of a scan.
pub type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// All pairs of a range of a view.
///
/// # Panics
/// If it cannot be read, or the cursor goes on behind its end.
pub fn scan(view: &dyn View, range: KeyRange, direction: Direction) -> Pairs {
    let mut cursor = view.scan(range, direction).expect("the store is open");
    let mut pairs = Vec::new();
    while let Some((key, value)) = cursor.next().expect("the store is open") {
        pairs.push((key.to_vec(), value.to_vec()));
    }
    assert_eq!(cursor.next(), Ok(None), "a cursor stays at its end");
    pairs
}

/// A key that sorts by its number.
pub fn key(number: u64) -> Vec<u8> {
    format!("key-{number:010}").into_bytes()
}

/// What a store is opened with that may take `budget` bytes: background work is done by hand, in that order, the clock
/// stands still, and each run has the same randomness.
pub fn cranked_host(
    device: Arc<dyn Device>,
    barrier: Arc<dyn Barrier>,
    budget: u64,
    order: Order,
) -> (Host, HandCranked, Arc<ManualClock>) {
    let ((environment, clock), telemetry) = (Environment::simulated(1), Registry::default());
    let (workers, crank) = Pool::hand_cranked(&environment, &telemetry, order);
    let sequence = Arc::new(Sequence::new());
    let memory = Arc::new(MemoryBudget::new(budget));
    let host = Host { device, environment, workers, telemetry, sequence, barrier, memory };
    (host, crank, clock)
}
