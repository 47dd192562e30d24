//! The options that describe the work, common to `run` and `compare`.

use std::path::PathBuf;

use clap::{Args, Parser};

use crate::compare::{merged, parted};
use crate::distribution::{Distribution, DistributionError, theta_from_alpha};
use crate::memory::{Budget, PageCache, parse_count};
use crate::run::{Config, QUIET, WARM_UP_MAX_SECONDS, WarmUp};
use crate::shape::Shape;
use crate::stores::{ClusterPlace, ClusterSettings, Durability, Io};
use crate::workload::{Extent, Workload, WorkloadError};

/// YCSB's skew.
const THETA: f64 = 0.99;

/// The work to do with a store, and its conditions.
#[derive(Args, Clone, Debug)]
pub struct WorkArgs {
    /// Keys to load first, as 5000, 100k or 10m
    #[arg(long, default_value = "1m", value_parser = parse_count)]
    pub keys: u64,
    /// Bytes of keys and values, as 8+100, 48+pareto, 24+mix:40:1000:1:2 or 24+zipf:40:8192
    /// [default: the workload's]
    #[arg(long)]
    pub shape: Option<Shape>,
    /// The store's whole memory: a share of the data as 10%, a size as 512MiB, or all (four times
    /// the data); 8 MiB at least
    #[arg(long, default_value = "all")]
    pub memory: Budget,
    /// Exponent of Zipf's distribution, 0 to 10 [default: 0.99]
    #[arg(long, conflicts_with = "alpha")]
    pub theta: Option<f64>,
    /// The same skew on F2's scale: theta = 1 - 1/alpha
    #[arg(long)]
    pub alpha: Option<f64>,
    /// Which keys: zipfian, zipfian-ordered, uniform, latest, hotspot:10:90, composite or
    /// sequential [default: the workload's]
    #[arg(long)]
    pub distribution: Option<Distribution>,
    /// Threads that use the store
    #[arg(long, default_value_t = 2)]
    pub threads: usize,
    /// Gets and read-modify-writes that each thread keeps under way at the same time, if the store
    /// has the means
    #[arg(long, default_value_t = 1)]
    pub depth: usize,
    /// Length of the measured phase [default: 30, or to the end of a load, a phase or a trace]
    #[arg(long)]
    pub seconds: Option<f64>,
    /// Length of the warm-up before it [default: of a timed run, until the resident set and the
    /// device reads per operation change by less than 2% from one 10 s to the next]
    #[arg(long)]
    pub warmup: Option<f64>,
    /// Seconds after which a warm-up without a length ends
    #[arg(long, default_value_t = WARM_UP_MAX_SECONDS)]
    pub warmup_max: f64,
    /// Phases of updates between the load and the workload, each with one update for each key, of
    /// keys drawn uniformly
    #[arg(long, default_value_t = 0)]
    pub aged: u32,
    /// End the measured phase after this number of operations, as 100k
    #[arg(long, value_parser = parse_count)]
    pub ops: Option<u64>,
    /// Operations a second in all, in an open loop: latency then counts from when each was due
    #[arg(long)]
    pub rate: Option<f64>,
    /// Length of an interval of the throughput plot, in seconds
    #[arg(long, default_value_t = 1.0)]
    pub interval: f64,
    /// Pairs a scan [default: the workload's]
    #[arg(long)]
    pub scan_length: Option<u32>,
    /// Directory for the data [default: the system's scratch directory]
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Durability of acknowledged writes: none, buffered (they survive the process; also flushed)
    /// or synced
    #[arg(long, default_value = "buffered")]
    pub durability: Durability,
    /// How the store does I/O, where it has the choice: direct or buffered
    #[arg(long)]
    pub io: Option<Io>,
    /// Whether the page cache counts: counted or free [default: counted below --memory all, where
    /// the machine allows]
    #[arg(long)]
    pub page_cache: Option<PageCache>,
    /// Of the engine nova: the addresses of the coordinators of a running cluster, with commas
    /// between them, or dev for a cluster in this process
    #[arg(long, value_name = "HOST:PORT,...")]
    pub cluster: Option<ClusterPlace>,
    /// With a running cluster: directory of ca.pem, and of client-NODE.pem or client.pem with its
    /// key
    #[arg(long, value_name = "DIR", default_value = "./certs")]
    pub certificates: PathBuf,
    /// With a running cluster: number of this process among the clients
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub node: u32,
}

