//! A read of a fragment's bytes from its copies, in turn.
//!
//! The next copy is asked when one has failed, or when its reply is late: a *hedged read*. The
//! first reply with the bytes counts.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use environment::Monotonic;
use stoc::{FileName, Link, Request, Response};
use sync::{Condvar, Mutex};

use crate::fragment::Fragment;
use crate::place::Failure;

/// The latest reads that the limit for the next ones follows from.
const SAMPLES: usize = 64;
/// The limit follows again after this many reads.
const RENEWED_AFTER: u64 = 16;
/// Bytes of a read that is hedged, at most: the time of longer ones is that of their bytes.
const HEDGED_BYTES_MAX: u64 = 64 << 10;
/// The shortest time after which another copy is asked.
const HEDGE_MIN: Duration = Duration::from_millis(1);

/// The latencies of the latest reads of tables that are hedged.
#[derive(Debug)]
pub(crate) struct Latencies {
    /// The limit of a call.
    slow: Duration,
    latest: Mutex<Latest>,
    /// Time after which a reply is late, in nanoseconds.
    late_after: AtomicU64,
}

#[derive(Debug)]
struct Latest {
    /// A ring.
    samples: [Duration; SAMPLES],
    count: u64,
}

/// Gets the outcome of a read.
pub(crate) type OnEnd = Box<dyn FnOnce(Result<Vec<u8>, Failure>) + Send>;

/// A read that is under way.
pub(crate) struct Reading {
    fragment: Arc<Fragment>,
    offset: u64,
    bytes: u64,
    state: Mutex<State>,
}

struct State {
    /// The copies that have not been asked.
    rest: VecDeque<(Arc<dyn Link>, FileName)>,
    /// Requests without a reply.
    pending: usize,
    /// The time of the last request.
    asked: Monotonic,
    failure: Failure,
    /// None once the read has ended.
    on_end: Option<OnEnd>,
}

/// The outcome that a thread waits for.
#[derive(Default)]
struct Outcome {
    reply: Mutex<Option<Result<Vec<u8>, Failure>>>,
    changed: Condvar,
}

impl Latencies {
    /// Returns latencies without a sample: a reply is late after a tenth of the limit of a call.
    pub(crate) fn new(slow: Duration) -> Self {
        let latest = Latest { samples: [Duration::ZERO; SAMPLES], count: 0 };
        let late_after = AtomicU64::new((slow / 10).max(HEDGE_MIN).as_nanos() as u64);
        Self { slow, latest: Mutex::new(latest), late_after }
    }

    /// Notes the time that a reply with `bytes` bytes took.
    fn note(&self, bytes: u64, took: Duration) {
        if bytes > HEDGED_BYTES_MAX {
            return;
        }
        let mut latest = self.latest.lock();
        let at = (latest.count % SAMPLES as u64) as usize;
        latest.samples.iter_mut().skip(at).take(1).for_each(|sample| *sample = took);
        latest.count += 1;
        if latest.count >= SAMPLES as u64 && latest.count.is_multiple_of(RENEWED_AFTER) {
            let mut sorted = latest.samples;
            sorted.sort_unstable();
            let p95 = sorted.iter().rev().nth(SAMPLES / 20).copied().unwrap_or_default();
            let late_after = (p95 * 3 / 2).max(HEDGE_MIN);
            self.late_after.store(late_after.as_nanos() as u64, Relaxed);
        }
    }

    /// Returns the time after which the reply to a read is late: 1.5 times the 95th percentile, or
    /// the limit of a call if the read is not hedged.
    pub(crate) fn late_after(&self, bytes: u64) -> Duration {
        match bytes > HEDGED_BYTES_MAX {
            true => self.slow,
            false => Duration::from_nanos(self.late_after.load(Relaxed)).min(self.slow),
        }
    }
}

impl Reading {
    /// Begins a read. `on_end` is called once, maybe within this call.
    pub(crate) fn begin(
        fragment: &Arc<Fragment>,
        offset: u64,
        bytes: u64,
        on_end: OnEnd,
    ) -> Arc<Self> {
        let state = State {
            rest: fragment.links().into(),
            pending: 0,
            asked: fragment.place.environment.now(),
            failure: Failure::Unavailable,
            on_end: Some(on_end),
        };
        let (fragment, state) = (Arc::clone(fragment), Mutex::new(state));
        let reading = Arc::new(Self { fragment, offset, bytes, state });
        reading.ask();
        reading
    }

