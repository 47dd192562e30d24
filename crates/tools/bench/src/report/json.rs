//! The report as an object.
//!
//! Its field names are a contract that scripts build on; fields are added, never renamed.
//!
//! A file is written under another name and renamed: an interrupted program leaves no half of a
//! result.
#![expect(clippy::disallowed_methods, reason = "a report is the user's file, not the database's")]

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Mark;
use crate::measure::{Interval, Latencies, Stalls, ratio, stalls};
use crate::memory::{HARNESS_BYTES, MemoryGroup, PageCache};
use crate::run::{Config, Measured, Outcome, Plan};
use crate::stores::{Durability, Io};

/// Latencies in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyUs {
    /// Half are at most this.
    pub p50: f64,
    /// 95% are at most this.
    pub p95: f64,
    /// 99% are at most this.
    pub p99: f64,
    /// 99.9% are at most this.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

/// Bytes and operations at the device in the measured phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Read operations.
    pub read_ops: u64,
    /// Write operations.
    pub write_ops: u64,
}

/// Bytes of keys and values that the workload read and wrote in the measured phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// Keys asked for and values returned.
    pub read_bytes: u64,
    /// Keys and values written.
    pub write_bytes: u64,
}

/// Processor time of an operation, in microseconds, of all threads of the process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// In user mode.
    pub user_us_per_op: f64,
    /// In the kernel.
    pub system_us_per_op: f64,
}

/// The load phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadReport {
    /// Its length, the flush at its end included.
    pub seconds: f64,
    /// Seconds after that until the store was at rest. The bytes at the device and the processor
    /// time count until then.
    pub rest_seconds: f64,
    /// Keys a second, without the time until rest.
    pub ops_per_s: f64,
    /// Bytes of the keys and values loaded.
    pub user_write_bytes: u64,
    /// Bytes at the device per byte loaded.
    pub write_amplification: Option<f64>,
    /// Bytes written to the device.
    pub device_write_bytes: u64,
    /// The same of reads.
    pub read_amplification: Option<f64>,
    /// Bytes read from the device.
    pub device_read_bytes: u64,
    /// Processor time a key, in microseconds.
    pub cpu_us_per_op: f64,
    /// Processor time in seconds.
    pub cpu_seconds: f64,
    /// The most that the files took up, sampled, in bytes.
    pub space_peak_bytes: u64,
    /// Peak resident memory of the process until its end, the harness included.
    pub rss_process_peak_bytes: u64,
    /// The part of it that is the harness.
    pub harness_bytes: u64,
    /// Bytes of the store's cache.
    pub cache_bytes: Option<u64>,
    /// Whether it was made once, for several runs.
    pub is_shared: bool,
}

