//! Results of a page of comparisons that was interrupted, from which the next attempt continues.
//!
//! 1. [`Kept::open`] takes a directory for one page. It is locked: two programs that make one page
//!    would remove each other's loads.
//! 2. Each run that ends leaves a file there, named by a hash of its program's bytes and of its
//!    options. The file has the reports, or says that the run was killed for its memory. Other
//!    failures are not kept: the next attempt runs them again.
//! 3. The next attempt takes a result from its file. Another build finds none of them.
//! 4. Loads belong to the programs that made them. An attempt with another build removes them.
//! 5. [`Kept::discard`] removes the directory when the page is whole.
//!
//! # Format
//! `section-N/` has the results and loads of comparison N: `HASH.json` with one [`Outcome`], and
//! `loads`. `PROGRAMS` has the hash of the programs that made the loads, in hexadecimal digits.
#![expect(clippy::disallowed_methods, reason = "a benchmark's own files, no part of a database")]

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::{ChildError, Turn};
use crate::report::{Report, write_json};

const LOCK: &str = "LOCK";
const LOADS: &str = "loads";
const PROGRAMS: &str = "PROGRAMS";

/// The directory of one page.
#[derive(Debug)]
pub struct Kept {
    dir: PathBuf,
    /// Hashes of the programs' bytes.
    programs: Vec<(PathBuf, u64)>,
    _lock: File,
}

/// A directory of results that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    /// Another program makes the same page.
    #[error("{path} is in use: another program makes the same page", path = .0.display())]
    InUse(PathBuf),
    /// The directory, a program or the lock cannot be read or made.
    #[error("{path}: {1}", path = .0.display())]
    Io(PathBuf, io::Error),
}

/// The result of a run.
#[derive(Debug, Serialize, Deserialize)]
struct Outcome {
    /// The options of the run, for a reader of the file.
    options: Vec<String>,
    /// Seconds that it took, its load included.
    seconds: f64,
    /// None of a run that was killed for its memory.
    reports: Option<Vec<Report>>,
}

impl Kept {
    /// Takes the directory `dir`, and makes it if it is missing. `programs` run the page.
    ///
    /// # Errors
    /// Another program has it, or it cannot be made.
    pub fn open(dir: &Path, programs: &[&Path]) -> Result<Self, KeptError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error| KeptError::Io(path, error)
        };
        fs::create_dir_all(dir).map_err(failed(dir))?;
        let path = dir.join(LOCK);
        let lock = File::create(&path).map_err(failed(&path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(KeptError::InUse(dir.to_owned())),
            Err(TryLockError::Error(error)) => return Err(KeptError::Io(path, error)),
        }
        let hash = |program: &&Path| {
            let bytes = fs::read(program).map_err(failed(program))?;
            Ok((program.to_path_buf(), xxh3_64(&bytes)))
        };
        let programs = programs.iter().map(hash).collect::<Result<_, _>>()?;
        let kept = Self { dir: dir.to_owned(), programs, _lock: lock };
        kept.remove_loads_of_others().map_err(failed(dir))?;
        // Of runs that were interrupted.
        let _ = fs::remove_dir_all(kept.data());
        Ok(kept)
    }

    /// Removes the loads that other programs made.
    fn remove_loads_of_others(&self) -> io::Result<()> {
        let hashes: Vec<u8> = self.programs.iter().flat_map(|it| it.1.to_le_bytes()).collect();
        let own = format!("{:016x}", xxh3_64(&hashes));
        let path = self.dir.join(PROGRAMS);
        if fs::read_to_string(&path).is_ok_and(|text| text == own) {
            return Ok(());
        }
        for entry in fs::read_dir(&self.dir)? {
            let loads = entry?.path().join(LOADS);
            if loads.is_dir() {
                fs::remove_dir_all(loads)?;
            }
        }
        fs::write(path, own)
    }

    /// The results of comparison `number` of the page.
    pub fn section(&self, number: usize) -> Section<'_> {
        Section { kept: self, number }
    }

    /// The directory of the runs' data.
    pub fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// The directory of reports that are not read yet.
    pub fn scratch(&self) -> PathBuf {
        self.dir.join("scratch")
    }

    /// Removes everything.
    ///
    /// # Errors
    /// Something stays.
    pub fn discard(self) -> io::Result<()> {
        fs::remove_dir_all(&self.dir)
    }
}

/// The results of one comparison.
#[derive(Clone, Copy, Debug)]
pub struct Section<'a> {
    kept: &'a Kept,
    number: usize,
}

impl Section<'_> {
    fn dir(&self) -> PathBuf {
        self.kept.dir.join(format!("section-{}", self.number))
    }

    /// The directory of loads.
    pub(super) fn loads(&self) -> PathBuf {
        self.dir().join(LOADS)
    }

    /// The file of a turn.
    fn path(&self, program: &Path, turn: &Turn) -> PathBuf {
        let known = self.kept.programs.iter().find(|(path, _)| path == program);
        let seed = known.map_or(0, |(_, hash)| *hash);
        let words = turn.options.join("\0");
        let word = format!("{}\0{:?}\0{}\0{words}", turn.store, turn.side, turn.is_trial);
        self.dir().join(format!("{:016x}.json", xxh3_64_with_seed(word.as_bytes(), seed)))
    }

    fn outcome(&self, program: &Path, turn: &Turn) -> Option<Outcome> {
        // A file that is not whole is no result.
        serde_json::from_slice(&fs::read(self.path(program, turn)).ok()?).ok()
    }

    /// The result of `turn` in an earlier attempt.
    pub(super) fn find(
        &self,
        program: &Path,
        turn: &Turn,
    ) -> Option<Result<Vec<Report>, ChildError>> {
        let outcome = self.outcome(program, turn)?;
        Some(outcome.reports.ok_or(ChildError::Killed))
    }

    /// Keeps the result of `turn`. A result that cannot be written is measured again.
    pub(super) fn note(
        &self,
        program: &Path,
        turn: &Turn,
        result: &Result<Vec<Report>, ChildError>,
        took: Duration,
    ) {
        let reports = match result {
            Ok(reports) => Some(reports.clone()),
            Err(ChildError::Killed) => None,
            Err(_) => return,
        };
        let (options, seconds) = (turn.options.clone(), took.as_secs_f64());
        let outcome = Outcome { options, seconds, reports };
        let written = fs::create_dir_all(self.dir())
            .and_then(|()| write_json(&self.path(program, turn), &outcome));
        if let Err(error) = written {
            eprintln!("a result is not kept: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_build_begins_without_the_loads_of_the_last_one() {
        let dir = tempfile::tempdir().expect("a scratch directory");
        let [first, second] = ["first", "second"].map(|name| dir.path().join(name));
        for program in [&first, &second] {
            fs::write(program, program.as_os_str().as_encoded_bytes()).expect("a program");
        }
        let page = dir.path().join("page");
        let load = page.join("section-1/loads/a/data");
        let opened = |program: &Path| {
            drop(Kept::open(&page, &[program]).expect("a page"));
            load.exists()
        };
        opened(&first);
        fs::create_dir_all(&load).expect("a load");
        assert!(opened(&first), "the same build continues");
        assert!(!opened(&second));
    }
}
