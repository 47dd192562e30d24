//! Reservations, floors, and the bytes that the budget counts.

use std::sync::Arc;

use codec::SeqNo;
use engine::Reservation;
use memory_budget::MemoryBudget;

use crate::MemtableSet;

fn memtable_set() -> (Arc<MemtableSet>, Arc<MemoryBudget>) {
    let budget = Arc::new(MemoryBudget::new(1 << 20));
    (MemtableSet::new(&budget), budget)
}

#[test]
fn a_reservation_becomes_a_memtables_bytes_and_the_rest_returns() {
    let (memtable_set, budget) = memtable_set();
    let memory = memtable_set.memory();
    let head = memtable_set.new_head(SeqNo::ZERO);
    let mut room = memory.try_reserve(100, 100, &**memory).expect("there is room");
    assert!(memory.try_reserve(1, 100, &**memory).is_none(), "it is reserved");
    assert!(memory.has_reservations());
    head.note_entry(60, false, &mut room);
    assert_eq!((memory.bytes(), budget.used(), room.bytes()), (100, 100, 40));
    // More than is left is charged.
    head.note_entry(50, true, &mut room);
    assert_eq!((memory.bytes(), room.bytes(), head.tombstones()), (110, 0, 1));
    drop(room);
    assert!(!memory.has_reservations());
    head.note_entry(5, false, &mut Reservation::uncounted());
    assert_eq!((head.bytes(), memory.bytes(), budget.used()), (115, 115, 115));
    let above = memory.reserve_anyway(1000, &**memory);
    assert_eq!(memory.bytes(), 1115);
    drop((above, head));
    assert_eq!((memory.bytes(), budget.used()), (0, 0));
}

#[test]
fn a_floor_is_lifted_only_if_nothing_is_in_the_memtable() {
    let (memtable_set, _budget) = memtable_set();
    let head = memtable_set.new_head(SeqNo::new(3));
    assert!(!head.lift_if(|| false, || SeqNo::new(9)));
    assert_eq!(head.floor(), SeqNo::new(3));
    assert!(head.lift_if(|| true, || SeqNo::new(9)));
    assert!(head.lift_if(|| true, || SeqNo::new(5)));
    assert_eq!(head.floor(), SeqNo::new(9), "a floor never falls");
    assert!(!head.gate().is_sealed());
    head.seal();
    assert!(head.gate().is_sealed());
}

#[test]
fn a_replay_knows_the_writes_that_were_applied() {
    let (memtable_set, _budget) = memtable_set();
    let number = SeqNo::new;
    memtable_set.note_applied(number(7));
    memtable_set.note_applied(number(5));
    assert_eq!(memtable_set.applied(), number(7));
    let was_applied =
        |seqno, visible| memtable_set.was_applied(number(seqno), number(2), number(visible));
    assert!(was_applied(2, 0), "it is persisted");
    assert!(was_applied(6, 7));
    assert!(!was_applied(7, 7), "its application may not have ended");
    assert!(!was_applied(6, 5), "it is under way");
}
