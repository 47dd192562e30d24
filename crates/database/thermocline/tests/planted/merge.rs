//! A bug of merges for which threads have to meet.

use thermocline::planted::{Planted, again_and_again, must_be_found};

use super::threads::counters_of_many_threads_are_exact;

#[test]
fn merges_without_a_lock_are_found() {
    let test = again_and_again(counters_of_many_threads_are_exact);
    must_be_found(Planted::MergedUnlocked, "journaled", test);
}
