//! A phase: all threads work on it together, while this thread watches the clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_utils::CachePadded;
use environment::{Environment, JoinHandle, Monotonic};

use super::config::{Config, Plan, RunError};
use super::load::LoadPart;
use super::store_failed;
use super::verifier::Verifier;
use super::worker::{Share, Signals, Tally, Worker};
use crate::distribution::{Distribution, Permutation};
use crate::measure::Interval;
use crate::stores::{Store, StoreError};
use crate::value::Versions;
use crate::workload::{Extent, Place, Stream, StreamOptions, Trace, Workload};

/// How often the watching thread looks at the counters, for progress and for the end.
const LOOK: Duration = Duration::from_millis(50);
/// FlexDB's experiment updates 4 GB of 64.
const AGEING_SHARE: u64 = 16;
const AGEING_THETA: f64 = 0.99;
/// The seed of FlexDB's ageing; the phases of `--aged` have the next ones.
const AGEING_SEED: u64 = 0;

/// Hears how far a run is.
pub trait Progress: Send + Sync {
    /// A phase begins; `total` is its number of operations if it ends by count.
    fn begin(&self, phase: &str, total: Option<u64>);
    /// Notes that `operations` operations are done, at this recent rate.
    fn at(&self, operations: u64, ops_per_s: f64);
    /// The phase waits for something, described in a few words.
    fn waits(&self, what: &str);
    /// The phase has ended.
    fn end(&self);
}

/// When a phase ends: at whichever comes first.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limit {
    pub(crate) seconds: Option<f64>,
    pub(crate) operations: Option<u64>,
}

impl Limit {
    pub(crate) fn seconds(seconds: f64) -> Self {
        Self { seconds: Some(seconds), operations: None }
    }

    pub(crate) fn operations(operations: u64) -> Self {
        Self { seconds: None, operations: Some(operations) }
    }
}

/// A phase of the workload's operations.
pub(crate) struct Phase {
    name: String,
    limit: Limit,
    rate: Option<f64>,
    /// Whether a flush at its end is part of it, as in a load.
    flushes: bool,
}

impl Phase {
    pub(crate) fn warm_up(name: &str, limit: Limit) -> Self {
        Self { name: name.to_owned(), limit, rate: None, flushes: false }
    }

    pub(crate) fn measured(limit: Limit, rate: Option<f64>, flushes: bool) -> Self {
        Self { name: "measured".to_owned(), limit, rate, flushes }
    }
}

/// The result of all threads in a phase.
pub(crate) struct Outcome {
    pub(crate) tally: Tally,
    pub(crate) seconds: f64,
    pub(crate) intervals: Vec<Interval>,
}

/// The threads of a run, between phases.
pub(crate) struct Team {
    workers: Vec<Worker>,
    store: Arc<dyn Store>,
    env: Environment,
    versions: Arc<Versions>,
    trace: Option<Arc<Trace>>,
    loads: u64,
    scatter: Option<Permutation>,
    load_is_timed: bool,
    starts_empty: bool,
    interval: Duration,
    pair_bytes: f64,
}

impl Team {
    pub(crate) fn new(
        config: &Config,
        plan: &Plan,
        store: Arc<dyn Store>,
        env: &Environment,
    ) -> Self {
        let threads = config.threads;
        let options = plan.stream_options(config);
        let worker = |thread| {
            let place = Place { thread, threads };
            let alone = threads == 1;
            let versions = plan.versions.clone();
            let verifier = Verifier::new(plan.keys.clone(), versions.clone(), alone, plan.loads);
            let stream = Stream::new(&options, place);
            let pair = (plan.keys.clone(), config.shape);
            Worker::new(place, stream, pair, versions, verifier, (env.clone(), config.depth))
        };
        let scattered = config.workload.load_is_scattered(config.distribution);
        Self {
            workers: (0..threads).map(worker).collect(),
            store,
            env: env.clone(),
            versions: plan.versions.clone(),
            trace: plan.trace.clone(),
            loads: plan.loads,
            scatter: scattered.then(|| Permutation::new(plan.loads)),
            load_is_timed: config.workload.extent() == Extent::LoadItself,
            starts_empty: config.workload.starts_empty(),
            interval: Duration::from_secs_f64(config.interval_seconds),
            pair_bytes: config.shape.pair_bytes(),
        }
    }

