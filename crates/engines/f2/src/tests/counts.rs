//! A checkpoint's counts of the cold index match its content, even if entries are added meanwhile.

use std::sync::Arc;

use device::{Device, FaultDevice, OperationKind};
use engine::Engine;
use workers::StopToken;

use super::stores::{Bench, key, value};
use super::two_logs::{KEYS, small_cold};
use crate::address::LogAddress;
use crate::check;
use crate::cold_index::Change;
use crate::position::Position;

#[test]
fn entries_that_come_behind_the_cut_do_not_count() {
    const MORE: u64 = 500;
    let memory = device::memory();
    let device = FaultDevice::new(Arc::clone(&memory));
    let bench = Bench::open_by_hand(Arc::clone(&device) as Arc<dyn Device>, small_cold(), 7);
    for number in 0..KEYS {
        bench.put(&key(number), &value(number, 0, 8));
        if number % 10 == 0 {
            bench.advance();
        }
    }
    let shared = Arc::clone(&bench.store.shared);
    device.interpose(OperationKind::Sync, move || {
        let put = |number: u64| Change {
            position: Position::of_number(codec::hash64(0, &number.to_le_bytes()) & !3),
            old: LogAddress::NONE,
            new: LogAddress::new(16 * number),
        };
        let cold = shared.cold.as_ref().expect("two logs");
        let mut changes: Vec<Change> = (1..=MORE).map(put).collect();
        let applied = cold.index.apply(&mut changes, &StopToken::default()).expect("are put");
        assert_eq!(applied.put, MORE);
    });
    let before = bench.figure("cold_index_entries");
    bench.store.flush().expect("flushes");
    assert_eq!(bench.figure("cold_index_entries"), before + MORE);
    // A crash.
    drop(bench);
    let entries = check(&memory).expect("is checked").entries;
    assert_eq!(entries, before, "what the checkpoint has");
    let bench = Bench::open_by_hand(memory, small_cold(), 7);
    assert_eq!(bench.figure("cold_index_entries"), entries, "and says");
}
