//! Bugs of transactions for which threads have to meet.

use thermocline::planted::{Planted, again_and_again, must_be_found};

use super::{transactions_beside_each_other, transactions_over_f2};

#[test]
fn a_check_before_the_locks_is_found() {
    let test = again_and_again(transactions_beside_each_other);
    must_be_found(Planted::CheckedUnlocked, "seed", test);
}

#[test]
fn a_write_that_is_told_too_late_is_found() {
    must_be_found(Planted::NotedLate, "seed", again_and_again(transactions_over_f2));
}
