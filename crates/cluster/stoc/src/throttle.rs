//! A throttle for measurements: a StoC that is as slow as one disk.
//!
//! The disk serves one request at a time, in the order in which the requests arrive. A request
//! occupies it for the time of an operation and the time of its bytes.

use std::num::NonZeroU64;
use std::time::Duration;

use environment::{Environment, Monotonic};
use sync::Mutex;

use crate::request::Request;

/// The disk that a throttled StoC seems to have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThrottleOptions {
    /// Bytes that the disk reads or writes in a second. If there is none, bytes take no time.
    pub bytes_per_s: Option<NonZeroU64>,
    /// Time of an operation without its bytes.
    pub operation: Duration,
}

/// A disk that makes requests wait.
#[derive(Debug)]
pub struct Throttle {
    options: ThrottleOptions,
    /// The time at which the disk has served all requests so far.
    free_at: Mutex<Monotonic>,
    environment: Environment,
}

impl ThrottleOptions {
    /// Returns the time for which a request occupies the disk; none if the request needs no disk.
    fn time_of(&self, request: &Request) -> Option<Duration> {
        let bytes = match request {
            Request::Append { start: None, bytes, .. } | Request::Write { bytes, .. } => {
                bytes.len() as u64
            }
            Request::Read { bytes, .. } => *bytes,
            Request::CreateLog { in_memory: false, .. }
            | Request::CreateTable { .. }
            | Request::Finish { .. }
            | Request::Seal { .. } => 0,
            Request::Append { start: Some(_), .. }
            | Request::CreateLog { in_memory: true, .. }
            | Request::Fence { .. }
            | Request::AddReferences { .. }
            | Request::Release { .. }
            | Request::List { .. }
            | Request::Verify { .. }
            | Request::Stats => return None,
        };
        let of_bytes = self.bytes_per_s.map_or(Duration::ZERO, |rate| {
            let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate.get());
            Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
        });
        Some(self.operation.saturating_add(of_bytes))
    }
}

impl Throttle {
    /// Returns a disk that is free.
    pub fn new(options: ThrottleOptions, environment: &Environment) -> Self {
        let free_at = Mutex::new(environment.now());
        Self { options, free_at, environment: environment.clone() }
    }

    /// Waits until the disk has served `request`, and the requests before it.
    pub(crate) fn wait(&self, request: &Request) {
        if let Some(time) = self.options.time_of(request) {
            self.environment.sleep(self.enqueue(time));
        }
    }

    /// Occupies the disk for `time`, after the requests before. Returns the time until then.
    fn enqueue(&self, time: Duration) -> Duration {
        let mut free_at = self.free_at.lock();
        let now = self.environment.now();
        *free_at = now.max(*free_at) + time;
        *free_at - now
    }
}

#[cfg(test)]
mod tests;
