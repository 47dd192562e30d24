//! Times of the requests of a throttled StoC, by a clock that the test moves.

use std::sync::Arc;

use environment::ManualClock;

use super::*;
use crate::{Epoch, FileName, Kind, RangeId};

const MILLISECOND: Duration = Duration::from_millis(1);

/// A disk of 4 MB/s and 2 ms an operation, and its clock.
fn disk() -> (Throttle, Arc<ManualClock>) {
    let (environment, clock) = Environment::simulated(1);
    let options =
        ThrottleOptions { bytes_per_s: NonZeroU64::new(4_000_000), operation: 2 * MILLISECOND };
    (Throttle::new(options, &environment), clock)
}

fn name() -> FileName {
    FileName { range: RangeId(1), kind: Kind::Data, number: 1, nonce: 1, part: 0 }
}

/// A request of each kind, with 40,000 bytes if it has any.
fn requests() -> Vec<(Request, bool)> {
    let (name, epoch, range) = (name(), Epoch(1), RangeId(1));
    let bytes: Arc<[u8]> = vec![0; 40_000].into();
    let length = 40_000;
    vec![
        (Request::Append { name, epoch, start: None, offset: 0, bytes: Arc::clone(&bytes) }, true),
        (Request::Write { name, epoch, offset: 0, bytes: Arc::clone(&bytes) }, true),
        (Request::Read { name, offset: 0, bytes: length }, true),
        (Request::CreateLog { name, epoch, in_memory: false }, false),
        (Request::CreateTable { name, epoch, stripe: 0 }, false),
        (Request::Finish { name, epoch, length }, false),
        (Request::Seal { name, epoch, length }, false),
        // A log in memory needs no disk.
        (Request::Append { name, epoch, start: Some(1), offset: 0, bytes }, true),
        (Request::CreateLog { name, epoch, in_memory: true }, false),
        (Request::Fence { range, epoch }, false),
        (Request::AddReferences { range, epoch, others: Vec::new() }, false),
        (Request::Release { name, by: range, epoch }, false),
        (Request::List { range }, false),
        (Request::Verify { name }, false),
        (Request::Stats, false),
    ]
}

/// An operation takes 2 ms, and 40,000 bytes take 10 ms more.
#[test]
fn requests_take_the_time_of_an_operation_and_of_their_bytes() {
    let (throttle, _) = disk();
    let counted = requests().into_iter().take(7);
    for (request, has_bytes) in counted {
        let expected = if has_bytes { 12 } else { 2 };
        let time = throttle.options.time_of(&request);
        assert_eq!(time, Some(expected * MILLISECOND), "{request:?}");
    }
    for (request, _) in requests().into_iter().skip(7) {
        assert_eq!(throttle.options.time_of(&request), None, "{request:?}");
    }
    let without_rate = ThrottleOptions { bytes_per_s: None, ..throttle.options };
    let all = requests();
    let (append, _) = all.first().expect("there are some");
    assert_eq!(without_rate.time_of(append), Some(2 * MILLISECOND));
}

/// Requests that arrive together are served one by one. An idle disk saves no time for later.
#[test]
fn requests_wait_for_the_ones_before() {
    let (throttle, clock) = disk();
    let waits: Vec<_> = (0..3).map(|_| throttle.enqueue(12 * MILLISECOND)).collect();
    assert_eq!(waits, [12, 24, 36].map(|count| count * MILLISECOND));
    clock.advance(30 * MILLISECOND);
    assert_eq!(throttle.enqueue(2 * MILLISECOND), 8 * MILLISECOND);
    clock.advance(Duration::from_secs(1));
    assert_eq!(throttle.enqueue(2 * MILLISECOND), 2 * MILLISECOND);
}