    /// Asks the next copy. Ends the read with its failure if there is none, and no reply to wait
    /// for.
    fn ask(self: &Arc<Self>) {
        let now = self.fragment.place.environment.now();
        let mut state = self.state.lock();
        let Some((link, name)) = state.rest.pop_front() else {
            let is_last = state.pending == 0;
            let on_end = if is_last { state.on_end.take() } else { None };
            let failure = state.failure.clone();
            drop(state);
            return Self::end(on_end, Err(failure));
        };
        state.pending += 1;
        state.asked = now;
        drop(state);
        let reading = Arc::clone(self);
        let request = Request::Read { name, offset: self.offset, bytes: self.bytes };
        link.send(request, Box::new(move |reply| reading.on_reply(&name, now, reply)));
    }

    fn on_reply(self: Arc<Self>, name: &FileName, asked: Monotonic, reply: stoc::Result<Response>) {
        let place = &self.fragment.place;
        let failure = match reply {
            Ok(Response::Bytes(read)) if read.len() as u64 == self.bytes => {
                place.latencies.note(self.bytes, place.environment.now() - asked);
                let on_end = {
                    let mut state = self.state.lock();
                    state.pending -= 1;
                    state.on_end.take()
                };
                return Self::end(on_end, Ok(read));
            }
            Ok(_) => Failure::Unavailable,
            Err(error) => self.fragment.note_error(name, error),
        };
        let mut state = self.state.lock();
        state.pending -= 1;
        if let Failure::Damaged(_) = failure {
            state.failure = failure;
        }
        let has_ended = state.on_end.is_none();
        drop(state);
        if !has_ended {
            self.ask();
        }
    }

    /// Returns the time after which the reply of a copy is late.
    pub(crate) fn late_after(&self) -> Duration {
        self.fragment.place.latencies.late_after(self.bytes)
    }

    fn end(on_end: Option<OnEnd>, outcome: Result<Vec<u8>, Failure>) {
        if let Some(on_end) = on_end {
            on_end(outcome);
        }
    }

    /// Asks another copy if the last one has not replied for `late_after`. Returns the time until
    /// the next look, and none if the read has ended or no copy is left.
    pub(crate) fn look(self: &Arc<Self>, late_after: Duration) -> Option<Duration> {
        let waited = {
            let state = self.state.lock();
            if state.on_end.is_none() || state.rest.is_empty() {
                return None;
            }
            self.fragment.place.environment.now() - state.asked
        };
        if waited < late_after {
            return Some(late_after - waited);
        }
        self.ask();
        Some(late_after)
    }

    /// Ends the read, if no copy is left and the last request was sent `slow` ago. Returns the time
    /// that is left.
    fn give_up(&self, slow: Duration) -> Duration {
        let mut state = self.state.lock();
        let waited = self.fragment.place.environment.now() - state.asked;
        if waited < slow {
            return slow - waited;
        }
        if state.rest.is_empty() {
            let (on_end, failure) = (state.on_end.take(), state.failure.clone());
            drop(state);
            Self::end(on_end, Err(failure));
        }
        Duration::ZERO
    }

    /// Reads bytes of a fragment, and waits for them. Another copy is asked after `late_after`. For
    /// the last one it waits no longer than the limit of a call.
    ///
    /// # Errors
    /// No copy has the bytes.
    pub(crate) fn wait(
        fragment: &Arc<Fragment>,
        (offset, bytes): (u64, u64),
        late_after: Duration,
    ) -> Result<Vec<u8>, Failure> {
        let outcome: Arc<Outcome> = Arc::default();
        let ended = Arc::clone(&outcome);
        let on_end = move |reply| {
            *ended.reply.lock() = Some(reply);
            ended.changed.notify_all();
        };
        let reading = Self::begin(fragment, offset, bytes, Box::new(on_end));
        let slow = fragment.place.slow;
        loop {
            let left = reading.look(late_after).unwrap_or_else(|| reading.give_up(slow));
            let mut reply = outcome.reply.lock();
            if let Some(reply) = reply.take() {
                return reply;
            }
            outcome.changed.wait_for(&mut reply, left.min(slow));
        }
    }
}
