//! When deletes are worth a flush, and when they are not.

use super::*;

fn deletes(covered_mib: u64, flush_mib: u64, stored_mib: u64) -> bool {
    let [covered_bytes, flush_bytes, stored_bytes] =
        [covered_mib, flush_mib, stored_mib].map(|mib| mib << 20);
    WaitingDeletes { covered_bytes, flush_bytes, stored_bytes }.are_worth_a_flush()
}

#[test]
fn a_flush_frees_twice_its_bytes_and_a_part_of_the_store() {
    assert!(deletes(1, 0, 1) && !deletes(0, 0, 0));
    assert!(deletes(10, 5, 160) && !deletes(10, 6, 160), "twice the bytes that the flush writes");
    assert!(!deletes(9, 0, 160), "a sixteenth of the store");
    assert!(deletes(64, 0, 1 << 20) && !deletes(63, 0, 1 << 20), "64 MiB of a large store");
}

#[test]
fn deletes_are_flushed_when_the_store_is_quiet_or_they_have_waited() {
    let looks = IdleLooks::default();
    let look = |seqno: u64| looks.look(SeqNo::new(seqno), || true);
    assert!((1..10).all(|seqno| !look(seqno).is_flush_due), "it is never quiet");
    assert!(look(10).is_flush_due, "the tenth look");
    assert!(!look(11).is_flush_due && !look(11).is_flush_due);
    assert_eq!(look(11), Look { is_quiet: true, is_flush_due: true });
    assert!(!looks.look(SeqNo::new(11), || false).is_flush_due);
}

#[test]
fn scans_cause_one_flush_between_two_looks() {
    let runs = DeadRuns::default();
    assert!(!runs.note(511) && runs.note(512) && !runs.note(10_000));
    assert!(runs.take_report() && !runs.take_report());
    assert!(runs.note(512) && runs.take_report());
    assert_eq!(runs.steps(), 511 + 2 * 512 + 10_000);
}

#[test]
fn a_memtable_with_few_tombstones_is_left_alone() {
    assert!(has_many_tombstones(256, 2048) && !has_many_tombstones(256, 2049));
    assert!(!has_many_tombstones(255, 255));
}