    /// Gives each thread the operations of `config`, another workload on the same store. Keys that
    /// were inserted before stay known.
    pub(crate) fn turn_to(&mut self, config: &Config, plan: &Plan) {
        let options = plan.stream_options(config);
        for worker in &mut self.workers {
            worker.stream = worker.stream.followed_by(&options);
        }
    }

    /// Bytes that the harness holds for checking and for the trace.
    pub(crate) fn harness_bytes(&self) -> u64 {
        self.versions.bytes() + self.trace.as_ref().map_or(0, |trace| trace.bytes())
    }

    /// Returns the bytes of the pairs that are live: the loaded ones and the ones inserted since. A
    /// trace's deletes and sizes are not followed.
    pub(crate) fn live_bytes(&self) -> u64 {
        let inserted: u64 = self.workers.iter().map(|worker| worker.stream.inserted()).sum();
        let loaded = if self.starts_empty { self.versions.written(self.loads) } else { self.loads };
        ((loaded + inserted) as f64 * self.pair_bytes) as u64
    }

    /// Loads all keys and flushes.
    pub(crate) fn load(&mut self, progress: &dyn Progress) -> Result<Outcome, RunError> {
        let (loads, threads) = (self.loads, self.workers.len() as u64);
        let (scatter, timed, trace) = (self.scatter, self.load_is_timed, self.trace.clone());
        let start = self.env.now();
        progress.begin("load", Some(loads));
        let mut outcome = self.work(None, progress, move |worker, store, signals| {
            let thread = worker.place.thread as u64;
            let part = LoadPart {
                first: loads * thread / threads,
                end: loads * (thread + 1) / threads,
                scatter,
                trace: trace.as_deref(),
                timed,
            };
            worker.load(store, &part, signals)
        })?;
        self.store.flush().map_err(|error| store_failed("flushing after the load", &error))?;
        outcome.seconds = (self.env.now() - start).as_secs_f64();
        Ok(outcome)
    }

    /// Does a phase of operations.
    pub(crate) fn run(
        &mut self,
        phase: &Phase,
        progress: &dyn Progress,
    ) -> Result<Outcome, RunError> {
        let start = self.env.now();
        let length = phase.limit.seconds.map(Duration::from_secs_f64);
        let deadline = start + length.unwrap_or(Duration::MAX);
        let threads = self.workers.len() as u64;
        let (operations, rate) = (phase.limit.operations, phase.rate);
        progress.begin(&phase.name, operations);
        let mut outcome = self.work(Some(deadline), progress, move |worker, store, signals| {
            let thread = worker.place.thread as u64;
            let part = |total: u64| total * (thread + 1) / threads - total * thread / threads;
            let operations = operations.map_or(u64::MAX, part);
            worker.run(store, Share { operations, deadline, rate, start }, signals)
        })?;
        if phase.flushes {
            self.store.flush().map_err(|error| store_failed("flushing at the end", &error))?;
            outcome.seconds = (self.env.now() - start).as_secs_f64();
        }
        Ok(outcome)
    }

    /// Does an update for each sixteenth key, by Zipf's distribution, which undoes the order of the
    /// load in which the store has laid the pairs out.
    pub(crate) fn age_as_flexdb(&mut self, progress: &dyn Progress) -> Result<Outcome, RunError> {
        let operations = self.loads / AGEING_SHARE;
        let seed = AGEING_SEED;
        self.update("ageing", (Distribution::Zipfian, seed), operations, progress)
    }

    /// Does one update for each key, of keys drawn uniformly: phase `number` of an ageing.
    pub(crate) fn age(
        &mut self,
        number: u32,
        progress: &dyn Progress,
    ) -> Result<Outcome, RunError> {
        let seed = AGEING_SEED + u64::from(number);
        let name = format!("ageing {number}");
        self.update(&name, (Distribution::Uniform, seed), self.loads, progress)
    }

    /// Updates keys. They are part of the data, not of a round, so the seed is none of the run's.
    fn update(
        &mut self,
        name: &str,
        (distribution, seed): (Distribution, u64),
        operations: u64,
        progress: &dyn Progress,
    ) -> Result<Outcome, RunError> {
        let options = StreamOptions {
            workload: Workload::W100,
            trace: None,
            keys: self.loads,
            distribution,
            theta: AGEING_THETA,
            scan_length: None,
            seed,
        };
        let stream = |worker: &Worker| Stream::new(&options, worker.place);
        let mut ageing: Vec<Stream> = self.workers.iter().map(stream).collect();
        self.swap_streams(&mut ageing);
        let limit = Limit::operations(operations);
        let aged = self.run(&Phase { flushes: true, ..Phase::warm_up(name, limit) }, progress);
        self.swap_streams(&mut ageing);
        aged
    }

