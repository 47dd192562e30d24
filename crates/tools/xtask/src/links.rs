//! Checks that each link, file path and function that a document names exists.
//!
//! 1. A Markdown link to a relative target must lead to a file or directory of the repository, and
//!    its anchor to a heading of the page.
//! 2. A path in backquotes that begins with a folder of the root must exist.
//! 3. A page below `docs/` is linked from a README in or above its folder, so that a reader finds
//!    it.
//! 4. A function named as `` `path/file.rs`: `name` `` must be defined in that file, and so must
//!    further names after it ("`name`, `other`, then `third`").

use crate::Findings;
use crate::sources::{self, Source};

/// Folders of the root: a quoted path that begins with one of them is held to exist.
const ROOTS: [&str; 7] = ["crates/", "docs/", "reliability/", "fuzz/", "peers/", "cases/", ".ci/"];

/// Checks every Markdown file.
pub(crate) fn check() -> Findings {
    let mut findings = Vec::new();
    let pages: Vec<Source> =
        sources::texts()?.into_iter().filter(|source| source.is("md")).collect();
    check_orphans(&pages, &mut findings);
    for source in &pages {
        let folder = source.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut fenced = false;
        let (mut paragraph, mut begin) = (String::new(), 1);
        for (index, line) in source.text.lines().enumerate() {
            let place = format!("{}:{}", source.path, index + 1);
            let is_fence = line.trim_start().starts_with("```");
            if is_fence || fenced || begins_paragraph(line) {
                check_quoted(&paragraph, &format!("{}:{begin}", source.path), &mut findings);
                paragraph.clear();
                begin = index + 1;
            }
            if is_fence {
                fenced = !fenced;
            } else if !fenced {
                check_links(line, (folder, &source.path), &place, &mut findings);
                paragraph.push_str(line);
                paragraph.push(' ');
            }
        }
        check_quoted(&paragraph, &format!("{}:{begin}", source.path), &mut findings);
    }
    Ok(findings)
}

fn check_orphans(pages: &[Source], findings: &mut Vec<String>) {
    let under =
        |page: &&Source| page.path.starts_with("docs/") && !page.path.ends_with("README.md");
    for page in pages.iter().filter(under) {
        let linked = pages.iter().any(|index| {
            let folder = index.path.strip_suffix("README.md");
            let relative = folder.and_then(|folder| page.path.strip_prefix(folder));
            relative.is_some_and(|relative| index.text.contains(&format!("({relative}")))
        });
        if !linked {
            findings.push(format!("{}: link it from a README in or above its folder", page.path));
        }
    }
}

fn check_links(line: &str, (folder, page): (&str, &str), place: &str, findings: &mut Vec<String>) {
    for piece in line.split("](").skip(1) {
        let Some((target, _)) = piece.split_once(')') else { continue };
        let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
        if path.contains("://") || path.starts_with("mailto:") {
            continue;
        }
        let whole = match (path.is_empty(), folder.is_empty()) {
            (true, _) => page.to_owned(),
            (false, true) => path.to_owned(),
            (false, false) => format!("{folder}/{path}"),
        };
        if !std::path::Path::new(&whole).exists() {
            findings.push(format!("{place}: the link to {path} leads nowhere"));
        } else if !anchor.is_empty() && whole.ends_with(".md") && !has_anchor(&whole, anchor) {
            findings.push(format!("{place}: {target} names no heading of the page"));
        }
    }
}

/// Returns whether a page has a heading with this anchor, as GitHub makes it.
fn has_anchor(page: &str, anchor: &str) -> bool {
    let Ok(text) = std::fs::read_to_string(page) else { return false };
    let mut is_fenced = false;
    text.lines().any(|line| {
        is_fenced ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        !is_fenced && heading.len() < line.len() && anchor_of(heading) == anchor
    })
}

/// Returns the anchor of a heading: small letters and digits, with hyphens for spaces.
fn anchor_of(heading: &str) -> String {
    let is_kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
    heading
        .trim()
        .to_lowercase()
        .chars()
        .filter(is_kept)
        .map(|it| if it == ' ' { '-' } else { it })
        .collect()
}

/// Returns whether the text before `line` has ended: a name belongs to a path in its paragraph.
fn begins_paragraph(line: &str) -> bool {
    let text = line.trim_start();
    let is_numbered =
        text.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
    text.is_empty() || text.starts_with(['|', '#']) || text.starts_with("- ") || is_numbered
}

fn check_quoted(text: &str, place: &str, findings: &mut Vec<String>) {
    // Odd pieces are those between backquotes.
    let pieces: Vec<&str> = text.split('`').collect();
    let mut file: Option<String> = None;
    for (index, piece) in pieces.iter().enumerate() {
        if index % 2 == 0 {
            // A function belongs to the file before it only across a colon, or a list of names.
            if !matches!(piece.trim(), ":" | "," | "and" | "or" | "then" | ", then" | ", and") {
                file = None;
            }
            continue;
        }
        if ROOTS.iter().any(|root| piece.starts_with(root)) {
            check_path(piece, place, findings);
            file = piece.ends_with(".rs").then(|| (*piece).to_owned());
        } else if let Some(path) = &file {
            if piece.ends_with(".rs") {
                // A file in the folder of the one before it.
                let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
                let beside = format!("{folder}/{piece}");
                check_path(&beside, place, findings);
                file = Some(beside);
            } else {
                check_function(path, piece, place, findings);
            }
        }
    }
}

fn check_path(path: &str, place: &str, findings: &mut Vec<String>) {
    let pattern = path.contains(['*', '<', '{', ' ', '…']) || path.contains("NAME");
    if !pattern && !std::path::Path::new(path.trim_end_matches('/')).exists() {
        findings.push(format!("{place}: {path} does not exist"));
    }
}

fn check_function(path: &str, name: &str, place: &str, findings: &mut Vec<String>) {
    let name = name.trim_end_matches("()").rsplit("::").next().unwrap_or(name);
    let Ok(text) = std::fs::read_to_string(path) else { return };
    let defined = |keyword: &str| {
        text.split(keyword)
            .skip(1)
            .any(|rest| rest.strip_prefix(name).is_some_and(|after| !after.starts_with(continues)))
    };
    if !["fn ", "struct ", "enum ", "trait "].into_iter().any(defined) {
        findings.push(format!("{place}: {path} defines no {name}"));
    }
}

fn continues(next: char) -> bool {
    next.is_alphanumeric() || next == '_'
}
