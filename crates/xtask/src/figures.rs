//! README quotes only figures that a page of benchmarks has.
//!
//! 1. A row of a table that links to a page below `docs/benchmarks/` quotes that page. One row of the
//!    page must have each cell of the quoting row that has a digit in it, emphasis aside.
//! 2. Other lines give no figure of speed: no number before a word like `times` or `ops/s`, and no
//!    percentage.

use crate::Findings;
use crate::sources::{self, Source};

const PAGES: &str = "docs/benchmarks/";
/// Words after a number that make it a figure of speed.
const UNITS: [&str; 9] =
    ["times", "×", "%", "ops/s", "k/s", "reads/s", "writes/s", "MB/s", "operations"];

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
        match quoted_page(line).filter(|_| line.starts_with('|')) {
            Some(path) => {
                let page = texts.iter().find(|source| source.path == path);
                let is_there = page.is_some_and(|page| has_row(&page.text, line));
                if !is_there {
                    findings.push(format!("{place}: no row of {path} has these figures"));
                }
            }
            None => findings.extend(figure(line).map(|figure| {
                format!("{place}: {figure:?} is a figure without a page: quote it in a table's row")
            })),
        }
    }
    findings
}

/// The page of benchmarks to which a line links.
fn quoted_page(line: &str) -> Option<String> {
    let links = line.split("](").skip(1);
    let mut targets = links.filter_map(|piece| piece.split([')', '#']).next());
    targets.find(|path| path.starts_with(PAGES) && !path.ends_with("README.md")).map(str::to_owned)
}

/// Whether a row of `page` has each cell of `line` that has a digit, except the one with the link.
fn has_row(page: &str, line: &str) -> bool {
    let is_figure =
        |cell: &String| !cell.contains("](") && cell.contains(|one: char| one.is_ascii_digit());
    let wanted: Vec<String> = cells(line).filter(is_figure).collect();
    let rows = page.lines().filter(|row| row.starts_with('|'));
    let mut rows = rows.map(|row| cells(row).collect::<Vec<String>>());
    !wanted.is_empty() && rows.any(|row| wanted.iter().all(|cell| row.contains(cell)))
}

/// The cells of a row, without emphasis.
fn cells(row: &str) -> impl Iterator<Item = String> + '_ {
    row.trim_matches('|').split('|').map(|cell| cell.replace('*', "").trim().to_owned())
}

/// A figure of speed in a line of text.
fn figure(line: &str) -> Option<&str> {
    let is_number = |word: &str| word.starts_with(|one: char| one.is_ascii_digit());
    let mut words = line.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let bare =
            word.trim_matches(|one: char| matches!(one, '(' | ')' | ',' | '.' | '*' | ';' | ':'));
        let next = words.peek().map(|next| next.trim_end_matches([',', '.', ')', ';', ':']));
        let has_unit = UNITS.iter().any(|unit| bare.ends_with(unit))
            || next.is_some_and(|next| UNITS.contains(&next));
        if is_number(bare) && has_unit {
            return Some(word);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{compared, figure};
    use crate::sources::Source;

    const PAGE: &str = "| workload | peer | ratio | ours, ops/s | peer, ops/s |\n|---|---|---|---|---|\n\
                        | r100 | rocksdb | **1.19** (1.10 - 1.25) | 54,100 | 45,300 |\n\
                        | w100 | rocksdb | **0.91** (0.90 - 0.95) | 43,300 | 47,500 |\n";

    fn findings(readme: &str) -> Vec<String> {
        let page = Source { path: "docs/benchmarks/quoted.md".into(), text: PAGE.into() };
        compared(readme, &[page])
    }

    #[test]
    fn a_row_that_a_page_has_is_right_and_any_other_is_not() {
        let row = |figures: &str| {
            format!("| `lsm` | reads | {figures} | [page](docs/benchmarks/quoted.md) |")
        };
        assert!(findings(&row("1.19 (1.10 - 1.25) | 54,100 | 45,300")).is_empty());
        assert!(findings(&row("**1.19** (1.10 - 1.25) | 54,100")).is_empty());
        for wrong in ["1.18 (1.10 - 1.25)", "1.19 (1.10 - 1.25) | 43,300", "no figure", "54,10"] {
            let found = findings(&row(wrong));
            assert_eq!(found.len(), 1, "{wrong}: {found:?}");
            assert!(
                found[0].starts_with("README.md:1: no row of docs/benchmarks/quoted.md"),
                "{found:?}"
            );
        }
        assert_eq!(findings("| 1.19 | [page](docs/benchmarks/gone.md) |").len(), 1);
    }

    #[test]
    fn a_figure_of_speed_outside_of_such_a_row_is_found() {
        for wrong in
            ["It is 1.4 times as fast.", "serves 54,100 ops/s", "| `f2` | 3× |", "(12% faster)"]
        {
            assert_eq!(findings(wrong).len(), 1, "{wrong}");
        }
        for right in [
            "Rust 1.95 or newer",
            "the goal is 15 minutes",
            "```sh\n./run 3 times\n```",
            "10 GB, 1 GB",
        ] {
            assert_eq!(findings(right), Vec::<String>::new(), "{right}");
        }
        assert_eq!(figure("see [f2](docs/f2.md)"), None);
    }
}
