//! The configuration of a run, and the plan that follows from it.

use std::fs::File;
use std::io::{self, BufReader};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;

use crate::distribution::Distribution;
use crate::measure::available_memory;
use crate::memory::{Budget, PageCache};
use crate::run::phase::Limit;
use crate::run::warm_up::WarmUp;
use crate::run::worker::writer_count;
use crate::shape::{Keys, Shape};
use crate::stores::{Catalog, ClusterSettings, Durability, Io, StoreError, check_cluster};
use crate::value::Versions;
use crate::workload::{Extent, StreamOptions, Trace, TraceError, Workload};

/// Threads that a run may have.
const THREADS_MAX: usize = 1024;
/// Operations that a thread may keep under way.
const DEPTH_MAX: usize = 4096;
/// Seconds that a run or a part of it may take, and operations a second.
const SECONDS_MAX: f64 = 1e8;
const RATE_MAX: f64 = 1e9;
/// The least value of an option that must be above zero.
const THOUSANDTH: f64 = 0.001;
/// Keys that may be inserted after the load, at most; only the room for pointers is reserved.
const INSERTS_MAX: u64 = 1 << 31;
/// The version table may take this share of the memory that is free.
const TABLE_SHARE: u64 = 4;

/// A run, as asked for.
#[derive(Clone, Debug)]
pub struct Config {
    /// The store's name in the catalog.
    pub engine: String,
    /// The workload to run.
    pub workload: Workload,
    /// Keys to load first.
    pub keys: u64,
    /// Sizes of keys and values.
    pub shape: Shape,
    /// The store's budget.
    pub memory: Budget,
    /// Zipf's exponent.
    pub theta: f64,
    /// Which keys are touched.
    pub distribution: Distribution,
    /// Threads that use the store.
    pub threads: usize,
    /// Gets and read-modify-writes that each thread keeps under way at the same time.
    pub depth: usize,
    /// Length of the measured phase; `None` for the workload's own extent, or half a minute.
    pub seconds: Option<f64>,
    /// The phase before it, of the same operations, not measured.
    pub warm_up: WarmUp,
    /// Phases of updates between the load and the workload, each with one update for each key, of
    /// keys drawn uniformly.
    pub aged: u32,
    /// Seconds without writes after which a store is at rest that does not report it by itself.
    pub quiet_seconds: f64,
    /// The size of the store's cache in bytes; `None` for the part of the budget that its guide
    /// gives it.
    pub cache_bytes: Option<u64>,
    /// Operations of the measured phase, if it is to end by count.
    pub ops: Option<u64>,
    /// Operations a second in all, if the loop is to be open.
    pub rate: Option<f64>,
    /// Length of an interval of the throughput plot, in seconds.
    pub interval_seconds: f64,
    /// Pairs a scan, if not the workload's own.
    pub scan_length: Option<u32>,
    /// The seed of the operations.
    pub seed: u64,
    /// The directory for the data; `None` for the system's scratch directory.
    pub dir: Option<PathBuf>,
    /// The directory of loads that runs begin from; `None` to load for this run.
    pub loads: Option<PathBuf>,
    /// Whether the load there is opened in place, and keeps the changes of the run.
    pub is_in_place: bool,
    /// The failures that acknowledged writes survive.
    pub durability: Durability,
    /// How to do I/O.
    pub io: Option<Io>,
    /// Whether the page cache counts; `None` to count it if the machine allows.
    pub page_cache: Option<PageCache>,
    /// The cluster that the store is on; of the engine `nova` alone.
    pub cluster: Option<ClusterSettings>,
}

