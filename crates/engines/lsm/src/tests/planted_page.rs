//! Checks of the page of planted bugs (`docs/reliability/planted-lsm.md`).
//! They compare it with the list of bugs and with the tests that find them.

use sync::planted::page::{must_have_every_bug, must_name_what_finds_each};

const PAGE: &str = include_str!("../../../../../docs/reliability/planted-lsm.md");
const FILES: [(&str, &str); 2] = [
    ("tests/models/planted.rs", include_str!("models/planted.rs")),
    ("tests/models/ranges.rs", include_str!("models/ranges.rs")),
];

#[test]
fn the_page_has_every_planted_bug() {
    must_have_every_bug(PAGE, include_str!("../planted.rs"));
}

#[test]
fn what_finds_a_planted_bug_is_there_and_plants_it() {
    must_name_what_finds_each(PAGE, &FILES);
}
