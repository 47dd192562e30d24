//! Counts that describe the code base: the contract, paths, similar files, names, hard sentences,
//! lines.

use std::collections::{BTreeMap, BTreeSet};

use crate::paths;
use crate::prose::{self, Markers, WORDS_MAX};
use crate::ratchets::{self, crate_of};
use crate::similar;
use crate::sources::Source;

/// The contract of all engines.
const CONTRACT: &str = "crates/storage/engine/src/contract.rs";
/// The page with the steps of a PUT and of a GET.
const MAP: &str = "ARCHITECTURE.md";
/// Names that each crate may define for itself.
const EXEMPT: [&str; 6] = ["Error", "Result", "Options", "Stats", "Store", "Snapshot"];

/// Prints all counts.
pub(crate) fn print(sources: &[Source]) -> Result<(), String> {
    let text = |path: &str| {
        let found = sources.iter().find(|source| source.path == path);
        found.map(|source| source.text.as_str()).ok_or_else(|| format!("there is no {path}"))
    };
    let (own, found) = ("Engine", "FoundState");
    let count = |name| text(CONTRACT).map(|text| methods(text, name));
    println!("methods of Engine: {}, and {} of its supertrait {found}", count(own)?, count(found)?);
    println!("\nengine: files of a PUT, of a GET (a part of a crate in crates/base counts as one)");
    for (engine, [put, get]) in paths::counts(text(MAP)?)? {
        println!("{engine:14} {put}, {get}");
    }
    println!("\npairs of files of lsm and flexdb, by their share of common code lines:");
    for pair in similar::pairs(sources) {
        println!("{:4}% {} {}", pair.percent, pair.paths[0], pair.paths[1]);
    }
    println!("\npublic names of several crates:");
    for (name, crates) in shared_names(sources) {
        println!("{name}: {}", crates.into_iter().collect::<Vec<_>>().join(", "));
    }
    prose_of_crates(sources)?;
    lines_of_crates(sources);
    Ok(())
}

/// Returns the number of methods of a trait.
fn methods(text: &str, name: &str) -> usize {
    let opens = |line: &&str| line.starts_with(&format!("pub trait {name}"));
    let body = text.lines().skip_while(|line| !opens(line)).take_while(|line| *line != "}");
    body.filter(|line| line.starts_with("    fn ")).count()
}

/// Returns each public type name that several crates define, with these crates.
fn shared_names(sources: &[Source]) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut names: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let product = sources.iter().filter(|source| source.is("rs") && !source.is_test());
    for source in product.filter(|source| source.path.starts_with("crates/")) {
        for line in source.text.lines() {
            let kinds = ["pub struct ", "pub enum ", "pub trait ", "pub type "];
            let Some(rest) = kinds.iter().find_map(|kind| line.strip_prefix(kind)) else {
                continue;
            };
            let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
            let name = &rest[..end.unwrap_or(rest.len())];
            if !EXEMPT.contains(&name) {
                names.entry(name).or_default().insert(crate_of(&source.path));
            }
        }
    }
    names.retain(|_, crates| crates.len() > 1);
    names
}

fn prose_of_crates(sources: &[Source]) -> Result<(), String> {
    let markers = Markers::new()?;
    let mut crates: BTreeMap<&str, [usize; 5]> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.is("rs") || source.is("md")) {
        let [all, hard, both, long, wide] = crates.entry(crate_of(&source.path)).or_default();
        for sentence in prose::sentences(source) {
            let found = markers.of(&sentence.text);
            *all += 1;
            *hard += usize::from(found.iter().any(|name| name.starts_with('A')));
            *both += usize::from(!found.is_empty());
            *long += usize::from(sentence.words() > WORDS_MAX);
        }
        *wide += if source.is("rs") { prose::wide_comments(source) } else { 0 };
    }
    println!(
        "\ncrate: sentences, with a marker of class A, of A or B, too long; wide comment lines"
    );
    let mut total = [0; 5];
    for (name, counts) in &crates {
        println!("{name:14} {counts:?}");
        total.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    println!("{:14} {total:?}", "all");
    Ok(())
}

fn lines_of_crates(sources: &[Source]) {
    let mut crates: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.is("rs")) {
        let counts = crates.entry(ratchets::crate_of(&source.path)).or_default();
        counts[usize::from(source.is_test())] += source.text.lines().count();
    }
    println!("\ncrate: lines of the product, of tests, benches and examples");
    let mut total = [0; 2];
    for (name, counts) in &crates {
        println!("{name:14} {counts:?}");
        total.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    println!("{:14} {total:?}", "all");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_and_shared_names_are_counted() {
        let text = "pub trait Other {\n    fn no(&self);\n}\npub trait Engine: Send {\n    fn one(&self);\n    fn two(\n        &self,\n    ) {}\n}\n";
        assert_eq!(methods(text, "Engine"), 2);
        let source =
            |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
        let sources = [
            source("crates/base/sync/src/a.rs", "pub struct Shared<T> {}\npub struct Error;\n"),
            source("crates/engines/f2/src/a.rs", "pub enum Shared {}\npub enum Error {}\n"),
            source("crates/engines/f2/src/tests.rs", "pub enum Own {}\n"),
        ];
        let found: Vec<&str> = shared_names(&sources).into_keys().collect();
        assert_eq!(found, ["Shared"]);
    }
}
