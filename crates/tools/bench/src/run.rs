//! One run: open, load, warm up, measure, close, report.
//!
//! 1. Allocate the version table and read the trace. Check that the disk has room. Copy a store
//!    that was loaded before ([`prepare`]), if there is one to begin from. Enter the memory cgroup;
//!    open the store.
//! 2. Load all keys (phase `load`) if they are not there, flush, and wait until the store is at
//!    rest. Age it if that is wanted, and wait again. For HashKV's later phases update as often as
//!    there are keys.
//! 3. Warm up, then measure; the threads' streams run on from one phase to the next.
//! 4. Measure the other workloads of the run, if it has several ([`execute_rows`]).
//! 5. Measure space, close, remove the directory, leave the cgroup.

mod config;
mod load;
mod loads;
mod pace;
mod phase;
mod rest;
mod room;
mod verifier;
mod warm_up;
mod worker;

pub(crate) use config::Plan;
pub use config::{Config, ConfigError, RunError};
pub use loads::prepare;
pub(crate) use phase::Outcome;
pub use phase::Progress;
pub(crate) use rest::QUIET;
pub use warm_up::{WARM_UP_MAX_SECONDS, WarmUp};

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use environment::Environment;

use crate::measure::{ProcessCounts, SpacePeak, disk_bytes, peak_rss, reset_peak_rss};
use crate::memory::{HARNESS_BYTES, MemoryGroup, PageCache};
use crate::report::Report;

use crate::run::phase::{Limit, Phase, Team};
use crate::run::warm_up::warm_up;
use crate::stores::{Catalog, DeviceCounts, OpenOptions, Store, StoreError};
use crate::workload::Extent;

/// Runs `config` against a store of `catalog`, and reports.
///
/// Blocks for the load and the measured phase. The store's directory is removed afterwards.
///
/// # Errors
/// The configuration is impossible, or the store fails. A store that returns *wrong* results is no
/// error here: the report counts it, and [`Report::is_right`] says so.
pub fn execute(
    config: &Config,
    catalog: &dyn Catalog,
    env: &Environment,
    progress: &dyn Progress,
) -> Result<Report, RunError> {
    let mut reports = execute_rows(config, &[], catalog, env, progress)?;
    Ok(reports.swap_remove(0))
}

/// Runs `first`, and on the same open store the workloads of `then`, in order. Returns a report for
/// each.
///
/// The store is warmed up once, before the first workload. Whether the resident peak keeps the
/// budget is judged for all rows alike, by the largest peak: the store has one configuration for
/// all.
///
/// # Errors
/// As [`execute`], and if a configuration of `then` is not like `first` in everything that shapes
/// the store.
pub fn execute_rows(
    first: &Config,
    then: &[Config],
    catalog: &dyn Catalog,
    env: &Environment,
    progress: &dyn Progress,
) -> Result<Vec<Report>, RunError> {
    let plan = Plan::new(first, catalog)?;
    for row in then {
        plan.check_row(first, row, catalog)?;
    }
    let loaded = loads::find(first, &plan)?;
    let dir = DataDir::create(first)?;
    if !first.is_elsewhere() {
        room::check(&dir.0, &plan, first, loaded.as_ref().map_or(0, loads::Loaded::disk_bytes))?;
    }
    if let Some(loaded) = &loaded {
        loaded.unpack(&dir.0, &plan, first)?;
    }
    let group = enter_group(first, &plan)?;
    let page_cache = if group.is_some() { PageCache::Counted } else { PageCache::Free };
    let space = SpacePeak::watch(env, &dir.0).map_err(RunError::Thread)?;
    let store = open(first, &plan, &dir.0, first.cache_bytes, catalog)?;
    let mut team = Team::new(first, &plan, store.clone(), env);
    let mut report = Report::new(first, &plan, page_cache);
    match &loaded {
        Some(loaded) => {
            report.load = loaded.report.clone();
            // Opening a store may begin work of its own.
            wait_for_rest(first, &*store, env, progress)?;
        }
        None if first.workload.starts_empty() => {}
        None => load(first, &*store, &mut team, &mut report, (env, &space, progress))?,
    }
    if first.workload.extent() != Extent::LoadItself {
        measure(first, &plan, &*store, &mut team, &mut report, progress)?;
    }
    let load_report = report.load.clone();
    let finish = |mut report: Report, team: &Team| {
        report.rss_process_peak_bytes = peak_rss();
        report.cache_bytes = store.cache_bytes();
        report.finish_memory(team.harness_bytes(), group.as_ref());
        report.live_bytes = team.live_bytes();
        report.figures = store.figures();
        report.writer_waits = store.writer_waits();
        report.space_bytes = disk_bytes(&dir.0);
        report.space_peak_bytes = space.bytes();
        report
    };
    let mut reports = vec![finish(report, &team)];
    for row in then {
        let mut report =
            Report { load: load_report.clone(), ..Report::new(row, &plan, page_cache) };
        team.turn_to(row, &plan);
        measure_now(row, &plan, &*store, &mut team, &mut report, progress)?;
        reports.push(finish(report, &team));
    }
    store.flush().map_err(RunError::Store)?;
    if let Some(last) = reports.last_mut() {
        last.space_bytes = disk_bytes(&dir.0);
        space.note(last.space_bytes);
        last.space_peak_bytes = space.bytes();
    }
    if first.is_elsewhere() {
        reports.iter_mut().for_each(Report::leave_out_store);
    }
    let resident_bytes = reports.iter().map(|report| report.rss_peak_bytes).max().unwrap_or(0);
    for (report, row) in reports.iter_mut().zip(std::iter::once(first).chain(then)) {
        report.mark(row, resident_bytes);
    }
    drop(team);
    store.close().map_err(RunError::Store)?;
    // Some stores close when nothing holds them any more.
    drop(store);
    // The load's versions are written from a copy, which is no memory of the store.
    drop(group);
    if let Some(loaded) = loaded.filter(|_| first.is_in_place) {
        loaded.put_back(&dir.0, &plan)?;
    }
    Ok(reports)
}

