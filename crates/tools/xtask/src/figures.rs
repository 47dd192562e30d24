//! README quotes only figures that a page of benchmarks has.
//!
//! 1. A row of a table that links to a page below `docs/benchmarks/` quotes that page. One row of
//!    the page must have each cell of the quoting row that is a figure. Emphasis does not count. A
//!    row with the sign † may not be quoted.
//! 2. A figure in another row is refused, and so is a line that gives a number before a word like
//!    `times` or `ops/s`, or a percentage.

use crate::Findings;
use crate::sources::{self, Source};

const PAGES: &str = "docs/benchmarks/";
/// Words after a number that make it a figure of speed.
const UNITS: [&str; 9] = ["times", "×", "x", "%", "ops/s", "k/s", "reads/s", "writes/s", "MB/s"];
/// The sign of a row that may not be quoted, as `bench tables` writes it.
const NOT_QUOTABLE: char = '†';

/// Checks README against the pages.
pub(crate) fn check() -> Findings {
    let texts = sources::texts()?;
    let readme = texts.iter().find(|source| source.path == "README.md");
    let readme = readme.ok_or_else(|| "there is no README.md".to_owned())?;
    Ok(compared(&readme.text, &texts))
}

fn compared(readme: &str, texts: &[Source]) -> Vec<String> {
    let mut findings = Vec::new();
    let mut is_code = false;
    for (index, line) in readme.lines().enumerate() {
        let place = format!("README.md:{}", index + 1);
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        let figures: Vec<String> = cells(line).filter(|cell| is_figure(cell)).collect();
        let is_row = line.trim_start().starts_with('|');
        match quoted_page(line).filter(|_| is_row && !figures.is_empty()) {
            Some(path) => {
                let page = texts.iter().find(|source| source.path == path);
                let is_there = page.is_some_and(|page| has_row(&page.text, &figures));
                if !is_there {
                    findings.push(format!("{place}: no row of {path} has these figures"));
                }
            }
            None => {
                let in_row = figures.first().filter(|_| is_row).map(String::as_str);
                findings.extend(in_row.or_else(|| figure(line)).map(|figure| {
                    format!("{place}: {figure:?} is a figure without a page: quote it in a row")
                }));
            }
        }
    }
    findings
}

/// The page of benchmarks to which a line links.
fn quoted_page(line: &str) -> Option<String> {
    let links = line.split("](").skip(1);
    let targets = links.filter_map(|piece| piece.split([')', '#']).next());
    let mut paths = targets.map(|path| path.trim_start_matches("./"));
    paths.find(|path| path.starts_with(PAGES) && !path.ends_with("README.md")).map(str::to_owned)
}

/// Whether a row of `page` that may be quoted has all of `figures`.
fn has_row(page: &str, figures: &[String]) -> bool {
    let rows = page.lines().filter(|row| row.starts_with('|') && !row.contains(NOT_QUOTABLE));
    let mut rows = rows.map(|row| cells(row).collect::<Vec<String>>());
    rows.any(|row| figures.iter().all(|figure| row.contains(figure)))
}

/// Whether a cell is a figure: a number, perhaps with a unit or with its spread.
fn is_figure(cell: &str) -> bool {
    let is_part = |one: char| one.is_ascii_digit() || " .,()-–%×kMx/s".contains(one);
    cell.starts_with(|one: char| one.is_ascii_digit()) && cell.chars().all(is_part)
}

/// The cells of a row, without emphasis; of a link its text.
fn cells(row: &str) -> impl Iterator<Item = String> + '_ {
    let of_cell = |cell: &str| match cell.trim().strip_prefix('[') {
        Some(link) => link.split("](").next().unwrap_or_default().replace('*', ""),
        None => cell.replace('*', "").trim().to_owned(),
    };
    row.trim().trim_matches('|').split('|').map(of_cell)
}

/// A figure of speed in a line of text.
fn figure(line: &str) -> Option<&str> {
    const AROUND: [char; 9] = ['(', ')', ',', '.', '*', ';', ':', '~', '|'];
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_unit = |word: &&str| UNITS.contains(&word.trim_matches(AROUND));
    let has_unit = |number: &str| UNITS.iter().any(|unit| number.ends_with(unit));
    words.iter().enumerate().find_map(|(at, word)| {
        let bare = word.trim_matches(AROUND);
        let is_number = bare.starts_with(|one: char| one.is_ascii_digit());
        let is_figure = has_unit(bare) || words.get(at + 1).is_some_and(is_unit);
        (is_number && is_figure).then_some(*word)
    })
}

#[cfg(test)]
mod tests {
    use super::{compared, figure};
    use crate::sources::Source;

    const PAGE: &str = "| workload | peer | ratio | ours, ops/s | peer, ops/s |\n\
                        |---|---|---|---|---|\n\
                        | r100 | rocksdb | **1.19** (1.10 - 1.25) | 54.1 k | 45.3 k |\n\
                        | w100 | rocksdb | **0.91** (0.90 - 0.95) | 43.3 k | 47.5 k |\n\
                        | s100 | rocksdb | **3.00** (2.90 - 3.10) | 9.1 k† | 3.0 k |\n";

    fn findings(readme: &str) -> Vec<String> {
        let page = Source { path: "docs/benchmarks/quoted.md".into(), text: PAGE.into() };
        compared(readme, &[page])
    }

    #[test]
    fn a_row_that_a_page_has_is_right_and_any_other_is_not() {
        let link = "[page](docs/benchmarks/quoted.md)";
        let row = |figures: &str| format!("| `lsm` | R100, 10 GB | {figures} | {link} |");
        assert!(findings(&row("1.19 (1.10 - 1.25) | 54.1 k | 45.3 k")).is_empty());
        assert!(findings(&row("**1.19** (1.10 - 1.25) | 54.1 k")).is_empty());
        assert!(
            findings("| `f2` | [1.19 (1.10 - 1.25)](./docs/benchmarks/quoted.md) |").is_empty()
        );
        for wrong in ["1.18 (1.10 - 1.25)", "1.19 (1.10 - 1.25) | 43.3 k", "54.1", "9.1 k | 3.0 k"]
        {
            let found = findings(&row(wrong));
            assert_eq!(found.len(), 1, "{wrong}: {found:?}");
            assert!(found[0].contains("no row of docs/benchmarks/quoted.md"), "{found:?}");
        }
        assert_eq!(findings("| 1.19 | [page](docs/benchmarks/gone.md) |").len(), 1);
        assert!(findings(&format!("| quoted rows | {link} |")).is_empty());
    }

    #[test]
    fn a_figure_of_speed_outside_of_such_a_row_is_found() {
        for wrong in [
            "It is 1.4 times as fast.",
            "It is **1.4 times** as fast.",
            "~3x as fast",
            "serves 54,100 ops/s",
            "| `f2` | 3× |",
            "  | reads | 54.1 k |",
            "(12% faster)",
        ] {
            assert_eq!(findings(wrong).len(), 1, "{wrong}");
        }
        for right in [
            "Rust 1.95 or newer",
            "the goal is 15 minutes",
            "```sh\n./run 3 times\n```",
            "| `lsm` | 10 GB, 1 GB |",
        ] {
            assert_eq!(findings(right), Vec::<String>::new(), "{right}");
        }
        assert_eq!(figure("see [f2](docs/f2.md)"), None);
    }
}
