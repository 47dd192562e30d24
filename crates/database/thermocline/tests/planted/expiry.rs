//! A bug of the expiry sweep.

use thermocline::planted::{Planted, again_and_again, must_be_found};

use super::sweep::what_is_renewed_meanwhile_stays;

#[test]
fn a_removal_of_what_was_renewed_is_found() {
    must_be_found(Planted::RemovedUnseen, "", again_and_again(what_is_renewed_meanwhile_stays));
}