fn open(
    config: &Config,
    plan: &Plan,
    dir: &Path,
    cache_bytes: Option<u64>,
    catalog: &dyn Catalog,
) -> Result<Arc<dyn Store>, RunError> {
    let options = OpenOptions {
        dir: dir.to_owned(),
        memory_bytes: plan.budget_bytes,
        cache_bytes,
        durability: config.durability,
        io: config.io,
        threads: config.threads,
        keys: plan.loads,
        key_space: plan.keys.clone(),
        pair_bytes: config.shape.pair_bytes(),
        cluster: config.cluster.clone(),
    };
    catalog.open(&config.engine, &options).map_err(RunError::Store)
}

/// Loads all keys, which may be the measured phase, and ages the store if the plan says so; after
/// both the store is at rest.
fn load(
    config: &Config,
    store: &dyn Store,
    team: &mut Team,
    report: &mut Report,
    (env, space, progress): (&Environment, &SpacePeak, &dyn Progress),
) -> Result<(), RunError> {
    let mut rest_seconds = 0.0;
    let load = phase_measured(store, || {
        let outcome = team.load(progress)?;
        rest_seconds = wait_for_rest(config, store, env, progress)?;
        Ok(outcome)
    })?;
    report.set_load(&load, rest_seconds, peak_rss());
    report.load.space_peak_bytes = space.bytes();
    report.load.harness_bytes = team.harness_bytes();
    report.load.cache_bytes = store.cache_bytes();
    if config.workload.extent() == Extent::LoadItself {
        report.set_measured(&load);
    }
    if config.workload.is_aged() {
        report.count_check(&team.age_as_flexdb(progress)?);
    }
    for phase in 1..=config.aged {
        report.count_check(&team.age(phase, progress)?);
    }
    if config.workload.is_aged() || config.aged > 0 {
        wait_for_rest(config, store, env, progress)?;
    }
    Ok(())
}

/// Waits until the store is at rest; returns for how many seconds it was not.
fn wait_for_rest(
    config: &Config,
    store: &dyn Store,
    env: &Environment,
    progress: &dyn Progress,
) -> Result<f64, RunError> {
    let quiet = Duration::from_secs_f64(config.quiet_seconds);
    rest::wait(env, store, quiet, progress)
        .map_err(|error| store_failed("waiting until it is at rest", &error))
}