/// A configuration that cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// No such store, or none that can do this.
    #[error(transparent)]
    Store(StoreError),
    /// Too many threads, or none.
    #[error("threads: {0}, want 1 to {THREADS_MAX}")]
    Threads(usize),
    /// Too many operations under way, or none.
    #[error("depth: {0}, want 1 to {DEPTH_MAX}; above 1 without a rate")]
    Depth(usize),
    /// A number out of its range.
    #[error("{name} {given}: want {} to {}", .allowed.start(), .allowed.end())]
    Number {
        /// The option.
        name: &'static str,
        /// The given value.
        given: f64,
        /// The allowed values.
        allowed: RangeInclusive<f64>,
    },
    /// Zipf's exponent.
    #[error("theta: {0}, want 0 to 10")]
    Theta(f64),
    /// A workload that cannot follow another one on the same store.
    #[error("{workload} cannot follow {first} on the same store: {problem}")]
    Row {
        /// The workload that comes later.
        workload: String,
        /// The first one.
        first: String,
        /// The difference that forbids it.
        problem: &'static str,
    },
    /// The trace cannot be opened.
    #[error("trace {0}: {1}")]
    TraceFile(String, io::Error),
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

/// Why a run has no report.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The configuration is impossible.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The page cache was to be counted, and cannot be.
    #[error("--page-cache counted needs a memory cgroup: {0}")]
    PageCache(io::Error),
    /// The data directory.
    #[error("data directory {path}: {1}", path = .0.display())]
    Dir(PathBuf, io::Error),
    /// The disk is too full for the data.
    #[error(
        "{path} has no room for the load: it needs {needed} bytes, and {free} are free",
        path = .dir.display()
    )]
    NoRoom {
        /// The directory of the data.
        dir: PathBuf,
        /// Bytes that the load and its compactions take.
        needed: u64,
        /// Bytes that the file system has left.
        free: u64,
    },
    /// A load that runs begin from.
    #[error("loads in {path}: {1}", path = .0.display())]
    Loads(PathBuf, io::Error),
    /// The operating system refuses a thread.
    #[error("starting a thread: {0}")]
    Thread(io::Error),
    /// The store failed, in its own words.
    #[error("the store failed: {0}")]
    Store(StoreError),
}

/// Everything that follows from a configuration before anything runs.
pub(crate) struct Plan {
    pub(crate) keys: Keys,
    pub(crate) trace: Option<Arc<Trace>>,
    /// Keys that are loaded first.
    pub(crate) loads: u64,
    pub(crate) versions: Arc<Versions>,
    pub(crate) budget_bytes: u64,
}

impl Plan {
    pub(crate) fn new(config: &Config, catalog: &dyn Catalog) -> Result<Self, ConfigError> {
        catalog.check(&config.engine, &config.workload).map_err(ConfigError::Store)?;
        check_cluster(config).map_err(ConfigError::Store)?;
        config.validate()?;
        let trace = match &config.workload {
            Workload::Trace(file) => Some(Arc::new(open_trace(file)?)),
            _ => None,
        };
        let (keys, loads, distinct) = match &trace {
            Some(trace) => {
                let keys = Keys::listed(trace.keys().to_vec());
                (keys, trace.loads().len() as u64, trace.keys().len() as u64)
            }
            None => {
                let order = config.workload.key_order(config.distribution);
                (Keys::generated(config.shape.key_bytes, order), config.keys, config.keys)
            }
        };
        let data_bytes = distinct as f64 * config.shape.pair_bytes();
        Ok(Self {
            versions: Arc::new(version_table(distinct, writer_count(config.threads, config.depth))),
            budget_bytes: config.memory.bytes(data_bytes),
            keys,
            trace,
            loads,
        })
    }

    /// Checks that `row` can run on the store on which `first` has run.
    pub(crate) fn check_row(
        &self,
        first: &Config,
        row: &Config,
        catalog: &dyn Catalog,
    ) -> Result<(), ConfigError> {
        catalog.check(&row.engine, &row.workload).map_err(ConfigError::Store)?;
        row.validate()?;
        let order = |config: &Config| config.workload.key_order(config.distribution);
        let is_timed = |config: &Config| config.workload.extent() == Extent::Time;
        let problem = if !is_timed(first) || !is_timed(row) {
            Some("only workloads that end by time or by operations can share a store")
        } else if order(first) != order(row) {
            Some("its keys are others")
        } else if (first.threads, first.depth) != (row.threads, row.depth) {
            Some("it has other threads or another depth")
        } else if first.cluster != row.cluster {
            Some("it is on another cluster")
        } else {
            None
        };
        let (workload, first) = (row.workload.to_string(), first.workload.to_string());
        problem.map_or(Ok(()), |problem| Err(ConfigError::Row { workload, first, problem }))
    }

