//! Figures of the load, by a clock that the tests move.

use std::sync::Arc;

use environment::ManualClock;
use stoc::{Epoch, FileName, Kind, RangeId};

use super::*;

struct Loads {
    loads: StocLoads,
    clock: Arc<ManualClock>,
}

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const NAME: FileName =
    FileName { range: RangeId(1), kind: Kind::Data, number: 1, nonce: 1, part: 0 };

fn write(bytes: usize) -> Request {
    Request::Write { name: NAME, epoch: Epoch(1), offset: 0, bytes: vec![0; bytes].into() }
}

fn append(bytes: usize) -> Request {
    let bytes = vec![0; bytes].into();
    Request::Append { name: NAME, epoch: Epoch(1), start: None, offset: 0, bytes }
}

fn read(bytes: u64) -> Request {
    Request::Read { name: NAME, offset: 0, bytes }
}

impl Loads {
    fn new() -> Self {
        let (environment, clock) = Environment::simulated(1);
        Self { loads: StocLoads::new(environment), clock }
    }

    fn add<const N: usize>(&self) -> [LoadId; N] {
        [(); N].map(|()| self.loads.add())
    }

    fn figures(&self, load: LoadId) -> Figures {
        *self.loads.figures().get(&load).expect("it was added")
    }

    fn end(&self, started: &Started) {
        self.loads.ended(started, &Ok(Response::Done));
    }

    /// Serves a request to each StoC, each with a latency.
    fn serve(&self, loads: &[(LoadId, Duration)], request: &Request) {
        for (load, latency) in loads {
            let started = self.loads.began(*load, request);
            self.clock.advance(*latency);
            self.end(&started);
        }
    }
}

/// The wait is the bytes under way divided by the rate, which has a default.
#[test]
fn the_wait_follows_from_bytes_and_rate() {
    let all = Loads::new();
    let [load, other] = all.add();
    assert_eq!(all.figures(load), Figures { standing: Standing::Ready, wait: 0.0 });
    let mib = 1 << 20;
    let first = all.loads.began(load, &write(mib));
    let by_default = mib as f64 / RATE_DEFAULT;
    assert_eq!(all.figures(load).wait, by_default);
    let second = all.loads.began(load, &write(mib));
    assert_eq!(all.figures(load).wait, 2.0 * by_default);
    // A MiB a second. During its stay of two seconds the second request sees two served.
    all.clock.advance(SECOND);
    all.end(&first);
    assert_eq!(all.figures(load).wait, 1.0);
    all.clock.advance(SECOND);
    all.end(&second);
    assert_eq!(all.figures(load).wait, 0.0);
    let third = all.loads.began(load, &read(mib as u64));
    assert_eq!(all.figures(load).wait, 1.0);
    // Requests that are small, or fail, are no samples.
    all.serve(&[(load, SECOND)], &append(100));
    assert_eq!(all.figures(load).wait, 1.0);
    all.clock.advance(SECOND);
    all.loads.ended(&third, &Err(stoc::Error::Unreachable { node: 1 }));
    assert_eq!(all.figures(load).wait, 0.0);
    let fourth = all.loads.began(load, &write(mib));
    assert_eq!(all.figures(load).wait, 1.0);
    assert_eq!(all.figures(other).wait, 0.0);
    // A removed StoC has no figures, and late replies change nothing.
    all.loads.remove(load);
    all.end(&fourth);
    assert_eq!(all.loads.figures().len(), 1);
}

/// The rate follows later samples.
#[test]
fn the_rate_follows_later_samples() {
    let all = Loads::new();
    let load = all.loads.add();
    let mib = 1 << 20;
    all.serve(&[(load, SECOND)], &write(mib));
    for _ in 0..40 {
        all.serve(&[(load, SECOND / 4)], &write(mib));
    }
    let _under_way = all.loads.began(load, &write(mib));
    let wait = all.figures(load).wait;
    assert!((0.25..0.26).contains(&wait), "{wait}");
}

/// A StoC that has failed is avoided for ten seconds.
#[test]
fn failures_are_forgotten() {
    let all = Loads::new();
    let load = all.loads.add();
    let fail = |error| {
        let started = all.loads.began(load, &append(100));
        all.loads.ended(&started, &Err(error));
    };
    fail(stoc::Error::NoFile { name: NAME });
    assert_eq!(all.figures(load).standing, Standing::Ready);
    fail(stoc::Error::NoRoom { bytes: 100 });
    assert_eq!(all.figures(load).standing, Standing::Failed);
    all.clock.advance(AVOIDED - MS);
    assert_eq!(all.figures(load).standing, Standing::Failed);
    all.clock.advance(MS);
    assert_eq!(all.figures(load).standing, Standing::Ready);
}

