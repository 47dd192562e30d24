//! Tests of the checks: a bug that is not found, and a page that differs from the list, must fail.

use std::cell::Cell;
use std::panic::{UnwindSafe, catch_unwind};

use super::page::{must_have_every_bug, must_name_what_finds_each};
use super::{must_be_found, must_fail};

thread_local! {
    static PLANTED: Cell<Option<u8>> = const { Cell::new(None) };
}

fn said(test: impl FnOnce() + UnwindSafe) -> String {
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
fn a_bug_that_is_not_found_is_reported() {
    assert_eq!(said(|| must_be_found(&PLANTED, 7, "", || {})), "7 was not found");
    let otherwise = said(|| must_be_found(&PLANTED, 7, "lost", || panic!("no room")));
    assert_eq!(otherwise, "7 failed in another way: no room");
    assert_eq!(PLANTED.get(), None);
}

const PAGE: &str = "\
| bug | what is wrong | found by | in |
|---|---|---|---|
| `Lost` | A write is lost. | `a_loss_is_found` in `here.rs` | `writes` |
| `LostLate` | The same, later. | `a_loss_is_found` in `here.rs`; `both_are_found` in `there.rs` | all |
";
const LIST: &str = "
pub(crate) enum Planted {
    /// A write is lost.
    Lost,
    /// The same, later.
    LostLate,
}
";
const HERE: &str = "
fn a_loss_is_found() {
    finds(Planted::Lost, writes);
    finds(Planted::LostLate, writes);
}
";
const THERE: &str = "
fn both_are_found() {
    let bugs = [Planted::Lost, Planted::LostLate];
    bugs.map(|bug| must_be_found(bug, writes));
}
";

fn named(page: &str, here: &str, there: &str) {
    must_name_what_finds_each(page, &[("here.rs", here), ("there.rs", there)]);
}

#[test]
fn a_page_that_is_as_the_list_and_the_tests_are_passes() {
    must_have_every_bug(PAGE, LIST);
    named(PAGE, HERE, THERE);
    let renamed = "use other::writing as writes;\nfn writes() {}\n".to_owned() + HERE;
    named(&PAGE.replace("`writes`", "`writing`"), &renamed, THERE);
}

#[test]
fn a_page_without_a_bug_or_with_another_one_is_reported() {
    let lines = |except: usize| -> String {
        let lines = PAGE.lines().enumerate().filter(|(at, _)| *at != except);
        lines.map(|(_, line)| line.to_owned() + "\n").collect()
    };
    for page in [lines(2), lines(3), PAGE.replace("`Lost`", "`Found`")] {
        assert!(said(move || must_have_every_bug(&page, LIST)).contains("left == right"));
    }
}

#[test]
fn a_page_that_names_what_finds_nothing_is_reported() {
    let told = |page: &str, here: &str, there: &str| {
        let (page, here, there) = (page.to_owned(), here.to_owned(), there.to_owned());
        said(move || named(&page, &here, &there))
    };
    let elsewhere = PAGE.replace("here.rs", "nowhere.rs");
    assert_eq!(told(&elsewhere, HERE, THERE), "nowhere.rs has no tests that plant");
    assert_eq!(told(PAGE, THERE, THERE), "here.rs has no a_loss_is_found");
    // The longer name is not taken for the shorter one.
    let late = HERE.replace("    finds(Planted::Lost, writes);\n", "");
    assert_eq!(told(PAGE, &late, THERE), "a_loss_is_found does not plant Lost");
    let idle = THERE.replace("must_be_found", "drop");
    assert_eq!(told(PAGE, HERE, &idle), "both_are_found need not find LostLate");
    let other = PAGE.replace("`writes`", "`reads`");
    assert_eq!(told(&other, HERE, THERE), "a_loss_is_found does not run reads");
}
