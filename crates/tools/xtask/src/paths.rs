//! Counts the files that a PUT and a GET pass through, as ARCHITECTURE.md lists them.
//!
//! 1. A section is a list of numbered steps, with a paragraph before it that counts too. It ends
//!    with the first step whose title begins with `Later`, or with a paragraph behind the list.
//! 2. An item that begins with names of engines counts for these alone. So does a file below
//!    `crates/engines/`, for its engine.
//! 3. A path counts once. Files in a part of a crate in `crates/base/`, such as
//!    `crates/base/device/src/system/`, count together as one.

use std::collections::{BTreeMap, BTreeSet};

const BASE: &str = "crates/base/";
const ENGINES: &str = "crates/engines/";

/// The files of one section, by engine.
type Files<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// Returns the numbers of files of a PUT and of a GET of each engine.
///
/// # Errors
/// A section is missing, or names no file of an engine.
pub(crate) fn counts(page: &str) -> Result<BTreeMap<&str, [usize; 2]>, String> {
    let put = files(section(page, "## A PUT, step by step")?);
    let get = files(section(page, "## A GET, step by step")?);
    if put.is_empty() || !put.keys().eq(get.keys()) {
        let engines = |files: &Files<'_>| files.keys().copied().collect::<Vec<_>>().join(", ");
        return Err(format!("a PUT is of {}, a GET of {}", engines(&put), engines(&get)));
    }
    let both = put.iter().zip(get.values());
    Ok(both.map(|((engine, put), get)| (*engine, [put.len(), get.len()])).collect())
}

/// Returns the text of a section, up to the next title.
fn section<'a>(page: &'a str, title: &str) -> Result<&'a str, String> {
    let missing = || format!("ARCHITECTURE.md has no section {title:?}");
    let (_, rest) = page.split_once(&format!("\n{title}\n")).ok_or_else(missing)?;
    Ok(rest.split("\n## ").next().unwrap_or(rest))
}

fn files(section: &str) -> Files<'_> {
    // Each file with the engines of its item, or none if the item is of all engines.
    let mut found: Vec<(Vec<&str>, &str)> = Vec::new();
    let mut of: Vec<&str> = Vec::new();
    let mut has_begun = false;
    for line in section.lines() {
        let text = line.trim_start();
        let step = step(line);
        has_begun |= step.is_some();
        let is_behind = has_begun && step.is_none() && text.len() == line.len() && !text.is_empty();
        if is_behind || step.is_some_and(|title| title.starts_with("**Later")) {
            break;
        }
        if step.is_some() {
            of.clear();
        } else if let Some(item) = text.strip_prefix("- ") {
            of = names(item);
        }
        let paths = quoted(text).filter(|piece| piece.starts_with("crates/"));
        found.extend(paths.map(|path| (of.clone(), path)));
    }
    let engines: BTreeSet<&str> = found.iter().filter_map(|(_, path)| engine_of(path)).collect();
    let mut files = Files::new();
    for (of, path) in found {
        let of_list = of.iter().any(|name| engines.contains(name));
        let counts = |engine: &str| match engine_of(path) {
            Some(owner) => owner == engine,
            None => !of_list || of.contains(&engine),
        };
        for engine in engines.iter().filter(|engine| counts(engine)) {
            files.entry(engine).or_default().insert(part(path));
        }
    }
    files
}

/// Returns the engine that a file belongs to.
fn engine_of(path: &str) -> Option<&str> {
    path.strip_prefix(ENGINES)?.split('/').next()
}

/// Returns the text of a numbered step, if the line begins one.
fn step(line: &str) -> Option<&str> {
    let (number, text) = line.split_once(". ")?;
    number.parse::<u32>().ok().map(|_| text)
}

/// Returns the quoted names with which an item begins, up to its colon.
fn names(item: &str) -> Vec<&str> {
    let list = item.split(": ").next().unwrap_or_default();
    quoted(list).collect()
}

/// Returns the pieces between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Returns a path, or the part of a crate in `crates/base/` that it is in.
fn part(path: &str) -> &str {
    match path.strip_prefix(BASE).and_then(|rest| rest.match_indices('/').nth(2)) {
        Some((end, _)) => &path[..BASE.len() + end],
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUT: &str = "# A\n\n## A PUT, step by step\n\n\
        The engines are in `crates/engines/f2/src/store.rs` and `crates/engines/lsm/src/store.rs`.\n\n\
        1. **The call.** `crates/database/thermocline/src/write.rs`: `put`, in\n   \
           `crates/database/thermocline/src/slot.rs`.\n   \
           - `f2`: `crates/engines/f2/src/write.rs`: `apply`, then\n     \
             `crates/base/sync/src/list/a.rs` and `crates/base/sync/src/list/b.rs`.\n   \
           - `f2`, `lsm`: `crates/storage/admission/src/admits.rs`, in `crates/engines/lsm/src/a.rs`.\n   \
           - `Synced`: `crates/storage/journal/src/commit.rs`: `wait`.\n\
        2. **Unlock.** `crates/database/thermocline/src/write.rs`: `wait_durable`.\n\
        3. **Later, in the background**, `crates/database/thermocline/src/flush.rs`.\n\n";
    const GET: &str = "## A GET, step by step\n\n\
        1. `crates/engines/f2/src/lookup.rs`: `lookup`, `crates/engines/lsm/src/lookup.rs`.\n\n\
        A batch is `crates/storage/reads/src/pool.rs`.\n\n## Other\n\n`crates/a.rs`\n";

    #[test]
    fn files_are_counted_once_for_each_engine_that_passes_through_them() {
        let page = format!("{PUT}{GET}");
        // Of both: write.rs, slot.rs, admits.rs, commit.rs. Of f2 also two files of its own and the
        // list; of lsm two files of its own.
        let expected = BTreeMap::from([("f2", [7, 1]), ("lsm", [6, 1])]);
        assert_eq!(counts(&page), Ok(expected));
    }

    #[test]
    fn a_page_without_the_sections_is_an_error() {
        let missing = counts(PUT).expect_err("it has no GET");
        assert!(missing.contains("A GET"), "{missing}");
        let other = GET.replace("crates/engines/lsm/src/lookup.rs", "none");
        let missing = counts(&format!("{PUT}{other}")).expect_err("its GET names no file of lsm");
        assert_eq!(missing, "a PUT is of f2, lsm, a GET of f2");
    }

    #[test]
    fn the_page_names_files_of_every_engine() {
        let page = include_str!("../../../../ARCHITECTURE.md");
        let counts = counts(page).expect("the page has both sections");
        assert!(counts.len() > 3, "{counts:?}");
        for (engine, [put, get]) in counts {
            assert!(put > 9 && get > 4, "{engine}: {put}, {get}");
        }
    }
}