    fn swap_streams(&mut self, others: &mut [Stream]) {
        for (worker, other) in self.workers.iter_mut().zip(others) {
            std::mem::swap(&mut worker.stream, other);
        }
    }

    /// Has every worker do `job` on a thread of its own, and watches until all are done.
    fn work(
        &mut self,
        deadline: Option<Monotonic>,
        progress: &dyn Progress,
        job: impl Fn(&mut Worker, &dyn Store, &Signals) -> Result<Tally, StoreError>
        + Clone
        + Send
        + 'static,
    ) -> Result<Outcome, RunError> {
        let start = self.env.now();
        let done = (0..self.workers.len()).map(|_| CachePadded::new(AtomicU64::new(0))).collect();
        let signals = Arc::new(Signals { stop: AtomicBool::new(false), done });
        let mut threads = Vec::new();
        for mut worker in self.workers.drain(..) {
            let (signals, store, job) = (signals.clone(), self.store.clone(), job.clone());
            let name = format!("bench-{}", worker.place.thread);
            let thread = self.env.spawn(&name, move || {
                let tally = job(&mut worker, &*store, &signals);
                let ended = worker.env.now();
                if tally.is_err() {
                    signals.stop.store(true, Ordering::Relaxed);
                }
                (worker, ended, tally)
            });
            threads.push(thread.map_err(RunError::Thread)?);
        }
        let intervals = self.watch(start, deadline, &signals, &threads, progress);
        let mut tally = Tally::default();
        let mut failure = None;
        let mut ended = start;
        for thread in threads {
            let (worker, thread_ended, done) = match thread.join() {
                Ok(joined) => joined,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            self.workers.push(worker);
            ended = ended.max(thread_ended);
            match done {
                Ok(done) => tally.merge(done),
                Err(error) => failure = Some(RunError::Store(error)),
            }
        }
        let seconds = (ended - start).as_secs_f64();
        progress.end();
        match failure {
            Some(error) => Err(error),
            None => Ok(Outcome { tally, seconds, intervals }),
        }
    }

    /// Samples the counters until the threads have ended; returns the operations by interval.
    fn watch<T>(
        &self,
        start: Monotonic,
        deadline: Option<Monotonic>,
        signals: &Signals,
        threads: &[JoinHandle<T>],
        progress: &dyn Progress,
    ) -> Vec<Interval> {
        let mut intervals = Vec::new();
        let (mut counted, mut since) = (0, start);
        let mut shown = (0, start);
        loop {
            let ended = threads.iter().all(JoinHandle::is_finished);
            let now = self.env.now();
            let done = signals.done.iter().map(|done| done.load(Ordering::Relaxed)).sum::<u64>();
            let length = now - since;
            // The rest after the last whole interval counts if it is long enough to mean anything.
            if length >= self.interval || (ended && length * 2 > self.interval) {
                let at = (now - start).as_secs_f64();
                let ops_per_s = (done - counted) as f64 / length.as_secs_f64();
                intervals.push(Interval { at, ops_per_s });
                (counted, since) = (done, now);
            }
            if now - shown.1 >= Duration::from_millis(250) {
                let rate = (done - shown.0) as f64 / (now - shown.1).as_secs_f64();
                progress.at(done, rate);
                shown = (done, now);
            }
            if ended {
                return intervals;
            }
            if deadline.is_some_and(|deadline| now >= deadline) {
                signals.stop.store(true, Ordering::Relaxed);
            }
            let next = since + self.interval;
            let left = if next > now { next - now } else { LOOK };
            self.env.sleep(left.min(LOOK));
        }
    }
}

impl Tally {
    fn merge(&mut self, other: Self) {
        self.operations += other.operations;
        self.read_bytes += other.read_bytes;
        self.write_bytes += other.write_bytes;
        self.reads.merge(&other.reads);
        self.writes.merge(&other.writes);
        self.scans.merge(&other.scans);
        self.verdict.merge(other.verdict);
    }
}
