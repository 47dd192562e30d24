//! Types of other crates in public signatures of `thermocline`, each of which it must export.
//!
//! 1. The names that `lib.rs` and `error.rs` export are collected from their `pub use` items.
//! 2. The workspace's manifest names each crate below by a path. A crate that `lib.rs` exports
//!    whole is left out.
//! 3. A public item is the text from `pub` to the end of its signature, and the whole body of a
//!    public enum.
//! 4. A name of a crate below, by its path or by an import of the file, is reported if it is not
//!    exported.

use std::collections::BTreeSet;

use regex::Regex;

use crate::sources::Source;

const FOLDER: &str = "crates/database/thermocline/src/";
const EXPORTING: [&str; 2] = ["lib.rs", "error.rs"];
const MANIFEST: &str = "Cargo.toml";

/// Reports each type that a user of `thermocline` cannot name.
pub(crate) fn check(sources: &[Source]) -> Result<Vec<String>, String> {
    let compile = |pattern: &str| Regex::new(pattern).map_err(|error| error.to_string());
    let crates = crates_below(sources)?.join("|");
    let patterns = Patterns {
        export: compile(r"(?s)pub use (?:::)?([^;]+);")?,
        import: compile(&format!(r"(?s)\n\s*use (?:::)?(?:{crates})::([^;]+);"))?,
        path: compile(&format!(r"\b(?:{crates})::([A-Z]\w*)"))?,
        name: compile(r"\b[A-Z]\w*\b")?,
        item: compile(r"^\s*pub (?:const |async |unsafe )*(?:fn|struct|enum|type|trait|[a-z_]+:)")?,
    };
    let own = sources.iter().filter(|source| source.path.starts_with(FOLDER) && source.is("rs"));
    let own: Vec<&Source> = own.filter(|source| !source.is_test()).collect();
    let mut exported = BTreeSet::new();
    for source in own.iter().filter(|source| EXPORTING.contains(&&source.path[FOLDER.len()..])) {
        for found in patterns.export.captures_iter(&source.text) {
            exported.extend(patterns.sources_of(&found[1]));
        }
    }
    let mut findings = Vec::new();
    for source in own {
        for name in patterns.foreign(&source.text) {
            if !exported.contains(&name) {
                findings.push(format!(
                    "{}: {name} is in a public signature: export it in {FOLDER}lib.rs",
                    source.path
                ));
            }
        }
    }
    Ok(findings)
}

/// Returns the names of the workspace's crates that `lib.rs` does not export whole.
fn crates_below(sources: &[Source]) -> Result<Vec<String>, String> {
    let text = |path: &str| {
        let found = sources.iter().find(|source| source.path == path);
        found.map(|source| source.text.as_str()).ok_or_else(|| format!("there is no {path}"))
    };
    let manifest: toml::Table =
        toml::from_str(text(MANIFEST)?).map_err(|error| format!("{MANIFEST}: {error}"))?;
    let dependencies = manifest.get("workspace").and_then(|table| table.get("dependencies"));
    let dependencies = dependencies.and_then(toml::Value::as_table).into_iter().flatten();
    let own = dependencies.filter(|(_, dependency)| dependency.get("path").is_some());
    let names = own.map(|(name, _)| name.replace('-', "_"));
    let lib = text(&format!("{FOLDER}lib.rs"))?;
    let names: Vec<String> =
        names.filter(|name| !lib.contains(&format!("\npub use ::{name};"))).collect();
    if names.is_empty() { Err(format!("{MANIFEST} names no crate by a path")) } else { Ok(names) }
}

struct Patterns {
    export: Regex,
    import: Regex,
    path: Regex,
    name: Regex,
    item: Regex,
}

impl Patterns {
    /// Returns the names in a `use` item as their crates call them.
    fn sources_of(&self, item: &str) -> Vec<String> {
        let parts = item.split([',', '{', '}']);
        let original = parts.map(|part| part.split(" as ").next().unwrap_or(part));
        original
            .flat_map(|part| self.name.find_iter(part).map(|name| name.as_str().to_owned()))
            .collect()
    }

    /// Returns the names of crates below in the public signatures of a file.
    fn foreign(&self, text: &str) -> BTreeSet<String> {
        let imports = self.import.captures_iter(text);
        let imported: BTreeSet<String> =
            imports.flat_map(|found| self.sources_of(&found[1])).collect();
        let mut foreign = BTreeSet::new();
        for signature in self.signatures(text) {
            foreign.extend(self.path.captures_iter(&signature).map(|found| found[1].to_owned()));
            let names = self.name.find_iter(&signature).map(|name| name.as_str().to_owned());
            foreign.extend(names.filter(|name| imported.contains(name)));
        }
        foreign
    }

    /// Returns the text of each public signature, without comments.
    fn signatures(&self, text: &str) -> Vec<String> {
        let mut signatures = Vec::new();
        let mut lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        while let Some(line) = lines.next() {
            if !self.item.is_match(line) {
                continue;
            }
            let mut signature = line.to_owned();
            let is_enum = line.contains("pub enum ");
            let ends = |line: &str| {
                let line = line.trim_end();
                if is_enum {
                    line == "}"
                } else {
                    line.ends_with(['{', ';', ',', '}']) && !line.ends_with("(,")
                }
            };
            let is_list = line.trim_end().ends_with('(');
            let ends_list = |line: &str| line.trim_start().starts_with(')');
            let mut is_over = !is_list && ends(line);
            while !is_over {
                let Some(next) = lines.next() else { break };
                signature.push_str(next);
                is_over = if is_list { ends_list(next) } else { ends(next) };
            }
            signatures.push(signature);
        }
        signatures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKSPACE: &str = "[workspace.dependencies]\ndevice = { path = \"a\" }\n\
        engine = { package = \"e\", path = \"b\" }\njournal = { path = \"c\" }\n\
        memory-budget = { path = \"d\" }\ntelemetry = { path = \"e\" }\nserde = \"1\"\n";

    fn findings(lib: &str, text: &str) -> Vec<String> {
        let source = |path: String, text: &str| Source { path, text: text.to_owned() };
        let own = |name: &str, text: &str| source(format!("{FOLDER}{name}"), text);
        let sources =
            [source(MANIFEST.to_owned(), WORKSPACE), own("lib.rs", lib), own("a.rs", text)];
        check(&sources).expect("patterns")
    }

    #[test]
    fn a_type_that_is_not_exported_is_reported() {
        let text = "//! A.\nuse device::{Device, File as Other};\n\npub fn open(\n    device: Arc<dyn Device>,\n    own: Own,\n) -> Result<()> {\n}\npub struct A {\n    pub journal: journal::Stats,\n}\npub(crate) fn hidden(file: Other) {}\n";
        let found = findings("pub use device::Io;\n", text);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("Device") && found[1].contains("Stats"), "{found:?}");
        let lib = "pub use device::{Device, Io};\npub use journal::{Durability, Stats as JournalStats};\n";
        assert_eq!(findings(lib, text), [""; 0]);
    }

    #[test]
    fn every_crate_of_the_workspace_counts_that_is_not_exported_whole() {
        let text = "pub fn a(of: memory_budget::Charge, to: &telemetry::Registry, by: serde::Error) {\n}\n";
        let found = findings("//! A.\npub use ::telemetry;\n", text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("Charge"), "{found:?}");
        let found = findings("//! A.\n", text);
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn the_variants_of_a_public_enum_count() {
        let text = "//! A.\n#[derive(Debug)]\npub enum Error {\n    /// One.\n    One(engine::Panic),\n}\n";
        assert_eq!(findings("", text).len(), 1);
    }
}
