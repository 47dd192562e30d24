//! Files of two engines that share code lines.
//!
//! 1. Files of the same name are compared, if both have enough code lines. `lib.rs` and `driver.rs`
//!    are left out: each engine has one of a given form.
//! 2. The common lines are the longest common sequence of code lines, as a share of the shorter
//!    file's. Comments, blank lines and the headers of functions in a trait's implementation do not
//!    count.

use crate::sources::Source;

/// The two engines that are most alike.
const ALIKE: [&str; 2] = ["crates/engines/lsm/", "crates/engines/flexdb/"];
/// Code lines below which a file is not compared.
const LINES_MIN: usize = 80;
/// Files whose form is given.
const LEFT_OUT: [&str; 2] = ["lib.rs", "driver.rs"];
/// Percent of common lines that a production file and a test file may have.
const PERCENT_MAX: [usize; 2] = [30, 40];

/// Two files of the same name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) paths: [String; 2],
    /// Common lines as a share of the shorter file's.
    pub(crate) percent: usize,
    pub(crate) is_test: bool,
}

impl Pair {
    /// Whether the two share too much.
    pub(crate) fn is_similar(&self) -> bool {
        self.percent > PERCENT_MAX[usize::from(self.is_test)]
    }
}

/// Reports the pairs of files that share too much.
pub(crate) fn check(sources: &[Source]) -> Vec<String> {
    let similar = pairs(sources).into_iter().filter(Pair::is_similar);
    let finding = |pair: Pair| {
        let ([one, other], percent) = (pair.paths, pair.percent);
        format!("{one}: {percent}% of it is as {other}: move the common part to a crate below")
    };
    similar.map(finding).collect()
}

/// Returns the pairs of files of the two engines, the most similar first.
pub(crate) fn pairs(sources: &[Source]) -> Vec<Pair> {
    let files = |folder: &str| -> Vec<(&Source, Vec<&str>)> {
        let inside = sources.iter().filter(|source| source.path.starts_with(folder));
        let inside = inside.filter(|source| source.is("rs") && !LEFT_OUT.contains(&name(source)));
        let with_code = inside.map(|source| (source, code(&source.text)));
        with_code.filter(|(_, lines)| lines.len() >= LINES_MIN).collect()
    };
    let [ones, others] = ALIKE.map(files);
    let mut pairs = Vec::new();
    for (one, lines) in &ones {
        let same_name = |(other, _): &&(&Source, Vec<&str>)| {
            name(other) == name(one) && other.is_test() == one.is_test()
        };
        for (other, other_lines) in others.iter().filter(same_name) {
            let shorter = lines.len().min(other_lines.len());
            let percent = (common(lines, other_lines) * 100).div_ceil(shorter);
            let paths = [one.path.clone(), other.path.clone()];
            pairs.push(Pair { paths, percent, is_test: one.is_test() });
        }
    }
    pairs.sort_by_key(|pair| std::cmp::Reverse(pair.percent));
    pairs
}

fn name(source: &Source) -> &str {
    source.path.rsplit('/').next().unwrap_or(&source.path)
}

/// Returns the code lines of a file.
fn code(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let (mut is_trait, mut is_header) = (false, false);
    for line in text.lines() {
        let code = line.trim();
        if line.starts_with("impl") {
            is_trait = line.contains(" for ");
        } else if line.starts_with('}') {
            is_trait = false;
        }
        is_header |= is_trait && code.starts_with("fn ");
        if !code.is_empty() && !code.starts_with("//") && !is_header {
            lines.push(code);
        }
        is_header &= !code.ends_with('{') && !code.ends_with('}');
    }
    lines
}

/// Returns the length of the longest common sequence.
fn common(one: &[&str], other: &[&str]) -> usize {
    let mut lengths = vec![0; other.len() + 1];
    for line in one {
        let mut diagonal = 0;
        for (at, other_line) in other.iter().enumerate() {
            let above = lengths[at + 1];
            lengths[at + 1] =
                if line == other_line { diagonal + 1 } else { above.max(lengths[at]) };
            diagonal = above;
        }
    }
    lengths.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, lines: impl Iterator<Item = String>) -> Source {
        Source { path: path.to_owned(), text: lines.map(|line| line + "\n").collect() }
    }

    #[test]
    fn common_lines_are_counted_in_order() {
        assert_eq!(common(&["a", "b", "c"], &["c", "a", "c"]), 2);
        assert_eq!(common(&[], &["a"]), 0);
    }

    #[test]
    fn files_of_one_name_are_compared_without_comments_and_trait_headers() {
        let same = |number: usize| format!("let line = {number};");
        let one = file("crates/engines/lsm/src/a.rs", (0..100).map(same));
        let half =
            (0..100).map(|number| if number < 50 { same(number) } else { "other();".to_owned() });
        let other = file("crates/engines/flexdb/src/deep/a.rs", half);
        let short = file("crates/engines/flexdb/src/b.rs", (0..10).map(same));
        let found = pairs(&[one, other, short]);
        assert_eq!(found.len(), 1);
        assert!(found[0].percent == 50 && found[0].is_similar(), "{found:?}");
        let text = "impl Engine for Store {\n    fn get(\n        &self,\n    ) -> u64 {\n        // why\n        self.one()\n    }\n}\n";
        assert_eq!(code(text), ["impl Engine for Store {", "self.one()", "}", "}"]);
    }
}