/// Long waits of writers for one cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WriterWait {
    /// The cause of the waits.
    pub cause: String,
    /// How many there were.
    pub count: u64,
    /// Their time in milliseconds.
    pub total_ms: f64,
    /// The longest of them in milliseconds.
    pub longest_ms: f64,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The store.
    pub engine: String,
    /// The workload.
    pub workload: String,
    /// Keys loaded.
    pub keys: u64,
    /// Sizes of keys and values.
    pub shape: String,
    /// Threads that used the store.
    pub threads: usize,
    /// Gets and read-modify-writes that each thread kept under way at the same time, if the store
    /// has the means.
    pub depth: usize,
    /// Operations of the measured phase.
    pub ops: u64,
    /// Its length.
    pub seconds: f64,
    /// Operations a second.
    pub ops_per_s: f64,
    /// Latencies of all operations.
    pub latency_us: LatencyUs,
    /// Processor time an operation, all threads of the process, harness included.
    pub cpu_us_per_op: f64,
    /// Peak resident memory in the measured phase, without the harness's tables.
    pub rss_peak_bytes: u64,
    /// The memory that the store was given.
    pub memory_budget_bytes: u64,
    /// At the device.
    pub device: Device,
    /// Asked for by the workload.
    pub user: Traffic,
    /// Bytes written at the device per byte written by the user; none if the user wrote nothing.
    pub write_amplification: Option<f64>,
    /// Bytes read at the device per byte read by the user; none if the user read nothing.
    pub read_amplification: Option<f64>,
    /// Bytes that the files take up after a flush at the end.
    pub space_bytes: u64,
    /// The most that the files took up, sampled from the opening to the end; of a load that is
    /// shared, see [`LoadReport::space_peak_bytes`].
    pub space_peak_bytes: u64,
    /// Bytes of the live keys and values.
    pub live_bytes: u64,
    /// Results of reads that were checked, in all phases.
    pub verified_reads: u64,
    /// Results of reads that were wrong. Any makes the run a failure.
    pub wrong_reads: u64,
    /// The load phase.
    pub load: LoadReport,

    /// The store's own figures at the end of the measured phase, counted since it was opened.
    pub figures: BTreeMap<String, u64>,
    /// The long waits of its writers, counted since it was opened; the longest first. None if the
    /// store does not count them.
    #[serde(default)]
    pub writer_waits: Vec<WriterWait>,
    /// The first few wrong results in words.
    pub wrong_read_examples: Vec<String>,
    /// Point reads that rightly found nothing.
    pub misses: u64,
    /// `exact` if the age of every read was checked too, `content` if only that it was whole and
    /// its key's.
    pub versions: String,
    /// Which keys.
    pub distribution: String,
    /// Zipf's exponent.
    pub theta: f64,
    /// The seed.
    pub seed: u64,
    /// The failures that acknowledged writes survive.
    pub durability: Durability,
    /// The store's kind of I/O, if the run chose it.
    pub io: Option<Io>,
    /// The budget as asked for.
    pub memory: String,
    /// Whether the page cache counted.
    pub page_cache: PageCache,
    /// Limit of the cgroup: the budget and [`harness_allowance_bytes`](Self).
    pub cgroup_limit_bytes: Option<u64>,
    /// The most charged to it, page cache included, over all phases.
    pub cgroup_peak_bytes: Option<u64>,
    /// The part of the limit that is for the harness.
    pub harness_allowance_bytes: Option<u64>,
    /// The harness's version table and trace, not part of any budget.
    pub harness_bytes: u64,
    /// Peak resident memory of the whole process in the measured phase.
    pub rss_process_peak_bytes: u64,
    /// `store` if the store counts its device, `proc` if the operating system counts the process
    /// (its operations are then system calls), `none` if the store is in other processes.
    pub device_source: String,
    /// The requested operations a second, in an open loop.
    pub rate: Option<f64>,
    /// Length of the warm-up.
    pub warmup_seconds: f64,
    /// The limit of a warm-up that ends when the caches are full.
    pub warmup_limit_seconds: Option<f64>,
    /// Whether such a warm-up ended before its limit.
    pub warmup_is_steady: Option<bool>,
    /// Phases of updates between the load and the workload.
    pub aged: u32,
    /// Bytes that the setting was given which decides how much the store keeps resident, if it has
    /// one.
    pub cache_bytes: Option<u64>,
    /// Whether the store is in other processes. It has no limit of memory then, and its memory, its
    /// device and its space are not measured: their figures are 0. The processor time is that of
    /// the client.
    #[serde(default)]
    pub is_elsewhere: bool,
    /// Reasons not to quote the run.
    pub marks: Vec<Mark>,
    /// The round of a comparison, from 0.
    pub round: u32,
    /// Processor time by mode.
    pub cpu: Cpu,
    /// Latencies of point reads.
    pub read_latency_us: Option<LatencyUs>,
    /// Latencies of writes and read-modify-writes.
    pub write_latency_us: Option<LatencyUs>,
    /// Latencies of scans.
    pub scan_latency_us: Option<LatencyUs>,
    /// Share of operations, and the latency in microseconds that it does not exceed.
    pub latency_curve_us: Vec<(f64, f64)>,
    /// Throughput over time.
    pub intervals: Vec<Interval>,
    /// Intervals below a tenth of the median.
    pub stalls: Stalls,
}

/// Shares at which the latency curve is drawn.
const CURVE: [f64; 15] =
    [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 0.9995, 0.9999, 0.99999, 1.0];

