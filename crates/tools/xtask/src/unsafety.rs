//! Unsafe blocks, functions and impls per file, against the committed allowance.
//!
//! The allowance is `reliability/unsafe.toml`. A file with more is refused; a file with fewer has
//! to lower its line, so that the committed numbers are always the true ones. `--write` does it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::Findings;
use crate::sources;

const ALLOWANCE: &str = "reliability/unsafe.toml";

/// The folders that may have unsafe code. The peers, which call C, and the cases, one of which
/// forks, are not shipped.
const HOMES: [&str; 5] = [
    "crates/base/arena/",
    "crates/base/device/",
    "crates/base/sync/",
    "peers/",
    "cases/src/database/forked.rs",
];

/// Compares, or with `write` commits the numbers found.
pub(crate) fn check(write: bool) -> Findings {
    let found = count()?;
    let mut findings = Vec::new();
    for path in found.keys() {
        if !HOMES.iter().any(|home| path.starts_with(home)) {
            findings.push(format!("{path}: unsafe code lives in {} only", HOMES.join(", ")));
        }
    }
    if write {
        let text = render(&found);
        #[expect(clippy::disallowed_methods, reason = "writes a file of the repository")]
        std::fs::write(ALLOWANCE, text).map_err(|error| format!("{ALLOWANCE}: {error}"))?;
        return Ok(findings);
    }
    let allowed = read()?;
    for (path, count) in &found {
        let limit = allowed.get(path).copied().unwrap_or(0);
        if *count != limit {
            findings.push(format!(
                "{path}: {count} uses of unsafe, {ALLOWANCE} says {limit}: \
                 take them out, or review them and run ./dev unsafe --write"
            ));
        }
    }
    for path in allowed.keys().filter(|path| !found.contains_key(*path)) {
        findings.push(format!("{path}: no unsafe code is left: run ./dev unsafe --write"));
    }
    Ok(findings)
}

fn count() -> Result<BTreeMap<String, u64>, String> {
    let mut found = BTreeMap::new();
    for source in sources::texts()? {
        if !source.is("rs") || source.path.starts_with("crates/tools/xtask/") {
            continue;
        }
        let uses = source.text.lines().map(uses_in).sum::<u64>();
        if uses > 0 {
            found.insert(source.path, uses);
        }
    }
    Ok(found)
}

/// Counts the keyword where it opens a block or marks an item, outside of comments.
fn uses_in(line: &str) -> u64 {
    let code = line.split("//").next().unwrap_or(line);
    let opens = |piece: &&str| {
        let rest = piece.trim_start();
        ["{", "fn ", "impl", "extern", "trait "].iter().any(|next| rest.starts_with(next))
    };
    code.split("unsafe ").skip(1).filter(opens).count() as u64
}

fn render(found: &BTreeMap<String, u64>) -> String {
    let mut text = String::from(
        "# Uses of unsafe per file, checked by ./dev check; rewritten by ./dev unsafe --write.\n",
    );
    for (path, count) in found {
        let _ = writeln!(text, "\"{path}\" = {count}");
    }
    text
}

fn read() -> Result<BTreeMap<String, u64>, String> {
    let text =
        std::fs::read_to_string(ALLOWANCE).map_err(|error| format!("{ALLOWANCE}: {error}"))?;
    toml::from_str(&text).map_err(|error| format!("{ALLOWANCE}: {error}"))
}
