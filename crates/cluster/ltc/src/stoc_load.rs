//! The load of StoCs, as the requests of this LTC and their replies show it.
//!
//! The *wait* for a StoC is the bytes of requests under way, divided by its rate, times its slow
//! score. Each request of at least [`LARGE_BYTES`] is a sample of the *rate*. It is the bytes that
//! were served during the stay of the request, divided by the stay.
//!
//! The *slow score* is the latency of small requests relative to the median of all StoCs, at least
//! one. Appends are compared with appends and reads with reads, since an append waits for a sync.
//! The larger ratio counts. A request under way counts with its age. A StoC is *slow* if its score
//! was above [`SLOW_SCORE`] for [`SLOW_TIME`], until the score was lower for [`REST`].
//!
//! # Concurrency
//! One lock guards all figures. No other lock is taken while it is held.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use environment::{Environment, Monotonic};
use stoc::{Request, Response};
use sync::Mutex;

use crate::stoc_choice::Standing;

/// Bytes of a request that is a sample of the rate, at least.
const LARGE_BYTES: u64 = 64 << 10;
/// Bytes of an append or a read that is a sample of the latency, at most.
const SMALL_BYTES: u64 = 64 << 10;
/// Bytes a second that a StoC serves, before there is a sample.
const RATE_DEFAULT: f64 = 64.0 * 1024.0 * 1024.0;
/// Share of a new sample in a mean.
const SAMPLE_SHARE: f64 = 0.125;
/// Time for which a sample counts if there is no later one.
const RECENT: Duration = Duration::from_secs(10);
/// Seconds of a latency, at least: differences of shorter ones are noise.
const LATENCY_MIN: f64 = 0.001;
/// Slow score above which a StoC is slow.
const SLOW_SCORE: f64 = 3.0;
/// Time for which the score of a slow StoC has to be above [`SLOW_SCORE`].
const SLOW_TIME: Duration = Duration::from_secs(10);
/// Time for which a slow StoC gets nothing new after its score was too high, if others can get it.
const REST: Duration = Duration::from_secs(30);
/// Time for which a StoC that could not be reached, or had no room, gets nothing new if others can
/// get it.
const AVOIDED: Duration = Duration::from_secs(10);
/// Time between two computations of the scores.
const JUDGE_PAUSE: Duration = Duration::from_millis(100);

/// The load of each StoC.
#[derive(Debug)]
pub(crate) struct StocLoads {
    environment: Environment,
    state: Mutex<State>,
}

/// The identity of the figures of one link to a StoC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LoadId(u64);

/// A request under way.
#[derive(Debug)]
pub(crate) struct Started {
    load: LoadId,
    /// Its number among the requests of all StoCs.
    number: u64,
    at: Monotonic,
    bytes: u64,
    small: Option<Small>,
    /// Bytes that the StoC had served when the request was sent.
    served_before: u64,
}

/// The figures of a StoC for a choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Figures {
    pub(crate) standing: Standing,
    /// The expected time until the StoC has served all that it was sent, in seconds.
    pub(crate) wait: f64,
}

/// The kind of a small request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Small {
    Append,
    Read,
}

#[derive(Debug)]
struct State {
    loads: BTreeMap<LoadId, Load>,
    /// The number of the last load, and that of the last request.
    last_load: u64,
    last_request: u64,
    next_judgement: Monotonic,
}

/// The load of one StoC.
#[derive(Debug, Default)]
struct Load {
    /// Bytes of the requests under way.
    queued_bytes: u64,
    /// Bytes of all requests that were served.
    served_bytes: u64,
    /// Bytes a second.
    rate: Option<Mean>,
    appends: Latency,
    reads: Latency,
    /// The slow score. Zero before the first judgement, which is as good as 1.
    score: f64,
    /// The time since which the score is too high.
    slow_since: Option<Monotonic>,
    /// The last time at which it was slow.
    slow_at: Option<Monotonic>,
    /// The time of the last failure.
    failed_at: Option<Monotonic>,
}

/// The latency of small requests of one kind.
#[derive(Debug, Default)]
struct Latency {
    /// Seconds.
    mean: Option<Mean>,
    /// The times at which requests under way were sent, by their numbers.
    under_way: BTreeMap<u64, Monotonic>,
}

/// A mean in which later samples count more.
#[derive(Clone, Copy, Debug)]
struct Mean {
    value: f64,
    /// The time of the last sample.
    at: Monotonic,
}

impl StocLoads {
    /// Returns loads without a StoC.
    pub(crate) fn new(environment: Environment) -> Self {
        let next_judgement = environment.now();
        let state = State { loads: BTreeMap::new(), last_load: 0, last_request: 0, next_judgement };
        Self { environment, state: Mutex::new(state) }
    }

    /// Adds a StoC.
    pub(crate) fn add(&self) -> LoadId {
        let mut state = self.state.lock();
        state.last_load += 1;
        let id = LoadId(state.last_load);
        state.loads.insert(id, Load::default());
        id
    }

    /// Removes a StoC. Later replies to its requests are ignored.
    pub(crate) fn remove(&self, load: LoadId) {
        self.state.lock().loads.remove(&load);
    }

    /// Notes that a request is sent.
    pub(crate) fn began(&self, load: LoadId, request: &Request) -> Started {
        let (bytes, small) = bytes_of(request);
        let mut state = self.state.lock();
        let at = self.environment.now();
        state.last_request += 1;
        let number = state.last_request;
        let mut started = Started { load, number, at, bytes, small, served_before: 0 };
        if let Some(load) = state.loads.get_mut(&load) {
            started.served_before = load.served_bytes;
            load.queued_bytes += bytes;
            if let Some(small) = small {
                load.latency_mut(small).under_way.insert(number, at);
            }
        }
        started
    }