/// A command line with these options alone.
#[derive(Parser)]
struct Line {
    #[command(flatten)]
    work: WorkArgs,
}

/// A workload's name and its options, if there is such a workload.
pub(super) fn named_workload(text: &str) -> Result<String, WorkloadError> {
    parted(text).0.parse::<Workload>().map(|_| text.to_owned())
}

impl WorkArgs {
    /// The run of `workload` on `engine` that these options describe.
    ///
    /// # Errors
    /// An alpha below 1.
    pub fn config(
        &self,
        engine: &str,
        workload: &Workload,
        seed: u64,
    ) -> Result<Config, DistributionError> {
        let theta = match (self.theta, self.alpha) {
            (Some(theta), _) => theta,
            (None, Some(alpha)) => theta_from_alpha(alpha)?,
            (None, None) => THETA,
        };
        let timed = workload.extent() == Extent::Time && self.ops.is_none();
        let warm_up = match self.warmup {
            Some(seconds) => WarmUp::Seconds(seconds),
            None if timed => WarmUp::UntilSteady { seconds_max: self.warmup_max },
            None => WarmUp::Seconds(0.0),
        };
        let cluster = self.cluster.clone().map(|place| {
            let (certificates, node) = (self.certificates.clone(), self.node);
            ClusterSettings { place, certificates, node }
        });
        Ok(Config {
            engine: engine.to_owned(),
            workload: workload.clone(),
            keys: self.keys,
            shape: self.shape.unwrap_or_else(|| workload.shape()),
            memory: self.memory,
            theta,
            distribution: self.distribution.unwrap_or_else(|| workload.distribution()),
            threads: self.threads,
            depth: self.depth,
            seconds: self.seconds,
            warm_up,
            aged: self.aged,
            quiet_seconds: QUIET.as_secs_f64(),
            cache_bytes: None,
            ops: self.ops,
            rate: self.rate,
            interval_seconds: self.interval,
            scan_length: self.scan_length,
            seed,
            dir: self.dir.clone(),
            loads: None,
            is_in_place: false,
            durability: self.durability,
            io: self.io,
            page_cache: self.page_cache,
            cluster,
        })
    }

    /// These options, with `more` in place of those of the same name.
    ///
    /// # Errors
    /// An option that there is not, or a value that it does not take.
    pub fn with(&self, more: impl IntoIterator<Item = String>) -> Result<Self, clap::Error> {
        let words = merged(self.words().into_iter().chain(more));
        Line::try_parse_from(std::iter::once(String::new()).chain(words)).map(|line| line.work)
    }

    /// The same options as words, for a child process.
    pub fn words(&self) -> Vec<String> {
        let mut words = vec![
            format!("--keys={}", self.keys),
            format!("--memory={}", self.memory),
            format!("--threads={}", self.threads),
            format!("--depth={}", self.depth),
            format!("--interval={}", self.interval),
            format!("--aged={}", self.aged),
            format!("--warmup-max={}", self.warmup_max),
            format!("--durability={}", self.durability),
        ];
        let mut optional = |name: &str, value: Option<String>| {
            words.extend(value.map(|value| format!("--{name}={value}")));
        };
        optional("shape", self.shape.map(|shape| shape.to_string()));
        optional("theta", self.theta.map(|theta| theta.to_string()));
        optional("alpha", self.alpha.map(|alpha| alpha.to_string()));
        optional("distribution", self.distribution.map(|d| d.to_string()));
        optional("seconds", self.seconds.map(|seconds| seconds.to_string()));
        optional("warmup", self.warmup.map(|warmup| warmup.to_string()));
        optional("ops", self.ops.map(|ops| ops.to_string()));
        optional("rate", self.rate.map(|rate| rate.to_string()));
        optional("scan-length", self.scan_length.map(|pairs| pairs.to_string()));
        optional("dir", self.dir.as_ref().map(|dir| dir.display().to_string()));
        optional("io", self.io.map(|io| io.to_string()));
        optional("page-cache", self.page_cache.map(|cache| cache.to_string()));
        if let Some(place) = &self.cluster {
            words.push(format!("--cluster={place}"));
            words.push(format!("--certificates={}", self.certificates.display()));
            words.push(format!("--node={}", self.node));
        }
        words
    }
}