/// A StoC that is slow for ten seconds gets nothing new until it was faster for 30 seconds.
#[test]
fn a_slow_stoc_rests() {
    let all = Loads::new();
    let stocs: [LoadId; 4] = all.add();
    let [first, .., slow] = stocs;
    let is_ready = |load: &LoadId| all.figures(*load).standing == Standing::Ready;
    let serve = |of_slow: Duration, time: Duration| {
        let latency = |load: LoadId| if load == slow { of_slow } else { 2 * MS };
        let round: Vec<_> = stocs.iter().map(|load| (*load, latency(*load))).collect();
        let until = all.loads.environment.now() + time;
        while all.loads.environment.now() < until {
            all.serve(&round, &append(100));
            all.clock.advance(100 * MS);
        }
    };
    serve(2 * MS, 10 * SECOND);
    assert!(stocs.iter().all(is_ready));
    // A latency of 2.5 times the median is not too long.
    serve(5 * MS, 20 * SECOND);
    assert_eq!(all.figures(slow).standing, Standing::Ready);
    serve(12 * MS, 9 * SECOND);
    assert_eq!(all.figures(slow).standing, Standing::Ready);
    serve(12 * MS, 4 * SECOND);
    assert_eq!(all.figures(slow).standing, Standing::Slow);
    assert!(stocs.iter().filter(|load| **load != slow).all(is_ready));
    // Its wait is longer by its score, which is six.
    let of = |load| {
        let started = all.loads.began(load, &write(1 << 20));
        let wait = all.figures(load).wait;
        all.end(&started);
        wait
    };
    let ratio = of(slow) / of(first);
    assert!((5.0..6.1).contains(&ratio), "{ratio}");
    serve(2 * MS, 29 * SECOND);
    assert_eq!(all.figures(slow).standing, Standing::Slow);
    serve(2 * MS, 5 * SECOND);
    assert_eq!(all.figures(slow).standing, Standing::Ready);
}

/// A StoC that does not reply is slow, although it has no latency.
#[test]
fn a_stoc_that_does_not_reply_is_slow() {
    let all = Loads::new();
    let [first, second, third] = all.add();
    let others = [(first, MS), (second, MS)];
    let _under_way = all.loads.began(third, &append(100));
    for _ in 0..120 {
        all.serve(&others, &append(100));
        all.clock.advance(100 * MS);
    }
    assert_eq!(all.figures(third).standing, Standing::Slow);
    assert_eq!(all.figures(first).standing, Standing::Ready);
}

/// Appends wait for syncs, so a StoC that has more of them than of reads is not slow. Neither are
/// StoCs whose latencies are all short, or whose samples are old.
#[test]
fn other_differences_do_not_make_a_stoc_slow() {
    let all = Loads::new();
    let stocs: [LoadId; 4] = all.add();
    let [first, second, third, fourth] = stocs;
    let is_ready = |load: &LoadId| all.figures(*load).standing == Standing::Ready;
    let with_logs = [(first, 20 * MS), (second, 20 * MS)];
    let readers: Vec<_> = stocs.iter().map(|load| (*load, MS)).collect();
    let short: Vec<_> = (1..).zip(&stocs).map(|(times, load)| (*load, MS * times / 8)).collect();
    for _ in 0..200 {
        all.serve(&with_logs, &append(100));
        all.serve(&readers, &read(4_096));
        // A long read has no latency of a small one.
        all.serve(&[(third, 50 * MS)], &read(1 << 20));
    }
    assert!(stocs.iter().all(is_ready));
    all.clock.advance(RECENT);
    for _ in 0..200 {
        all.serve(&short, &append(100));
        all.clock.advance(100 * MS);
    }
    assert!(stocs.iter().all(is_ready));
    // One sample that is too slow, and silence.
    all.serve(&[(fourth, 500 * MS)], &append(100));
    all.clock.advance(RECENT);
    assert_eq!(all.figures(fourth).standing, Standing::Ready);
    all.clock.advance(RECENT);
    assert_eq!(all.figures(fourth).standing, Standing::Ready);
}
