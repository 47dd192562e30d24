//! Bugs of transactions for which threads have to meet.

use thermocline::planted::{Planted, must_be_found};

use super::{transactions_beside_each_other, transactions_over_f2};

#[test]
fn a_check_before_the_locks_is_found() {
    must_be_found(Planted::CheckedUnlocked, "seed", transactions_beside_each_other);
}

#[test]
fn a_write_that_is_told_too_late_is_found() {
    must_be_found(Planted::NotedLate, "seed", transactions_over_f2);
}
