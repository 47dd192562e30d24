//! The page of planted bugs (`docs/reliability/planted-lsm.md`), held to the list of bugs and to what finds them.

const PAGE: &str = include_str!("../../../../docs/reliability/planted-lsm.md");
const FILES: [(&str, &str); 4] = [
    ("tests/models.rs", include_str!("models.rs")),
    ("tests/models/planted.rs", include_str!("models/planted.rs")),
    ("tests/models/ranges.rs", include_str!("models/ranges.rs")),
    ("tests/planted.rs", include_str!("planted.rs")),
];

/// The rows of the page's tables.
fn rows() -> impl Iterator<Item = Vec<&'static str>> {
    let rows = PAGE.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| row.split('|').map(str::trim).skip(1).collect())
}

#[test]
fn the_table_has_every_planted_bug() {
    let bugs = include_str!("../planted.rs");
    let (_, bugs) = bugs.split_once("enum Planted {").expect("the list");
    let (bugs, _) = bugs.split_once("\n}").expect("its end");
    let bugs = bugs.lines().map(|line| line.trim().trim_end_matches(','));
    let bugs: Vec<&str> = bugs.filter(|line| !line.is_empty() && !line.starts_with('/')).collect();
    let told: Vec<&str> = rows().map(|row| row[0].trim_matches('`')).collect();
    assert_eq!(told, bugs);
}

#[test]
fn what_finds_a_planted_bug_is_there_and_plants_it() {
    for row in rows() {
        let bug = row[0].trim_matches('`');
        let (test, file) = row[2].split_once(" in ").expect("a test in a file");
        let (test, file) = (test.trim_matches('`'), file.trim_matches('`'));
        let (_, text) = FILES.iter().find(|(name, _)| *name == file).expect("a file of tests");
        let (_, behind) = text.split_once(&format!("fn {test}()")).expect("the test");
        let (body, _) = behind.split_once("\n}").expect("its end");
        let plants = ["finds", "must_be_found"].map(|how| format!("{how}(Planted::{bug},"));
        let is_planted = plants.iter().any(|plants| body.contains(plants));
        assert!(is_planted, "{test} does not plant {bug}");
    }
}
