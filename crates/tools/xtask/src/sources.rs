//! The files of the repository that git tracks or would track.

use std::process::Command;

/// A text file of the repository.
pub(crate) struct Source {
    /// Its path from the root, with `/`.
    pub(crate) path: String,
    /// Its content.
    pub(crate) text: String,
}

impl Source {
    /// Whether its name ends in `.extension`.
    pub(crate) fn is(&self, extension: &str) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, found)| found == extension)
    }

    /// Returns whether the path is in tests, benches or examples, or is a sibling `tests.rs`.
    pub(crate) fn is_test(&self) -> bool {
        self.path
            .split('/')
            .any(|part| matches!(part, "tests" | "tests.rs" | "benches" | "examples"))
    }
}

/// All paths, sorted.
pub(crate) fn paths() -> Result<Vec<String>, String> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .output()
        .map_err(|error| format!("git ls-files: {error}"))?;
    if !output.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let listing = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut paths: Vec<String> = listing
        .lines()
        .filter(|path| std::path::Path::new(path).is_file())
        .map(str::to_owned)
        .collect();
    paths.sort();
    paths.dedup();
    Ok(paths)
}

/// All files that are UTF-8 text.
pub(crate) fn texts() -> Result<Vec<Source>, String> {
    let read = |path: String| {
        let text = std::fs::read_to_string(&path).ok()?;
        Some(Source { path, text })
    };
    Ok(paths()?.into_iter().filter_map(read).collect())
}
