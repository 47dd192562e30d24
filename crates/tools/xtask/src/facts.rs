//! Facts of comments that a change deletes: labels of laws and invariants, and numbers.
//!
//! A fact of a deleted comment line is lost if no comment of the tree has it any more. Each lost
//! fact needs a reason: its code is deleted too, or its number is derived from a constant.

use std::collections::BTreeSet;
use std::process::Command;

use regex::Regex;

use crate::sources::{self, Source};

/// Labels such as `L7` and `F2`, and numbers with their fractions and thousands.
const FACT: &str = r"\b[A-Z]{1,2}[0-9]{1,2}\b|\b[0-9]+(?:[.,][0-9]+)*\b";

/// Prints each lost fact of the change since `base`, with the deleted line.
pub(crate) fn run(base: &str) -> Result<(), String> {
    let output = Command::new("git")
        .args(["diff", "-U0", "-M", base, "--", "*.rs", "*.md"])
        .output()
        .map_err(|error| format!("git diff: {error}"))?;
    if !output.status.success() {
        return Err(format!("git diff {base}: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let diff = String::from_utf8_lossy(&output.stdout);
    let lost = lost(&diff, &sources::texts()?)?;
    for (path, fact, line) in &lost {
        println!("{path}: {fact}: {line}");
    }
    println!("{} facts of deleted comments are in no comment", lost.len());
    Ok(())
}

/// Returns the file, the fact and the line of each lost fact.
fn lost(diff: &str, sources: &[Source]) -> Result<Vec<(String, String, String)>, String> {
    let fact = Regex::new(FACT).map_err(|error| error.to_string())?;
    let mut kept = BTreeSet::new();
    for source in sources.iter().filter(|source| source.is("rs") || source.is("md")) {
        for line in source.text.lines() {
            if let Some(text) = comment(line, source.is("md")) {
                kept.extend(fact.find_iter(text).map(|found| found.as_str().to_owned()));
            }
        }
    }
    let mut lost = Vec::new();
    let mut path = "";
    for line in diff.lines() {
        if let Some(old) = line.strip_prefix("--- ") {
            path = old.strip_prefix("a/").unwrap_or(old);
            continue;
        }
        let Some(deleted) = line.strip_prefix('-') else { continue };
        let Some(text) = comment(deleted, path.ends_with(".md")) else { continue };
        for found in fact.find_iter(text).filter(|found| !kept.contains(found.as_str())) {
            lost.push((path.to_owned(), found.as_str().to_owned(), text.to_owned()));
        }
    }
    Ok(lost)
}

fn comment(line: &str, is_document: bool) -> Option<&str> {
    let line = line.trim();
    if is_document { Some(line) } else { line.strip_prefix("//") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_that_no_comment_has_is_lost() {
        let diff = "--- a/a.rs\n+++ b/a.rs\n-/// Law L7: at most 4.5 times, of 1,024.\n-let x = 99;\n+/// Law L7.\n";
        let text = "/// Law L7. At most 1,024.\nlet x = 4.5;\n".to_owned();
        let source = Source { path: "a.rs".to_owned(), text };
        let lost = lost(diff, &[source]).expect("facts");
        let facts: Vec<&str> = lost.iter().map(|(_, fact, _)| fact.as_str()).collect();
        assert_eq!(facts, ["4.5"]);
    }
}
