//! Checks of the page of planted bugs (`docs/reliability/planted-lsm-tree.md`).
//! They compare it with the list of bugs and with the tests that find them.

use sync::planted::page::{must_have_every_bug, must_name_what_finds_each};

const PAGE: &str = include_str!("../../../../../docs/reliability/planted-lsm-tree.md");
const FILES: [(&str, &str); 2] = [
    ("tests/planted.rs", include_str!("planted.rs")),
    (
        "crates/engines/lsm/src/tests/planted.rs",
        include_str!("../../../../engines/lsm/src/tests/planted.rs"),
    ),
];

#[test]
fn the_page_has_every_planted_bug() {
    must_have_every_bug(PAGE, include_str!("../planted.rs"));
}

#[test]
fn what_finds_a_planted_bug_is_there_and_plants_it() {
    must_name_what_finds_each(PAGE, &FILES);
}
