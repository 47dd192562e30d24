//! Compares the page of planted bugs (`docs/reliability/planted-db.md`) with the list of bugs and
//! with the tests that find them.

use sync::planted::page::{must_have_every_bug, must_name_what_finds_each};

const PAGE: &str = include_str!("../../../../../docs/reliability/planted-db.md");
const FILES: [(&str, &str); 10] = [
    ("src/backup/make/tests.rs", include_str!("../backup/make/tests.rs")),
    ("tests/planted/backup.rs", include_str!("../../tests/planted/backup.rs")),
    ("tests/planted/crash.rs", include_str!("../../tests/planted/crash.rs")),
    ("tests/planted/database.rs", include_str!("../../tests/planted/database.rs")),
    ("tests/planted/expiry.rs", include_str!("../../tests/planted/expiry.rs")),
    ("tests/planted/ingestion.rs", include_str!("../../tests/planted/ingestion.rs")),
    ("tests/planted/merge.rs", include_str!("../../tests/planted/merge.rs")),
    ("tests/planted/racing_writes.rs", include_str!("../../tests/planted/racing_writes.rs")),
    ("tests/planted/serializability.rs", include_str!("../../tests/planted/serializability.rs")),
    ("tests/planted/transactions.rs", include_str!("../../tests/planted/transactions.rs")),
];

#[test]
fn the_page_has_every_planted_bug() {
    must_have_every_bug(PAGE, include_str!("../planted.rs"));
}

#[test]
fn what_finds_a_planted_bug_is_there_and_plants_it() {
    must_name_what_finds_each(PAGE, &FILES);
}
