//! The plan against a log that is simulated by its figures alone.

use std::time::Duration;

use super::{Failed, Figures, plan};
use crate::address::LogAddress;
use crate::hybrid_log::Geometry;

const SEGMENT: u64 = 1 << 20;

fn geometry() -> Geometry {
    Geometry::new(1 << 16, SEGMENT, 8, 0.9)
}

/// A log in which of every byte that is read `live` of a byte is alive.
struct Log {
    begin: u64,
    tail: u64,
    appended: u64,
    live_share: f64,
    rounds: u64,
}

impl Log {
    fn new() -> Self {
        Self { begin: 0, tail: 0, appended: 0, live_share: 0.0, rounds: 0 }
    }

    fn append(&mut self, bytes: u64, live: f64, disk_bytes_max: Option<u64>) {
        self.tail += bytes;
        self.appended += bytes;
        // As the background does it: one round at a time, again and again.
        for _ in 0..1000 {
            let figures = Figures {
                begin: LogAddress::new(self.begin),
                flushed: LogAddress::new(self.tail),
                tail: LogAddress::new(self.tail),
                bytes: self.tail - self.begin,
                appended: self.appended,
                live_share: self.live_share,
                dead_share: None,
                failed: None,
            };
            let Some(until) = plan(&figures, disk_bytes_max, &geometry()) else { return };
            self.tail += ((until.get() - self.begin) as f64 * live) as u64;
            self.begin = until.get();
            (self.appended, self.live_share) = (0, live);
            self.rounds += 1;
        }
        panic!("compaction runs for its own sake");
    }
}

#[test]
fn a_log_without_a_budget_is_compacted_too() {
    let mut log = Log::new();
    for _ in 0..2000 {
        log.append(SEGMENT / 4, 0.4, None);
    }
    assert!(log.rounds > 10);
    let bytes = log.tail - log.begin;
    assert!(bytes < 40 * SEGMENT, "{} segments after 500 were appended", bytes / SEGMENT);
}

#[test]
fn a_log_in_which_everything_lives_is_left_alone_while_nobody_appends() {
    for disk_bytes_max in [None, Some(10 * SEGMENT)] {
        let mut log = Log::new();
        for _ in 0..400 {
            log.append(SEGMENT / 4, 1.0, disk_bytes_max);
        }
        let rounds = log.rounds;
        log.append(0, 1.0, disk_bytes_max);
        assert_eq!(log.rounds, rounds, "{disk_bytes_max:?}");
    }
}

#[test]
fn a_budget_is_kept_while_there_is_something_dead() {
    let mut log = Log::new();
    for _ in 0..2000 {
        log.append(SEGMENT / 4, 0.3, Some(20 * SEGMENT));
        assert!(log.tail - log.begin <= 20 * SEGMENT);
    }
}

#[test]
fn only_what_is_on_disk_is_compacted() {
    let figures = Figures {
        begin: LogAddress::new(0),
        flushed: LogAddress::new(SEGMENT - 1),
        tail: LogAddress::new(100 * SEGMENT),
        bytes: 100 * SEGMENT,
        appended: 100 * SEGMENT,
        live_share: 0.0,
        dead_share: None,
        failed: None,
    };
    assert_eq!(plan(&figures, None, &geometry()), None);
}

#[test]
fn a_log_that_is_known_to_live_is_left_alone() {
    let figures = |dead_share| Figures {
        begin: LogAddress::new(0),
        flushed: LogAddress::new(100 * SEGMENT),
        tail: LogAddress::new(100 * SEGMENT),
        bytes: 100 * SEGMENT,
        appended: 100 * SEGMENT,
        live_share: 0.0,
        dead_share,
        failed: None,
    };
    assert_eq!(plan(&figures(Some(0.1)), None, &geometry()), None);
    assert!(plan(&figures(Some(0.2)), None, &geometry()).is_some());
    let budget = |segments| Some(segments * SEGMENT);
    assert!(plan(&figures(Some(0.1)), budget(110), &geometry()).is_some(), "its budget is used up");
    assert_eq!(plan(&figures(Some(0.1)), budget(130), &geometry()), None, "it is not");
    assert_eq!(
        plan(&figures(Some(0.01)), budget(100), &geometry()),
        None,
        "nothing would be gained"
    );
}

#[test]
fn what_has_failed_is_tried_again_later_each_time() {
    let is_due = |rounds, appended, elapsed_ms| {
        let figures = Figures {
            begin: LogAddress::new(0),
            flushed: LogAddress::new(100 * SEGMENT),
            tail: LogAddress::new(100 * SEGMENT),
            bytes: 100 * SEGMENT,
            appended: 100 * SEGMENT,
            live_share: 0.0,
            dead_share: None,
            failed: Some(Failed { rounds, appended, elapsed: Duration::from_millis(elapsed_ms) }),
        };
        plan(&figures, Some(100 * SEGMENT), &geometry()).is_some()
    };
    assert!(!is_due(1, 2 * SEGMENT - 1, 999));
    assert!(is_due(1, 2 * SEGMENT, 0));
    assert!(is_due(1, 0, 1000));
    assert!(!is_due(3, 8 * SEGMENT - 1, 3999));
    assert!(is_due(3, 8 * SEGMENT, 0));
    assert!(is_due(3, 0, 4000));
    for rounds in [6, 1000, u64::MAX] {
        assert!(!is_due(rounds, 64 * SEGMENT - 1, 31_999));
        assert!(is_due(rounds, 64 * SEGMENT, 0));
        assert!(is_due(rounds, 0, 32_000));
    }
}
