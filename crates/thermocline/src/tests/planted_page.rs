//! The page of planted bugs (`docs/reliability/planted-db.md`), held to the list of bugs and to what finds them.

const PAGE: &str = include_str!("../../../../docs/reliability/planted-db.md");
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

/// The rows of the page's tables.
fn rows() -> impl Iterator<Item = Vec<&'static str>> {
    let rows = PAGE.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| row.split('|').map(str::trim).skip(1).collect())
}

#[test]
fn the_table_has_every_planted_bug() {
    let bugs = include_str!("../planted.rs");
    let (_, bugs) = bugs.split_once("enum Planted {").unwrap();
    let (bugs, _) = bugs.split_once("\n}").unwrap();
    let bugs = bugs.lines().map(|line| line.trim().trim_end_matches(','));
    let bugs: Vec<&str> = bugs.filter(|line| !line.is_empty() && !line.starts_with('/')).collect();
    let told: Vec<&str> = rows().map(|row| row[0].trim_matches('`')).collect();
    assert_eq!(told, bugs);
}

#[test]
fn what_finds_a_planted_bug_is_there_and_plants_it() {
    for row in rows() {
        let bug = row[0].trim_matches('`');
        let (test, file) = row[2].split_once(" in ").unwrap();
        let (test, file) = (test.trim_matches('`'), file.trim_matches('`'));
        let (_, text) = FILES.iter().find(|(name, _)| *name == file).unwrap();
        let (_, behind) =
            text.split_once(&format!("fn {test}()")).unwrap_or_else(|| panic!("{test}"));
        let (body, _) = behind.split_once("\n}").unwrap();
        assert!(
            body.contains(&format!("must_be_found(Planted::{bug},")),
            "{test} does not plant {bug}"
        );
        let by = row[3].trim_matches('`');
        assert!(
            body.contains(by) || text.contains(&format!("{by} as ")),
            "{test} does not run {by}"
        );
    }
}
