//! The rules of the codebase that no lint knows; each message names what to do instead.
//!
//! Function lengths are clippy's (`too_many_lines`, threshold in `clippy.toml`), widths rustfmt's.

use crate::sources::{self, Source};
use crate::{Findings, exports, ratchets, report, similar, test_files};

/// Lines that a production file may have; a test file may have twice this number.
const FILE_LINES_MAX: usize = 550;

/// Names that say nothing about what is inside.
const VAGUE_NAMES: [&str; 6] = ["utils", "util", "common", "helpers", "helper", "misc"];

/// Words that Rust sources may not have, and the advice for each. The pieces are joined at run
/// time, so that this file does not break its own rules.
fn forbidden() -> Vec<(String, &'static str)> {
    let word = |pieces: [&str; 2]| pieces.concat();
    vec![
        (word(["#[igno", "re"]), "a test that does not run is no test: mend it or delete it"),
        (word(["todo", "!("]), "return a typed error that says what is not built"),
        (word(["unimplement", "ed!("]), "return a typed error that says what is not built"),
        (word(["// TO", "DO"]), "do it, or write an issue"),
        (word(["FIX", "ME"]), "fix it, or write an issue"),
        (word(["XX", "X:"]), "say what is wrong in words, or write an issue"),
        (
            word(["#[all", "ow("]),
            "use #[expect(..., reason = \"...\")], which goes when it is moot",
        ),
    ]
}

/// Runs `style` with its options.
pub(crate) fn run(options: &[String]) -> Findings {
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    match options.as_slice() {
        [] => check(),
        ["--write"] => ratchets::check(&sources::texts()?, true),
        ["--report"] => report::print(&sources::texts()?).map(|()| Vec::new()),
        ["--list", crate_name, name] => {
            let places = ratchets::list(&sources::texts()?, crate_name, name)?;
            places.iter().for_each(|place| println!("{place}"));
            Ok(Vec::new())
        }
        _ => Err("usage: style [--write | --report | --list CRATE NAME]".to_owned()),
    }
}

/// Checks every file of the repository.
fn check() -> Findings {
    let mut findings = Vec::new();
    let forbidden = forbidden();
    for path in sources::paths()? {
        check_name(&path, &mut findings);
    }
    let sources = sources::texts()?;
    for source in &sources {
        if source.is("rs") {
            check_header(source, &mut findings);
            check_length(source, &mut findings);
            check_words(source, &forbidden, &mut findings);
        }
        check_whitespace(source, &mut findings);
    }
    test_files::check(&sources, &mut findings);
    findings.extend(similar::check(&sources));
    findings.extend(exports::check(&sources)?);
    findings.extend(ratchets::check(&sources, false)?);
    Ok(findings)
}

fn check_name(path: &str, findings: &mut Vec<String>) {
    for part in path.split('/') {
        let stem = part.split('.').next().unwrap_or(part);
        if VAGUE_NAMES.contains(&stem) {
            findings.push(format!("{path}: name it after the concept in it, not {stem:?}"));
        }
        let versioned = stem.rsplit_once("_v").is_some_and(|(_, digits)| {
            !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
        });
        if versioned && path.ends_with(".rs") {
            findings
                .push(format!("{path}: replace the old one instead of keeping {stem:?} beside it"));
        }
    }
}

fn check_header(source: &Source, findings: &mut Vec<String>) {
    let first = source.text.lines().next().unwrap_or_default();
    let sentence = first.strip_prefix("//! ").is_some_and(|rest| rest.len() > 8);
    // A test binary of libFuzzer has to open with its own attribute.
    if !sentence {
        findings.push(format!(
            "{}:1: open with \"//! \" and one sentence on the file's single job",
            source.path
        ));
    }
}

fn check_length(source: &Source, findings: &mut Vec<String>) {
    let max = if source.is_test() { 2 * FILE_LINES_MAX } else { FILE_LINES_MAX };
    let lines = source.text.lines().count();
    if lines > max {
        findings
            .push(format!("{}: {lines} lines, at most {max}: split it by concept", source.path));
    }
}

fn check_words(source: &Source, forbidden: &[(String, &str)], findings: &mut Vec<String>) {
    for (index, line) in source.text.lines().enumerate() {
        for (word, instead) in forbidden {
            if line.contains(word.as_str()) {
                findings.push(format!("{}:{}: {word}: {instead}", source.path, index + 1));
            }
        }
    }
}

fn check_whitespace(source: &Source, findings: &mut Vec<String>) {
    if source.path.starts_with("LICENSE")
        || source.path.ends_with(".lock")
        || source.path.contains("/golden/")
    {
        return;
    }
    if !source.text.is_empty() && !source.text.ends_with('\n') {
        findings.push(format!("{}: end it with a newline", source.path));
    }
    for (index, line) in source.text.lines().enumerate() {
        if line.ends_with([' ', '\t']) || line.ends_with('\r') {
            findings.push(format!(
                "{}:{}: cut the blanks at the line's end",
                source.path,
                index + 1
            ));
        }
    }
}