/// Runs the phases before the measured one, and then the measured one.
fn measure(
    config: &Config,
    plan: &Plan,
    store: &dyn Store,
    team: &mut Team,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<(), RunError> {
    for number in 1..=config.workload.phases_before() {
        let name = format!("update phase {number}");
        let limit = Limit::operations(plan.loads);
        report.count_check(&team.run(&Phase::warm_up(&name, limit), progress)?);
    }
    warm_up(config, store, team, report, progress)?;
    measure_now(config, plan, store, team, report, progress)
}

/// The measured phase.
fn measure_now(
    config: &Config,
    plan: &Plan,
    store: &dyn Store,
    team: &mut Team,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<(), RunError> {
    reset_peak_rss();
    let phase = Phase::measured(plan.limit(config), config.rate, config.workload.starts_empty());
    let measured = phase_measured(store, || team.run(&phase, progress))?;
    report.set_measured(&measured);
    Ok(())
}

/// The operations of a phase, and their cost.
pub(crate) struct Measured {
    pub(crate) outcome: Outcome,
    pub(crate) device: DeviceCounts,
    /// Whether the store counted its device itself.
    pub(crate) device_by_store: bool,
    before: ProcessCounts,
    after: ProcessCounts,
}

impl Measured {
    /// Processor time and I/O of the process during the phase.
    pub(crate) fn process_delta(&self) -> ProcessCounts {
        ProcessCounts {
            cpu_ns: self.after.cpu_ns.saturating_sub(self.before.cpu_ns),
            user_ticks: self.after.user_ticks.saturating_sub(self.before.user_ticks),
            system_ticks: self.after.system_ticks.saturating_sub(self.before.system_ticks),
            io: difference(self.after.io, self.before.io),
        }
    }
}

fn phase_measured(
    store: &dyn Store,
    work: impl FnOnce() -> Result<Outcome, RunError>,
) -> Result<Measured, RunError> {
    let before = ProcessCounts::now();
    let device_before = store.device();
    let outcome = work()?;
    let device_after = store.device();
    let after = ProcessCounts::now();
    let (device, device_by_store) = match (device_before, device_after) {
        (Some(before), Some(after)) => (difference(after, before), true),
        _ => (difference(after.io, before.io), false),
    };
    Ok(Measured { outcome, device, device_by_store, before, after })
}

fn difference(after: DeviceCounts, before: DeviceCounts) -> DeviceCounts {
    DeviceCounts {
        read_bytes: after.read_bytes.saturating_sub(before.read_bytes),
        write_bytes: after.write_bytes.saturating_sub(before.write_bytes),
        read_ops: after.read_ops.saturating_sub(before.read_ops),
        write_ops: after.write_ops.saturating_sub(before.write_ops),
    }
}

/// Enters the memory cgroup if the page cache is to be counted. Unless the options ask for that
/// explicitly, a machine that does not allow it runs without, and the report says so.
fn enter_group(config: &Config, plan: &Plan) -> Result<Option<MemoryGroup>, RunError> {
    if !plan.limits_page_cache(config) {
        return Ok(None);
    }
    match MemoryGroup::enter(plan.budget_bytes + HARNESS_BYTES) {
        Ok(group) => Ok(Some(group)),
        Err(error) if config.page_cache.is_some() => Err(RunError::PageCache(error)),
        Err(_) => Ok(None),
    }
}

/// Returns the directory in which the process `pid` puts the data of a run of `engine`, below
/// `parent` or the system's scratch directory.
pub(crate) fn data_dir(parent: Option<&Path>, engine: &str, pid: u32) -> PathBuf {
    let parent = parent.map_or_else(std::env::temp_dir, Path::to_owned);
    parent.join(format!("thermocline-bench-{engine}-{pid}"))
}

/// The directory of one run, removed on drop.
struct DataDir(PathBuf);

impl DataDir {
    fn create(config: &Config) -> Result<Self, RunError> {
        let path = data_dir(config.dir.as_deref(), &config.engine, std::process::id());
        let parent = path.parent().unwrap_or(&path);
        std::fs::create_dir_all(parent)
            .and_then(|()| std::fs::create_dir(&path))
            .map_err(|error| RunError::Dir(path.clone(), error))?;
        Ok(Self(path))
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        // Left behind only if the disk itself fails; the path is in the system's scratch space or
        // in the user's directory.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A failed store's own words, for a thread's result.
pub(crate) fn store_failed(doing: &str, error: &StoreError) -> RunError {
    RunError::Store(format!("{doing}: {error}").into())
}