impl Default for Report {
    /// Returns the report of a run that did nothing.
    fn default() -> Self {
        let (engine, workload, shape, versions, distribution, memory, device_source) =
            Default::default();
        Self {
            engine,
            workload,
            keys: 0,
            shape,
            threads: 0,
            depth: 0,
            ops: 0,
            seconds: 0.0,
            ops_per_s: 0.0,
            latency_us: LatencyUs::default(),
            cpu_us_per_op: 0.0,
            rss_peak_bytes: 0,
            memory_budget_bytes: 0,
            device: Device::default(),
            user: Traffic::default(),
            write_amplification: None,
            read_amplification: None,
            space_bytes: 0,
            space_peak_bytes: 0,
            live_bytes: 0,
            verified_reads: 0,
            wrong_reads: 0,
            load: LoadReport::default(),
            figures: BTreeMap::new(),
            writer_waits: Vec::new(),
            wrong_read_examples: Vec::new(),
            misses: 0,
            versions,
            distribution,
            theta: 0.0,
            seed: 0,
            durability: Durability::None,
            io: None,
            memory,
            page_cache: PageCache::Free,
            cgroup_limit_bytes: None,
            cgroup_peak_bytes: None,
            harness_allowance_bytes: None,
            harness_bytes: 0,
            rss_process_peak_bytes: 0,
            device_source,
            rate: None,
            warmup_seconds: 0.0,
            warmup_limit_seconds: None,
            warmup_is_steady: None,
            aged: 0,
            cache_bytes: None,
            is_elsewhere: false,
            marks: Vec::new(),
            round: 0,
            cpu: Cpu::default(),
            read_latency_us: None,
            write_latency_us: None,
            scan_latency_us: None,
            latency_curve_us: Vec::new(),
            intervals: Vec::new(),
            stalls: Stalls::default(),
        }
    }
}

impl Report {
    pub(crate) fn new(config: &Config, plan: &Plan, page_cache: PageCache) -> Self {
        Self {
            engine: config.engine.clone(),
            workload: config.workload.to_string(),
            keys: plan.loads,
            shape: config.shape.to_string(),
            threads: config.threads,
            depth: config.depth,
            memory_budget_bytes: plan.budget_bytes,
            versions: if plan.versions.is_exact() { "exact" } else { "content" }.to_owned(),
            distribution: config.distribution.to_string(),
            theta: config.theta,
            seed: config.seed,
            durability: config.durability,
            io: config.io,
            memory: config.memory.to_string(),
            page_cache,
            rate: config.rate,
            aged: config.aged,
            ..Self::default()
        }
    }

    /// Returns whether every result was right.
    pub fn is_right(&self) -> bool {
        self.wrong_reads == 0
    }

    /// Notes the cost of a load until the store was at rest, `rest_seconds` after its flush.
    pub(crate) fn set_load(&mut self, load: &Measured, rest_seconds: f64, rss: u64) {
        let (outcome, device, process) = (&load.outcome, &load.device, load.process_delta());
        let operations = outcome.tally.operations;
        self.load = LoadReport {
            seconds: outcome.seconds,
            rest_seconds,
            ops_per_s: per(operations as f64, outcome.seconds),
            user_write_bytes: outcome.tally.write_bytes,
            write_amplification: ratio(device.write_bytes, outcome.tally.write_bytes),
            device_write_bytes: device.write_bytes,
            read_amplification: ratio(device.read_bytes, outcome.tally.write_bytes),
            device_read_bytes: device.read_bytes,
            cpu_us_per_op: per(process.cpu_ns as f64 / 1000.0, operations as f64),
            cpu_seconds: process.cpu_ns as f64 / 1e9,
            rss_process_peak_bytes: rss,
            ..LoadReport::default()
        };
    }

    /// The load of this run as a run of its own, which ends when the store is at rest. Its
    /// latencies are unknown, and whether it kept the budget is not judged.
    pub(crate) fn of_load(&self) -> Self {
        let load = &self.load;
        let seconds = load.seconds + load.rest_seconds;
        Self {
            engine: self.engine.clone(),
            workload: "load".to_owned(),
            round: self.round,
            keys: self.keys,
            shape: self.shape.clone(),
            threads: self.threads,
            depth: self.depth,
            ops: self.keys,
            seconds,
            ops_per_s: per(self.keys as f64, seconds),
            cpu_us_per_op: load.cpu_us_per_op,
            rss_peak_bytes: load.rss_process_peak_bytes.saturating_sub(load.harness_bytes),
            memory_budget_bytes: self.memory_budget_bytes,
            device: Device {
                read_bytes: load.device_read_bytes,
                write_bytes: load.device_write_bytes,
                ..Device::default()
            },
            user: Traffic { read_bytes: 0, write_bytes: load.user_write_bytes },
            write_amplification: load.write_amplification,
            read_amplification: load.read_amplification,
            space_bytes: self.space_bytes,
            space_peak_bytes: load.space_peak_bytes,
            live_bytes: self.live_bytes,
            load: load.clone(),
            versions: self.versions.clone(),
            distribution: self.distribution.clone(),
            theta: self.theta,
            seed: self.seed,
            durability: self.durability,
            io: self.io,
            memory: self.memory.clone(),
            page_cache: self.page_cache,
            cache_bytes: load.cache_bytes,
            is_elsewhere: self.is_elsewhere,
            ..Self::default()
        }
    }

