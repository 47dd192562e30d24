//! Stores that are loaded once, for all runs that begin alike.
//!
//! 1. [`prepare`] loads a store as a run would, within the same memory, ages it if the workload
//!    wants it, and waits until it is at rest. The background work of a load is part of its cost,
//!    and no part of a run that is measured later. Then [`prepare`] closes the store, and leaves
//!    its files, the table of versions and the report of the load in a directory.
//! 2. A run that finds a load of its own [`Kind`] copies the files to the directory of its own
//!    data, makes them durable and has the page cache forget them. Then it takes over the table,
//!    and opens the copy: it begins like a new process, with nothing cached.
//!
//! A run with `--in-place` moves the load to the place of its own data, and moves it back at its
//! end. The runs of several workloads do so: each round has a load of its own, and all trials of a
//! search for a cache have one.
//!
//! # Invariants
//! - I1. A load is opened in place only by a run with `--in-place`. Even a run that only reads
//!   leaves another store behind: the next run would begin with the compactions that this one has
//!   done.
//! - I2. A run begins from a load only if everything that shapes a loaded store is the same
//!   ([`Kind`]).
//! - I3. A load with an `about.json` is whole. [`prepare`] makes a load under another name, and
//!   renames it. A run in place removes `about.json` first, and writes it last.
//!
//! # Format
//! Below the directory of loads, each in a folder named by its kind's hash: `about.json` (the kind,
//! and the report of its load), `versions` (one little-endian word a key; none if versions are not
//! tracked), and `data` (the store's files).
#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark's own files, and a store's while it is closed"
)]

mod copy;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use environment::Environment;
use serde::{Deserialize, Serialize};

use super::config::{Config, Plan, RunError};
use super::{Progress, enter_group, load, open, room};
use crate::measure::{SpacePeak, disk_bytes};
use crate::memory::PageCache;
use crate::report::{LoadReport, Report};
use crate::run::phase::Team;
use crate::shape::KeyOrder;
use crate::stores::{Catalog, Durability, Io};
use crate::workload::Extent;

const ABOUT: &str = "about.json";
const VERSIONS: &str = "versions";
const DATA: &str = "data";

/// Everything that shapes a store after its load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Kind {
    engine: String,
    keys: u64,
    shape: String,
    memory_bytes: u64,
    durability: Durability,
    io: Option<Io>,
    threads: usize,
    page_cache: PageCache,
    sorts_by_number: bool,
    is_scattered: bool,
    is_aged: bool,
    /// Phases of updates after the load.
    aged: u32,
    /// If only contents are checked, versions count by thread.
    has_exact_versions: bool,
}

impl Kind {
    fn of(config: &Config, plan: &Plan) -> Self {
        let Config { workload, distribution, .. } = config;
        let counted = plan.limits_page_cache(config);
        Self {
            engine: config.engine.clone(),
            keys: plan.loads,
            shape: config.shape.to_string(),
            memory_bytes: plan.budget_bytes,
            durability: config.durability,
            io: config.io,
            threads: config.threads,
            page_cache: if counted { PageCache::Counted } else { PageCache::Free },
            sorts_by_number: workload.key_order(*distribution) == KeyOrder::ByNumber,
            is_scattered: workload.load_is_scattered(*distribution),
            is_aged: workload.is_aged(),
            aged: config.aged,
            has_exact_versions: plan.versions.is_exact(),
        }
    }