    /// Notes the reply to a request.
    pub(crate) fn ended(&self, started: &Started, reply: &stoc::Result<Response>) {
        let mut state = self.state.lock();
        let now = self.environment.now();
        let Some(load) = state.loads.get_mut(&started.load) else { return };
        load.ended(started, reply, now);
        if started.small.is_some() && now >= state.next_judgement {
            state.judge(now);
        }
    }

    /// Returns the figures of all StoCs now.
    pub(crate) fn figures(&self) -> BTreeMap<LoadId, Figures> {
        let mut state = self.state.lock();
        let now = self.environment.now();
        state.judge(now);
        state.loads.iter().map(|(id, load)| (*id, load.figures(now))).collect()
    }
}

impl State {
    /// Computes the scores.
    fn judge(&mut self, now: Monotonic) {
        self.next_judgement = now + JUDGE_PAUSE;
        let (appends, reads) = (self.median(Small::Append, now), self.median(Small::Read, now));
        for load in self.loads.values_mut() {
            let score = load.appends.ratio(appends, now).max(load.reads.ratio(reads, now));
            load.score = score;
            if score <= SLOW_SCORE {
                load.slow_since = None;
            } else if now - *load.slow_since.get_or_insert(now) >= SLOW_TIME {
                load.slow_at = Some(now);
            }
        }
    }

    /// Returns the median of the mean latencies of all StoCs; of two in the middle, the lower one.
    fn median(&self, small: Small, now: Monotonic) -> Option<f64> {
        let means = self.loads.values().filter_map(|load| load.latency(small).recent(now));
        let mut means: Vec<f64> = means.collect();
        means.sort_by(f64::total_cmp);
        means.get(means.len().saturating_sub(1) / 2).copied()
    }
}

impl Load {
    fn latency(&self, small: Small) -> &Latency {
        match small {
            Small::Append => &self.appends,
            Small::Read => &self.reads,
        }
    }

    fn latency_mut(&mut self, small: Small) -> &mut Latency {
        match small {
            Small::Append => &mut self.appends,
            Small::Read => &mut self.reads,
        }
    }

    fn ended(&mut self, started: &Started, reply: &stoc::Result<Response>, now: Monotonic) {
        self.queued_bytes = self.queued_bytes.saturating_sub(started.bytes);
        if let Some(small) = started.small {
            self.latency_mut(small).under_way.remove(&started.number);
        }
        match reply {
            Ok(_) => self.served(started, now),
            Err(
                stoc::Error::Unreachable { .. }
                | stoc::Error::NoRoom { .. }
                | stoc::Error::Failed { .. },
            ) => self.failed_at = Some(now),
            Err(_) => {}
        }
    }

    fn served(&mut self, started: &Started, now: Monotonic) {
        self.served_bytes += started.bytes;
        let stay = (now - started.at).as_secs_f64();
        if let Some(small) = started.small {
            Mean::note(&mut self.latency_mut(small).mean, stay, now);
        }
        // Without a tick of the clock there is no rate.
        if started.bytes >= LARGE_BYTES && stay > 0.0 {
            let served = self.served_bytes - started.served_before;
            Mean::note(&mut self.rate, served as f64 / stay, now);
        }
    }

    fn figures(&self, now: Monotonic) -> Figures {
        let is_within = |at: Option<Monotonic>, time| at.is_some_and(|at| now - at < time);
        let standing = if is_within(self.failed_at, AVOIDED) {
            Standing::Failed
        } else if is_within(self.slow_at, REST) {
            Standing::Slow
        } else {
            Standing::Ready
        };
        let rate = self.rate.map_or(RATE_DEFAULT, |rate| rate.value);
        Figures { standing, wait: self.queued_bytes as f64 / rate * self.score.max(1.0) }
    }
}

impl Latency {
    /// Returns the mean, if it has a recent sample.
    fn recent(&self, now: Monotonic) -> Option<f64> {
        self.mean.filter(|mean| mean.is_recent(now)).map(|mean| mean.value)
    }

    /// Returns the latency relative to the median, at least 1.
    fn ratio(&self, median: Option<f64>, now: Monotonic) -> f64 {
        let Some(median) = median else { return 1.0 };
        let oldest = self.under_way.values().next();
        let age = oldest.map_or(0.0, |at| (now - *at).as_secs_f64());
        let latency = self.recent(now).unwrap_or(0.0).max(age);
        (latency / median.max(LATENCY_MIN)).max(1.0)
    }
}

impl Mean {
    fn is_recent(&self, now: Monotonic) -> bool {
        now - self.at < RECENT
    }

    /// Adds a sample. It replaces a mean without a recent one.
    fn note(mean: &mut Option<Self>, sample: f64, now: Monotonic) {
        let before = mean.filter(|mean| mean.is_recent(now)).map(|mean| mean.value);
        let value = before.map_or(sample, |before| before + (sample - before) * SAMPLE_SHARE);
        *mean = Some(Self { value, at: now });
    }
}

/// Returns the bytes that a request writes or reads, and its kind if it is a small one.
fn bytes_of(request: &Request) -> (u64, Option<Small>) {
    let (bytes, kind) = match request {
        Request::Append { bytes, .. } => (bytes.len() as u64, Some(Small::Append)),
        Request::Read { bytes, .. } => (*bytes, Some(Small::Read)),
        Request::Write { bytes, .. } => (bytes.len() as u64, None),
        _ => (0, None),
    };
    (bytes, kind.filter(|_| bytes <= SMALL_BYTES))
}
