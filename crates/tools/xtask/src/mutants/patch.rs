//! A patch: a head of three lines, and a difference in the form of git.
//!
//! ```text
//! What: The barrier of the index does not sync the volumes.
//! Package: thermocline-hashkv
//! Test: tests::crash
//! diff --git a/crates/engines/hashkv/src/values.rs b/crates/engines/hashkv/src/values.rs
//! ```
//!
//! `Test` is the filter of the package's library tests.

use std::process::Command;

use super::PATCHES;
use super::tree::{self, Tree};
use crate::{Findings, sources};

/// A mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Patch {
    /// Its name, which selects it.
    pub(super) name: String,
    /// The folder of the patch: the crate.
    pub(super) of: String,
    /// The fault, as a sentence.
    pub(super) what: String,
    /// The package of the test.
    pub(super) package: String,
    /// The filter of the tests.
    pub(super) test: String,
    pub(super) diff: String,
}

impl Patch {
    /// Returns all patches of the repository, in the order of their paths.
    pub(super) fn all() -> Result<Vec<Self>, String> {
        let paths = sources::paths()?;
        let paths = paths.into_iter().filter(|path| path.starts_with(PATCHES));
        let patches = paths.filter(|path| path.ends_with(".patch"));
        patches
            .map(|path| {
                let text = std::fs::read_to_string(&path);
                let text = text.map_err(|error| format!("{path}: {error}"))?;
                Self::of(&path, &text)
            })
            .collect()
    }

    fn of(path: &str, text: &str) -> Result<Self, String> {
        let mut parts = path.trim_end_matches(".patch").rsplit('/');
        let (Some(name), Some(of)) = (parts.next(), parts.next()) else {
            return Err(format!("{path}: a patch is in the folder of a crate"));
        };
        let begin = text.find("diff --git ").ok_or_else(|| format!("{path} changes nothing"))?;
        let (head, diff) = text.split_at(begin);
        let field = |field: &str| {
            let line = head.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(": "));
            line.map(str::to_owned).ok_or_else(|| format!("{path}: no line \"{field}: ...\""))
        };
        let (name, of) = (name.to_owned(), of.to_owned());
        if !diff.contains(&format!("is_on(\"{name}\")")) {
            return Err(format!("{path}: no branch on is_on(\"{name}\")"));
        }
        Ok(Self {
            name,
            of,
            what: field("What")?,
            package: field("Package")?,
            test: field("Test")?,
            diff: diff.to_owned(),
        })
    }

    /// Returns its path.
    pub(super) fn path(&self) -> String {
        format!("{PATCHES}/{}/{}.patch", self.of, self.name)
    }

    fn text(&self) -> String {
        let Self { what, package, test, diff, .. } = self;
        format!("What: {what}\nPackage: {package}\nTest: {test}\n{diff}")
    }

    /// Returns the files that it changes.
    pub(super) fn files(&self) -> impl Iterator<Item = &str> {
        self.diff.lines().filter_map(|line| line.strip_prefix("+++ b/"))
    }
}

/// Writes each patch again, as it applies to the present files.
pub(super) fn refresh(patches: &[Patch]) -> Findings {
    let mut findings = Vec::new();
    for patch in patches {
        let tree = Tree::of(patch.files())?;
        let (is_applied, output) = tree.apply(patch, &["-C1", "--recount"])?;
        if !is_applied {
            findings.push(format!("{} does not apply: {output}", patch.path()));
            continue;
        }
        let mut diff = String::new();
        for file in patch.files() {
            diff += &difference(&tree, file)?;
        }
        let (text, path) = (Patch { diff, ..patch.clone() }.text(), patch.path());
        #[expect(clippy::disallowed_methods, reason = "writes a file of the repository")]
        std::fs::write(&path, text).map_err(|error| format!("{path}: {error}"))?;
    }
    Ok(findings)
}

/// Returns the difference between a file of the repository and that of a tree.
fn difference(tree: &Tree, file: &str) -> Result<String, String> {
    let changed = tree.path(file);
    let mut command = Command::new("git");
    command.args(["diff", "--no-index", "--no-color", "--unified=2", file]).arg(&changed);
    let (_, output) = tree::on(&mut command)?;
    let body = output.find("@@ ").map_or("", |at| output.split_at(at).1);
    Ok(format!("diff --git a/{file} b/{file}\n--- a/{file}\n+++ b/{file}\n{body}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "What: It is wrong.\nPackage: p\nTest: t\n\
                        diff --git a/src/a.rs b/src/a.rs\n--- a/src/a.rs\n+++ b/src/a.rs\n\
                        @@ -1 +1 @@\n-a\n+if is_on(\"Name\") { b }\n";

    #[test]
    fn a_patch_comes_back_as_it_was_written() {
        let patch = Patch::of("reliability/mutants/hashkv/Name.patch", TEXT).expect("it is one");
        assert_eq!((patch.name.as_str(), patch.of.as_str()), ("Name", "hashkv"));
        assert_eq!(patch.files().collect::<Vec<_>>(), ["src/a.rs"]);
        assert_eq!(patch.path(), "reliability/mutants/hashkv/Name.patch");
        assert_eq!(patch.text(), TEXT);
    }

    #[test]
    fn a_patch_without_its_branch_or_a_part_of_its_head_is_refused() {
        let of = |text: &str| Patch::of("reliability/mutants/hashkv/Name.patch", text);
        assert!(of(&TEXT.replace("Name", "Other")).is_err());
        assert!(of(&TEXT.replace("Test: t\n", "")).is_err());
        assert!(of("What: It is wrong.\n").is_err());
    }
}
