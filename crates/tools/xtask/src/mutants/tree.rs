//! Copies of the repository's files, below `target/mutants`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::must_run;
use super::patch::Patch;
use crate::built::{MESSAGES, Program};
use crate::sources;

/// The folder of the copies, and of what cargo makes of them.
const FOLDER: &str = "target/mutants";
/// The crate with the function that the branches call, as all crates with mutants depend on it.
const SYNC: &str = "crates/base/sync/src";
/// That function.
const IS_ON: &str = r#"//! The mutant that a test has selected.

use std::sync::OnceLock;

/// Returns whether a mutant is selected.
pub fn is_on(name: &str) -> bool {
    static SELECTED: OnceLock<String> = OnceLock::new();
    SELECTED.get_or_init(|| std::env::var("THERMOCLINE_MUTANT").unwrap_or_default()) == name
}
"#;

/// A copy of some files of the repository.
pub(super) struct Tree(PathBuf);

impl Tree {
    /// Returns a new copy of these files.
    pub(super) fn of<'f>(files: impl Iterator<Item = &'f str>) -> Result<Self, String> {
        let next = Path::new(FOLDER).join("next");
        if next.exists() {
            std::fs::remove_dir_all(&next).map_err(|error| format!("{next:?}: {error}"))?;
        }
        let tree = Self(next);
        for file in files {
            let to = tree.path(file);
            make_folder_of(&to)?;
            std::fs::copy(file, &to).map_err(|error| format!("{file}: {error}"))?;
        }
        Ok(tree)
    }

    /// Returns a copy of all files with all patches, and the patches that do not apply. Files that
    /// have not changed since the last copy keep their times, so cargo compiles the others alone.
    pub(super) fn patched(patches: &[Patch]) -> Result<(Self, Vec<String>), String> {
        let files = sources::paths()?;
        let next = Self::of(files.iter().map(String::as_str))?;
        let mut findings = Vec::new();
        for patch in patches {
            let (is_applied, output) = next.apply(patch, &[])?;
            if !is_applied {
                findings.push(format!("{} does not apply: {output}", patch.path()));
            }
        }
        next.write(&format!("{SYNC}/mutants.rs"), IS_ON)?;
        let lib = format!("{SYNC}/lib.rs");
        let text = std::fs::read_to_string(&lib).map_err(|error| format!("{lib}: {error}"))?;
        next.write(&lib, &text.replace("pub mod locks;\n", "pub mod locks;\npub mod mutants;\n"))?;
        let tree = Self(Path::new(FOLDER).join("tree"));
        for file in files.iter().map(String::as_str).chain([&*format!("{SYNC}/mutants.rs")]) {
            tree.take(&next, file)?;
        }
        Ok((tree, findings))
    }

    /// Takes a file of another tree, unless it has the same one.
    fn take(&self, from: &Self, file: &str) -> Result<(), String> {
        let (from, to) = (from.path(file), self.path(file));
        #[expect(clippy::disallowed_methods, reason = "a file below target")]
        let read = |path: &Path| std::fs::read(path);
        let content = read(&from).map_err(|error| format!("{}: {error}", from.display()))?;
        if read(&to).is_ok_and(|there| there == content) {
            return Ok(());
        }
        make_folder_of(&to)?;
        std::fs::copy(&from, &to).map(drop).map_err(|error| format!("{}: {error}", to.display()))
    }

    fn write(&self, file: &str, text: &str) -> Result<(), String> {
        #[expect(clippy::disallowed_methods, reason = "writes a file below target")]
        std::fs::write(self.path(file), text).map_err(|error| format!("{file}: {error}"))
    }

    /// Returns the path of a file.
    pub(super) fn path(&self, file: &str) -> PathBuf {
        self.0.join(file)
    }

    /// Applies a patch. Returns whether it applies, and the output of git.
    pub(super) fn apply(&self, patch: &Patch, options: &[&str]) -> Result<(bool, String), String> {
        // Git ignores the head. The copy is in a folder of the repository that git does not track.
        let folder = format!("--directory={}", self.0.display());
        let mut command = Command::new("git");
        command.arg("apply").args(options).args(["--unsafe-paths", &folder]).arg(patch.path());
        on(&mut command)
    }

    /// Compiles the library tests of packages, with one call of cargo: so the dependencies have
    /// one set of features. The target directory is not that of the repository: the crates of both
    /// would have the same files in it.
    pub(super) fn build<'p>(
        &self,
        packages: impl Iterator<Item = &'p str>,
    ) -> Result<Programs<'p>, String> {
        let packages: BTreeSet<&str> = packages.collect();
        let mut command = Command::new("cargo");
        command.arg("test").arg("--manifest-path").arg(self.path("Cargo.toml"));
        command.arg("--target-dir").arg(Path::new(FOLDER).join("target"));
        command.args(["--lib", "--no-run", MESSAGES]);
        command.args(packages.iter().flat_map(|package| ["--package", package]));
        let messages = must_run(&mut command)?;
        let built: Vec<Program> = messages.lines().filter_map(Program::of).collect();
        let program = |package: &'p str| {
            let program = built.iter().find(|program| program.package == package);
            let unknown = || format!("cargo names no program of the tests of {package}");
            Ok((package, program.cloned().ok_or_else(unknown)?))
        };
        packages.into_iter().map(program).collect()
    }
}

/// The programs of library tests, by package.
pub(super) type Programs<'p> = BTreeMap<&'p str, Program>;

fn make_folder_of(path: &Path) -> Result<(), String> {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

/// Runs a command. Returns whether it succeeded, and its output.
pub(super) fn on(command: &mut Command) -> Result<(bool, String), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text += &String::from_utf8_lossy(&output.stderr);
    Ok((output.status.success(), text))
}
