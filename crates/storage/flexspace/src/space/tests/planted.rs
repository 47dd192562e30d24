//! Mutants of a space that models find, each with the test that finds it
//! (`docs/reliability/planted-flex.md`).

use sync::planted::page::{must_have_every_bug, must_name_what_finds_each};

const FILES: [(&str, &str); 2] = [
    ("data/buffer/models.rs", include_str!("../../data/buffer/models.rs")),
    ("space/models.rs", include_str!("../models.rs")),
];

#[test]
fn the_page_has_every_planted_bug_and_what_finds_it() {
    let page = include_str!("../../../../../../docs/reliability/planted-flex.md");
    let (_, page) = page.split_once("## flexspace").expect("the section");
    let (page, _) = page.split_once("## flexdb").expect("the next");
    must_have_every_bug(page, include_str!("../../planted.rs"));
    must_name_what_finds_each(page, &FILES);
}
