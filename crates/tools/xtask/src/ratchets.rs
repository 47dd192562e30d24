//! Counts of faults that may fall and never rise: hard sentences, wide comments, wide structs and
//! more.
//!
//! `reliability/style.toml` has the counts of each crate. A count that differs is reported.
//! `--write` commits lower counts. A count rises in one crate only if code has moved there: then
//! the count over all crates does not rise.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::prose::{self, Markers, WORDS_MAX};
use crate::sources::Source;
use crate::structs;

const FILE: &str = "reliability/style.toml";

/// Counts by crate, then by name.
pub(crate) type Counts = BTreeMap<String, BTreeMap<String, u64>>;

/// Compares the counts with the committed ones, or with `write` commits them.
pub(crate) fn check(sources: &[Source], write: bool) -> Result<Vec<String>, String> {
    let found = counts(sources)?;
    let committed = read()?;
    let mut findings = Vec::new();
    if write {
        let risen = risen(&committed, &found);
        if risen.is_empty() {
            #[expect(clippy::disallowed_methods, reason = "writes a file of the repository")]
            std::fs::write(FILE, render(&found)).map_err(|error| format!("{FILE}: {error}"))?;
        }
        return Ok(risen);
    }
    for (crate_name, name) in names(&committed, &found) {
        let (limit, count) = (of(&committed, crate_name, name), of(&found, crate_name, name));
        if count > limit {
            findings.push(format!(
                "{crate_name}: {count} of {name}, {FILE} says {limit}: `xtask style --list {crate_name} {name}` \
                 shows them"
            ));
        } else if count < limit {
            findings.push(format!(
                "{crate_name}: {count} of {name}, {FILE} says {limit}: run ./dev style --write"
            ));
        }
    }
    Ok(findings)
}

/// Returns the counts that rose over all crates.
fn risen(committed: &Counts, found: &Counts) -> Vec<String> {
    let sum = |counts: &Counts, name: &str| -> u64 {
        counts.values().filter_map(|counts| counts.get(name)).sum()
    };
    let mut all: Vec<&str> = names(committed, found).into_iter().map(|(_, name)| name).collect();
    all.sort_unstable();
    all.dedup();
    let committed_any = !committed.is_empty();
    let rises = |name: &&str| committed_any && sum(found, name) > sum(committed, name);
    let say = |name: &str| {
        let (now, then) = (sum(found, name), sum(committed, name));
        format!("{now} of {name} in all, {FILE} says {then}: it may not rise")
    };
    all.into_iter().filter(rises).map(say).collect()
}

/// Returns each pair of a crate and a name that either has.
fn names<'a>(one: &'a Counts, other: &'a Counts) -> Vec<(&'a str, &'a str)> {
    let pairs = one.iter().chain(other.iter()).flat_map(|(crate_name, counts)| {
        counts.keys().map(move |name| (crate_name.as_str(), name.as_str()))
    });
    let mut pairs: Vec<_> = pairs.collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

fn of(counts: &Counts, crate_name: &str, name: &str) -> u64 {
    counts.get(crate_name).and_then(|counts| counts.get(name)).copied().unwrap_or(0)
}

/// Returns the crate of a path, or the first folder of a file outside `crates`.
pub(crate) fn crate_of(path: &str) -> &str {
    let mut parts = path.split('/');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some("crates"), Some(_), Some(name), Some(_)) => name,
        (Some(folder), Some(_), ..) => folder,
        _ => "root",
    }
}

/// Counts all faults.
pub(crate) fn counts(sources: &[Source]) -> Result<Counts, String> {
    let markers = Markers::new()?;
    let mut counts = Counts::new();
    let mut add = |path: &str, name: &str, count: u64| {
        if count > 0 {
            let of_crate = counts.entry(crate_of(path).to_owned()).or_default();
            *of_crate.entry(name.to_owned()).or_default() += count;
        }
    };
    for source in sources.iter().filter(|source| source.is("rs") || source.is("md")) {
        for sentence in prose::sentences(source) {
            for name in markers.of(&sentence.text) {
                add(&source.path, name, 1);
            }
            add(&source.path, "long_sentences", u64::from(sentence.words() > WORDS_MAX));
        }
        if source.is("rs") {
            add(&source.path, "wide_comments", prose::wide_comments(source) as u64);
            add(&source.path, "mod_files", u64::from(source.path.ends_with("/mod.rs")));
            let wide = if source.is_test() { Vec::new() } else { structs::wide(source) };
            add(&source.path, "wide_structs", wide.len() as u64);
        }
    }
    Ok(counts)
}

