//! Bugs of writes for which threads have to meet.

use thermocline::planted::{Planted, again_and_again, must_be_found};

use super::what_racing_writers_leave_is_a_prefix_in_the_order_of_their_numbers;

#[test]
fn an_update_without_a_lock_is_found() {
    let test = what_racing_writers_leave_is_a_prefix_in_the_order_of_their_numbers;
    must_be_found(Planted::UpdatedUnlocked, "", again_and_again(test));
}
