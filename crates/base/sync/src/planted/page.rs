//! Pages of planted bugs (`docs/reliability/`), compared with the list of bugs and the tests.
//!
//! Each row of a page's tables begins with the name of a bug. Its third column names the tests that
//! find it, with a semicolon between them: `` `test` in `file` ``. Names in the fourth one are of
//! the models that these tests run.

/// The cells of all rows.
fn rows(page: &str) -> impl Iterator<Item = Vec<&str>> {
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| row.split('|').map(str::trim).skip(1).collect())
}

/// The names in a cell: every second part between backticks.
fn names<'a>(cell: &'a str) -> impl Iterator<Item = &'a str> + use<'a> {
    cell.split('`').skip(1).step_by(2)
}

/// The page has every bug of the enum `Planted` in `list`, in its order, and no other.
///
/// # Panics
/// It has not.
pub fn must_have_every_bug(page: &str, list: &str) {
    let (_, bugs) = list.split_once("enum Planted {").expect("the list");
    let (bugs, _) = bugs.split_once("\n}").expect("its end");
    let bugs = bugs.lines().map(|line| line.trim().trim_end_matches(','));
    let bugs: Vec<&str> = bugs.filter(|line| !line.is_empty() && !line.starts_with('/')).collect();
    let told: Vec<&str> = rows(page).filter_map(|row| names(row[0]).next()).collect();
    assert_eq!(told, bugs);
}

/// For each row, the tests that it names are in `files`, which are a file's name and its text. Each
/// test plants the bug and must find it by the means that the row names.
///
/// # Panics
/// One is not, or does not.
pub fn must_name_what_finds_each(page: &str, files: &[(&str, &str)]) {
    for row in rows(page) {
        let bug = names(row[0]).next().expect("the name of a bug");
        for found in row[2].split("; ") {
            let mut found = names(found);
            let (test, file) = (found.next().expect("a test"), found.next().expect("its file"));
            let text = files.iter().find_map(|(name, text)| (*name == file).then_some(*text));
            let text = text.unwrap_or_else(|| panic!("{file} has no tests that plant"));
            let (_, body) = text
                .split_once(&format!("fn {test}()"))
                .unwrap_or_else(|| panic!("{file} has no {test}"));
            let (body, _) = body.split_once("\n}").expect("its end");
            let planted = format!("Planted::{bug}");
            let mut behind = body.split(&planted).skip(1);
            let ends = |behind: &str| !behind.starts_with(|c: char| c.is_alphanumeric());
            assert!(behind.any(ends), "{test} does not plant {bug}");
            let must_find = ["finds(", "must_find(", "must_be_found(", "must_fail("];
            assert!(must_find.iter().any(|how| body.contains(how)), "{test} need not find {bug}");
            for by in row.get(3).into_iter().flat_map(|cell| names(cell)) {
                let is_run = body.contains(by) || text.contains(&format!("{by} as "));
                assert!(is_run, "{test} does not run {by}");
            }
        }
    }
}
