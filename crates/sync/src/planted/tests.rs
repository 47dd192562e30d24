//! Who plants bugs has to be told of those that are not found.

use super::{must_be_found, must_fail};
use std::cell::Cell;
use std::panic::catch_unwind;

thread_local! {
    static PLANTED: Cell<Option<u8>> = const { Cell::new(None) };
}

fn said(test: impl FnOnce() + std::panic::UnwindSafe) -> String {
    let panic = catch_unwind(test).expect_err("it fails");
    *panic.downcast::<String>().expect("words")
}

#[test]
fn a_bug_is_there_for_its_test_alone() {
    must_be_found(&PLANTED, 7, "bug Some(7)", || panic!("bug {:?}", PLANTED.get()));
    assert_eq!(PLANTED.get(), None);
    must_fail("it", "in few words", || panic!("in few words"));
}

#[test]
fn a_bug_that_is_not_found_is_told() {
    assert_eq!(said(|| must_be_found(&PLANTED, 7, "", || {})), "7 was not found");
    let otherwise = said(|| must_be_found(&PLANTED, 7, "lost", || panic!("no room")));
    assert_eq!(otherwise, "7 failed in another way: no room");
    assert_eq!(PLANTED.get(), None);
}
