//! Checks the page of mutants in models (`docs/reliability/planted-f2.md`) against their list and
//! the models.

use sync::planted::page::{must_have_every_bug, must_name_what_finds_each};

const PAGE: &str = include_str!("../../../../../docs/reliability/planted-f2.md");
const FILES: [(&str, &str); 9] = [
    ("admission/models.rs", include_str!("../admission/models.rs")),
    ("cold_index/models.rs", include_str!("../cold_index/models.rs")),
    ("hash_index/loom.rs", include_str!("../hash_index/loom.rs")),
    ("hybrid_log/models.rs", include_str!("../hybrid_log/models.rs")),
    ("hybrid_log/models/real.rs", include_str!("../hybrid_log/models/real.rs")),
    ("hybrid_log/models/reserve.rs", include_str!("../hybrid_log/models/reserve.rs")),
    ("ops/models.rs", include_str!("../ops/models.rs")),
    ("read_cache/models.rs", include_str!("../read_cache/models.rs")),
    ("record/models.rs", include_str!("../record/models.rs")),
];

#[test]
fn the_page_has_every_planted_bug() {
    must_have_every_bug(PAGE, include_str!("../planted.rs"));
}

#[test]
fn what_finds_a_planted_bug_is_there_and_plants_it() {
    must_name_what_finds_each(PAGE, &FILES);
}