    fn folder(&self, loads: &Path) -> io::Result<PathBuf> {
        let text = serde_json::to_vec(self)?;
        Ok(loads.join(format!("{:016x}", xxhash_rust::xxh3::xxh3_64(&text))))
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct About {
    kind: Kind,
    load: LoadReport,
}

/// A load that a run may begin from.
#[derive(Debug)]
pub(super) struct Loaded {
    folder: PathBuf,
    kind: Kind,
    /// The cost of making it.
    pub(super) report: LoadReport,
}

/// The load of the right kind, if there is one.
pub(super) fn find(config: &Config, plan: &Plan) -> Result<Option<Loaded>, RunError> {
    let Some(loads) = config.loads.as_deref().filter(|_| is_shared(config)) else {
        return Ok(None);
    };
    let kind = Kind::of(config, plan);
    let read = || {
        let folder = kind.folder(loads)?;
        let about: About = match fs::read(folder.join(ABOUT)) {
            Ok(text) => serde_json::from_slice(&text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        if about.kind != kind {
            return Ok(None);
        }
        let report = LoadReport { is_shared: !config.is_in_place, ..about.load };
        Ok(Some(Loaded { folder, kind: about.kind, report }))
    };
    read().map_err(|error| RunError::Loads(loads.to_owned(), error))
}

impl Loaded {
    /// Copies the store's files to the empty directory `dir`, or moves them there if the run is in
    /// place. Restores the plan's versions. The files do not stay in the page cache if that counts.
    pub(super) fn unpack(&self, dir: &Path, plan: &Plan, config: &Config) -> Result<(), RunError> {
        let unpack = || {
            if plan.versions.is_exact() {
                plan.versions.restore(&words(&fs::read(self.folder.join(VERSIONS))?, plan.loads)?);
            }
            if config.is_in_place {
                fs::remove_file(self.folder.join(ABOUT))?;
                copy::rename(&self.folder.join(DATA), dir)?;
            } else {
                copy::directory(&self.folder.join(DATA), dir)?;
            }
            copy::sync(dir, plan.limits_page_cache(config))
        };
        unpack().map_err(|error| RunError::Loads(self.folder.clone(), error))
    }

    /// Moves the files of a closed store back from `dir`, after a run in place.
    pub(super) fn put_back(&self, dir: &Path, plan: &Plan) -> Result<(), RunError> {
        let data = self.folder.join(DATA);
        let put_back = || {
            fs::create_dir_all(&data)?;
            copy::rename(dir, &data)?;
            let about = About { kind: self.kind.clone(), load: self.report.clone() };
            write(&self.folder, plan, &about)
        };
        put_back().map_err(|error| RunError::Loads(self.folder.clone(), error))
    }

    /// Bytes of the store's files.
    pub(super) fn disk_bytes(&self) -> u64 {
        disk_bytes(&self.folder.join(DATA))
    }
}

fn words(bytes: &[u8], keys: u64) -> io::Result<Vec<u64>> {
    let (chunks, rest) = bytes.as_chunks();
    if chunks.len() as u64 != keys || !rest.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "versions of another number of keys",
        ));
    }
    Ok(chunks.iter().map(|chunk| u64::from_le_bytes(*chunk)).collect())
}

/// Whether a run may begin from a load that was made before.
fn is_shared(config: &Config) -> bool {
    let loads_first = !matches!(config.workload.extent(), Extent::LoadItself | Extent::Trace);
    loads_first && !config.workload.starts_empty()
}

/// Makes the load that runs as `config` describes them begin from, unless it is there. Returns
/// `false` if they have to load for themselves, because the load is part of their measurement or
/// the store cannot be opened again.
///
/// # Errors
/// As [`execute`](super::execute).
pub fn prepare(
    config: &Config,
    catalog: &dyn Catalog,
    env: &Environment,
    progress: &dyn Progress,
) -> Result<bool, RunError> {
    let Some(loads) = config.loads.as_deref() else {
        return Ok(false);
    };
    let plan = Plan::new(config, catalog)?;
    if !is_shared(config) || !catalog.reopens(&config.engine) {
        return Ok(false);
    }
    if find(config, &plan)?.is_some() {
        return Ok(true);
    }
    let kind = Kind::of(config, &plan);
    let failed = |error| RunError::Loads(loads.to_owned(), error);
    let folder = kind.folder(loads).map_err(failed)?;
    let partial = folder.with_extension("partial");
    let made = make(config, &plan, catalog, env, progress, (kind, &partial));
    // A run in place that was killed leaves a folder without data.
    let _ = fs::remove_dir_all(&folder);
    if let Err(error) = made.and_then(|()| fs::rename(&partial, &folder).map_err(failed)) {
        let _ = fs::remove_dir_all(&partial);
        return Err(error);
    }
    Ok(true)
}

fn make(
    config: &Config,
    plan: &Plan,
    catalog: &dyn Catalog,
    env: &Environment,
    progress: &dyn Progress,
    (kind, folder): (Kind, &Path),
) -> Result<(), RunError> {
    let failed = |error| RunError::Loads(folder.to_owned(), error);
    let data = folder.join(DATA);
    // The folder of a process that was killed.
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(&data).map_err(failed)?;
    room::check(&data, plan, config, 0)?;
    let group = enter_group(config, plan)?;
    let space = SpacePeak::watch(env, &data).map_err(RunError::Thread)?;
    // Runs with caches of other sizes begin from the same load.
    let store = open(config, plan, &data, None, catalog)?;
    let mut team = Team::new(config, plan, store.clone(), env);
    let mut report = Report::new(config, plan, kind.page_cache);
    load(config, &*store, &mut team, &mut report, (env, &space, progress))?;
    drop(team);
    store.close().map_err(RunError::Store)?;
    // Some stores close when the last handle is dropped.
    drop(store);
    drop(group);
    write(folder, plan, &About { kind, load: report.load }).map_err(failed)
}

/// Writes the other files of the load in `folder`; `about.json` last (I3).
fn write(folder: &Path, plan: &Plan, about: &About) -> io::Result<()> {
    if let Some(words) = plan.versions.words(plan.loads) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        fs::write(folder.join(VERSIONS), bytes)?;
    }
    fs::write(folder.join(ABOUT), serde_json::to_vec_pretty(about)?)
}