    /// Whether the run must be held to its budget, page cache included. A store in other processes
    /// has no budget here.
    pub(crate) fn limits_page_cache(&self, config: &Config) -> bool {
        match config.page_cache {
            _ if config.is_elsewhere() => false,
            Some(asked) => asked == PageCache::Counted,
            None => config.memory != Budget::All,
        }
    }

    /// When the measured phase ends.
    pub(crate) fn limit(&self, config: &Config) -> Limit {
        let extent = config.workload.extent();
        let by_time = (extent == Extent::Time && config.ops.is_none())
            .then_some(config.seconds.unwrap_or(30.0));
        let by_keys = (extent == Extent::Keys).then_some(self.loads);
        Limit { seconds: config.seconds.or(by_time), operations: config.ops.or(by_keys) }
    }

    pub(crate) fn stream_options(&self, config: &Config) -> StreamOptions {
        StreamOptions {
            workload: config.workload.clone(),
            trace: self.trace.clone(),
            keys: self.loads,
            distribution: config.distribution,
            theta: config.theta,
            scan_length: config.scan_length,
            seed: config.seed,
        }
    }
}

impl Config {
    /// Whether the store is in other processes.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.cluster.as_ref().is_some_and(ClusterSettings::is_elsewhere)
    }

    fn validate(&self) -> Result<(), ConfigError> {
        if !(1..=THREADS_MAX).contains(&self.threads) {
            return Err(ConfigError::Threads(self.threads));
        }
        if !(1..=DEPTH_MAX).contains(&self.depth) || self.depth > 1 && self.rate.is_some() {
            return Err(ConfigError::Depth(self.depth));
        }
        if !(0.0..=10.0).contains(&self.theta) {
            return Err(ConfigError::Theta(self.theta));
        }
        let some_time = THOUSANDTH..=SECONDS_MAX;
        let some = 1.0..=f64::MAX;
        let (warm_up_option, warm_up, least) = match self.warm_up {
            WarmUp::Seconds(seconds) => ("--warmup", seconds, 0.0),
            WarmUp::UntilSteady { seconds_max } => ("--warmup-max", seconds_max, THOUSANDTH),
        };
        let numbers = [
            ("--seconds", self.seconds, some_time.clone()),
            (warm_up_option, Some(warm_up), least..=SECONDS_MAX),
            ("the seconds of quiet", Some(self.quiet_seconds), 0.0..=SECONDS_MAX),
            ("--cache", self.cache_bytes.map(|bytes| bytes as f64), some.clone()),
            ("--interval", Some(self.interval_seconds), some_time),
            ("--rate", self.rate, THOUSANDTH..=RATE_MAX),
            ("--keys", Some(self.keys as f64), some.clone()),
            ("--ops", self.ops.map(|count| count as f64), some.clone()),
            ("--scan-length", self.scan_length.map(f64::from), some),
        ];
        for (name, given, allowed) in numbers {
            if let Some(given) = given.filter(|number| !allowed.contains(number)) {
                return Err(ConfigError::Number { name, given, allowed });
            }
        }
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "a trace is the user's file, not the database's")]
fn open_trace(file: &str) -> Result<Trace, ConfigError> {
    let opened =
        File::open(file).map_err(|error| ConfigError::TraceFile(file.to_owned(), error))?;
    Ok(Trace::read(BufReader::new(opened))?)
}

/// Returns the exact table if a quarter of the free memory holds it.
fn version_table(keys: u64, writers: usize) -> Versions {
    let free = available_memory().unwrap_or(u64::MAX);
    if keys.saturating_mul(8) > free / TABLE_SHARE {
        Versions::content_only(writers)
    } else {
        Versions::new(keys, keys.saturating_add(INSERTS_MAX), writers)
    }
}