/// Returns each place of `name` in `crate_name`.
pub(crate) fn list(
    sources: &[Source],
    crate_name: &str,
    name: &str,
) -> Result<Vec<String>, String> {
    let markers = Markers::new()?;
    let mut places = Vec::new();
    for source in sources.iter().filter(|source| crate_of(&source.path) == crate_name) {
        for sentence in prose::sentences(source) {
            let is_long = name == "long_sentences" && sentence.words() > WORDS_MAX;
            if is_long || markers.of(&sentence.text).contains(&name) {
                places.push(format!("{}:{}: {}", source.path, sentence.line, sentence.text));
            }
        }
        if name == "wide_comments" && source.is("rs") && prose::wide_comments(source) > 0 {
            places.push(format!("{}: {}", source.path, prose::wide_comments(source)));
        }
        if name == "wide_structs" && source.is("rs") && !source.is_test() {
            let wide = structs::wide(source).into_iter();
            places.extend(
                wide.map(|(found, fields)| format!("{}: {found} has {fields} fields", source.path)),
            );
        }
    }
    Ok(places)
}

fn read() -> Result<Counts, String> {
    match std::fs::read_to_string(FILE) {
        Ok(text) => toml::from_str(&text).map_err(|error| format!("{FILE}: {error}")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Counts::new()),
        Err(error) => Err(format!("{FILE}: {error}")),
    }
}

fn render(counts: &Counts) -> String {
    let mut text =
        "# Faults of style that may fall and never rise. `./dev style --write` lowers them.\n"
            .to_owned();
    for (crate_name, counts) in counts {
        let _ = writeln!(text, "\n[{crate_name}]");
        for (name, count) in counts {
            let _ = writeln!(text, "{name} = {count}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source { path: path.to_owned(), text: text.to_owned() }
    }

    fn counts_of(values: &[(&str, &str, u64)]) -> Counts {
        let mut counts = Counts::new();
        for (crate_name, name, count) in values {
            counts.entry((*crate_name).to_owned()).or_default().insert((*name).to_owned(), *count);
        }
        counts
    }

    #[test]
    fn faults_are_counted_by_crate() {
        let sources = [
            source("crates/base/sync/src/one/mod.rs", "//! What it does here.\n"),
            source("docs/a.md", "The file is written anew each time.\n"),
            source("crates/base/sync/src/two.rs", "//! A plain sentence of words.\n"),
        ];
        let found = counts(&sources).expect("counts");
        let expected = [("docs", "A6", 1), ("sync", "A1", 1), ("sync", "mod_files", 1)];
        assert_eq!(found, counts_of(&expected));
        let listed = list(&sources, "docs", "A6").expect("a list");
        assert_eq!(listed, ["docs/a.md:1: The file is written anew each time."]);
    }

    #[test]
    fn a_count_moves_between_crates_and_never_rises() {
        let committed = counts_of(&[("f2", "A1", 5), ("sync", "A1", 1)]);
        assert_eq!(risen(&committed, &counts_of(&[("f2", "A1", 2), ("sync", "A1", 4)])), [""; 0]);
        let more = risen(&committed, &counts_of(&[("f2", "A1", 2), ("sync", "A1", 5)]));
        assert_eq!(more.len(), 1, "{more:?}");
        assert_eq!(risen(&committed, &counts_of(&[("f2", "A2", 1)])).len(), 1);
    }

    #[test]
    fn the_committed_counts_read_as_they_were_written() {
        let counts = counts_of(&[("f2", "A1", 5), ("sync", "wide_comments", 1)]);
        assert_eq!(toml::from_str::<Counts>(&render(&counts)).expect("counts"), counts);
    }
}
