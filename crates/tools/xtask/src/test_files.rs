//! Checks that every file below a crate's `tests` folder is compiled into a test program.
//!
//! 1. The roots are the programs that cargo builds: the ones that `Cargo.toml` names, and without
//!    `autotests = false` also `tests/*.rs` and `tests/*/main.rs`.
//! 2. A file is compiled if a root is, or if a compiled file declares it as a module.
//! 3. A file that no program compiles has tests that never run, and cargo does not report it.

use std::collections::BTreeSet;

use crate::sources::Source;

/// Reports each file below `tests` that no test program of its crate compiles.
pub(crate) fn check(sources: &[Source], findings: &mut Vec<String>) {
    let manifests = sources.iter().filter_map(|source| {
        let folder = source.path.strip_suffix("Cargo.toml")?;
        Some((folder, source.text.as_str()))
    });
    for (folder, manifest) in manifests {
        let tests = format!("{folder}tests/");
        let files: Vec<&Source> = sources
            .iter()
            .filter(|source| source.path.starts_with(&tests) && source.is("rs"))
            .collect();
        let compiled = compiled(folder, manifest, &files);
        for file in files.iter().filter(|file| !compiled.contains(&file.path)) {
            findings.push(format!(
                "{}: declare it as a module of a test program, or as a [[test]] in {folder}Cargo.toml",
                file.path
            ));
        }
    }
}

/// Returns the paths that are compiled, from the roots along the declarations of modules.
fn compiled(folder: &str, manifest: &str, files: &[&Source]) -> BTreeSet<String> {
    let discovered = !manifest.lines().any(|line| line.trim() == "autotests = false");
    let named = named_programs(manifest);
    let is_root = |path: &str| {
        let inside = path.strip_prefix(folder).unwrap_or(path).to_owned();
        let mut parts = inside.split('/').skip(1);
        let found = match (parts.next(), parts.next(), parts.next()) {
            (Some(_), None, _) | (Some(_), Some("main.rs"), None) => discovered,
            _ => false,
        };
        let path = format!("path = \"{inside}\"");
        found || named.contains(&inside) || manifest.lines().any(|line| line.trim() == path)
    };
    let mut compiled: BTreeSet<String> = BTreeSet::new();
    let mut pending: Vec<(&Source, bool)> =
        files.iter().filter(|file| is_root(&file.path)).map(|file| (*file, true)).collect();
    while let Some((file, owns_folder)) = pending.pop() {
        if !compiled.insert(file.path.clone()) {
            continue;
        }
        for (candidates, by_path) in modules(file, owns_folder) {
            let found = files.iter().find(|other| candidates.contains(&other.path));
            if let Some(found) = found {
                pending.push((found, by_path || found.path.ends_with("/mod.rs")));
            }
        }
    }
    compiled
}

/// Returns the files of the programs that a manifest names without a path.
fn named_programs(manifest: &str) -> Vec<String> {
    let tests = manifest.split("[[test]]").skip(1);
    let names = tests.filter_map(|test| test.split("name = \"").nth(1)?.split('"').next());
    names.flat_map(|name| [format!("tests/{name}.rs"), format!("tests/{name}/main.rs")]).collect()
}

/// Returns where each module of `file` may be, and whether a `#[path]` says so. The modules of a
/// file that owns its folder are next to it, those of another one are in a folder of its name.
fn modules(file: &Source, owns_folder: bool) -> Vec<(Vec<String>, bool)> {
    let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
    let stem = name.strip_suffix(".rs").unwrap_or(name);
    let below = if owns_folder { folder.to_owned() } else { format!("{folder}/{stem}") };
    let mut folders = vec![below.clone()];
    let mut modules = Vec::new();
    let mut path = None;
    for line in file.text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("#[path = \"") {
            path = rest.split('"').next();
            continue;
        }
        let declared = line.split_once("mod ").filter(|(before, _)| {
            before.is_empty() || before.trim_end() == "pub" || before.starts_with("pub(")
        });
        let Some((_, declared)) = declared else {
            path = path.filter(|_| line.starts_with("#["));
            continue;
        };
        // The modules inside an inline module are in a folder of its name.
        folders.extend(declared.strip_suffix(" {").map(|inline| format!("{below}/{inline}")));
        if let Some(name) = declared.strip_suffix(';') {
            let in_folder = |folder: &String| {
                [format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")]
            };
            modules.push(match path.take() {
                Some(path) => (vec![joined(folder, path)], true),
                None => (folders.iter().flat_map(in_folder).collect(), false),
            });
        }
    }
    modules
}

/// Appends a relative path to a folder, with each `..` resolved.
fn joined(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').collect();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::sources::Source;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let source =
            |(path, text): &(&str, &str)| Source { path: (*path).into(), text: (*text).into() };
        let sources: Vec<Source> = files.iter().map(source).collect();
        let mut findings = Vec::new();
        check(&sources, &mut findings);
        findings.iter().map(|finding| finding.split(':').next().unwrap_or("").to_owned()).collect()
    }

    #[test]
    fn a_file_that_no_program_declares_is_reported() {
        let manifest = "[package]\nautotests = false\n[[test]]\npath = \"tests/all.rs\"\n";
        let found = findings(&[
            ("a/Cargo.toml", manifest),
            ("a/tests/all.rs", "mod one;\n#[path = \"three/main.rs\"]\nmod three;\n"),
            ("a/tests/one.rs", "#[path = \"deep/one.rs\"]\nmod deep;\nmod inner;\n"),
            ("a/tests/one/inner.rs", ""),
            ("a/tests/deep/one.rs", "mod next_to_it;"),
            ("a/tests/deep/next_to_it.rs", ""),
            ("a/tests/three/main.rs", "mod part;"),
            ("a/tests/three/part.rs", ""),
            ("a/tests/three/forgotten.rs", ""),
            ("a/tests/forgotten.rs", "mod also_forgotten;"),
            ("a/tests/forgotten/also_forgotten.rs", ""),
            ("a/tests/own/main.rs", ""),
        ]);
        let expected = [
            "a/tests/three/forgotten.rs",
            "a/tests/forgotten.rs",
            "a/tests/forgotten/also_forgotten.rs",
            "a/tests/own/main.rs",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn programs_that_cargo_finds_need_no_declaration() {
        let found = findings(&[
            ("a/Cargo.toml", "[package]\n"),
            ("a/tests/one.rs", "mod shared;"),
            ("a/tests/shared/mod.rs", "pub(crate) mod part;"),
            ("a/tests/shared/part.rs", ""),
            ("a/tests/two/main.rs", "mod inline {\n    mod deep;\n}"),
            ("a/tests/two/inline/deep.rs", ""),
            ("a/tests/two/forgotten.rs", ""),
        ]);
        assert_eq!(found, ["a/tests/two/forgotten.rs"]);
    }
}