    /// Counts the checked results of a phase that is not measured.
    pub(crate) fn count_check(&mut self, outcome: &Outcome) {
        let verdict = &outcome.tally.verdict;
        self.verified_reads += verdict.verified;
        self.wrong_reads += verdict.wrong;
        self.misses += verdict.misses;
        self.wrong_read_examples.extend(verdict.faults.iter().cloned());
    }

    pub(crate) fn set_measured(&mut self, measured: &Measured) {
        let Outcome { tally, seconds, intervals } = &measured.outcome;
        self.count_check(&measured.outcome);
        let operations = tally.operations as f64;
        let process = measured.process_delta();
        self.ops = tally.operations;
        self.seconds = *seconds;
        self.ops_per_s = per(operations, *seconds);
        self.cpu_us_per_op = per(process.cpu_ns as f64 / 1000.0, operations);
        let ticks = (process.user_ticks + process.system_ticks).max(1) as f64;
        self.cpu = Cpu {
            user_us_per_op: self.cpu_us_per_op * process.user_ticks as f64 / ticks,
            system_us_per_op: self.cpu_us_per_op * process.system_ticks as f64 / ticks,
        };
        let device = measured.device;
        self.device = Device {
            read_bytes: device.read_bytes,
            write_bytes: device.write_bytes,
            read_ops: device.read_ops,
            write_ops: device.write_ops,
        };
        self.device_source = if measured.device_by_store { "store" } else { "proc" }.to_owned();
        self.user = Traffic { read_bytes: tally.read_bytes, write_bytes: tally.write_bytes };
        self.write_amplification = ratio(device.write_bytes, tally.write_bytes);
        self.read_amplification = ratio(device.read_bytes, tally.read_bytes);
        let mut all = tally.reads.clone();
        all.merge(&tally.writes);
        all.merge(&tally.scans);
        self.latency_us = summary(&all).unwrap_or_default();
        self.latency_curve_us =
            CURVE.iter().map(|&share| (share, all.quantile_us(share))).collect();
        self.read_latency_us = summary(&tally.reads);
        self.write_latency_us = summary(&tally.writes);
        self.scan_latency_us = summary(&tally.scans);
        self.stalls = stalls(intervals);
        self.intervals.clone_from(intervals);
    }

    pub(crate) fn finish_memory(&mut self, harness_bytes: u64, group: Option<&MemoryGroup>) {
        self.harness_bytes = harness_bytes;
        self.rss_peak_bytes = self.rss_process_peak_bytes.saturating_sub(harness_bytes);
        self.cgroup_limit_bytes = group.map(MemoryGroup::limit_bytes);
        self.cgroup_peak_bytes = group.and_then(MemoryGroup::peak_bytes);
        self.harness_allowance_bytes = group.map(|_| HARNESS_BYTES);
    }
}

fn per(amount: f64, whole: f64) -> f64 {
    if whole > 0.0 { amount / whole } else { 0.0 }
}

fn summary(latencies: &Latencies) -> Option<LatencyUs> {
    (!latencies.is_empty()).then(|| LatencyUs {
        p50: latencies.quantile_us(0.5),
        p95: latencies.quantile_us(0.95),
        p99: latencies.quantile_us(0.99),
        p999: latencies.quantile_us(0.999),
        max: latencies.max_us(),
    })
}

/// Writes `object` to `path`, indented.
///
/// # Errors
/// The file cannot be written.
pub fn write_json(path: &Path, object: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec_pretty(object)?;
    text.push(b'\n');
    write_whole(path, &text)
}

/// Writes a file that is there whole or not at all, also if the program is interrupted. A path that
/// is no regular file, such as a pipe or `/dev/null`, is written to: it must not be replaced.
pub(crate) fn write_whole(path: &Path, text: &[u8]) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return fs::write(path, text);
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    let partial = PathBuf::from(name);
    let written = fs::write(&partial, text).and_then(|()| fs::rename(&partial, path));
    if written.is_err() {
        let _ = fs::remove_file(&partial);
    }
    written
}

/// Reads the reports of a run: one object, or a list of several.
///
/// # Errors
/// The file cannot be read, or is no report.
pub fn read_reports(path: &Path) -> io::Result<Vec<Report>> {
    let text = fs::read(path)?;
    Ok(match serde_json::from_slice(&text)? {
        list @ serde_json::Value::Array(_) => serde_json::from_value(list)?,
        object => vec![serde_json::from_value(object)?],
    })
}
