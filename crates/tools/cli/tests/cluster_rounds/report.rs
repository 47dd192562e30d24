//! The figures of a run: for each kind of fault its rounds, and the longest time without a reply.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::clients::Keys;
use crate::fault::Fault;
use crate::history::Event;

/// The longest times in which no operation was acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gaps {
    /// No operation on any key.
    pub(crate) of_all: Duration,
    /// No operation on the keys of one range.
    pub(crate) of_range: Duration,
}

/// The figures of one kind of fault.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    rounds: u64,
    gaps: Gaps,
}

/// The figures of all rounds.
#[derive(Debug, Default)]
pub(crate) struct Report {
    rows: BTreeMap<Fault, Row>,
    acknowledged: u64,
    /// Operations that may or may not have happened.
    unknown: u64,
    errors: BTreeMap<String, u64>,
}

impl Gaps {
    /// Returns the longest times between `begin` and `end`.
    pub(crate) fn of(events: &[Event], (begin, end): (u64, u64)) -> Self {
        let replies = |range: Option<usize>| {
            let wanted = events
                .iter()
                .filter(move |event| range.is_none_or(|range| Keys::range(event.key) == range));
            let mut times: Vec<u64> = wanted.filter_map(|event| event.returned).collect();
            times.retain(|time| (begin..end).contains(time));
            times.extend([begin, end]);
            times.sort_unstable();
            times
        };
        let ranges = events.iter().map(|event| Keys::range(event.key)).max();
        let of_ranges = (0..=ranges.unwrap_or(0)).map(|range| longest(&replies(Some(range))));
        Self { of_all: longest(&replies(None)), of_range: of_ranges.max().unwrap_or_default() }
    }
}

/// Returns the longest time between two neighbours.
fn longest(times: &[u64]) -> Duration {
    let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
    Duration::from_nanos(gaps.max().unwrap_or(0))
}

impl Report {
    /// Adds a round.
    pub(crate) fn add(
        &mut self,
        fault: Fault,
        gaps: Gaps,
        (events, errors): (&[Event], &BTreeMap<String, u64>),
    ) {
        let row = self.rows.entry(fault).or_default();
        row.rounds += 1;
        row.gaps.of_all = row.gaps.of_all.max(gaps.of_all);
        row.gaps.of_range = row.gaps.of_range.max(gaps.of_range);
        let unknown = events.iter().filter(|event| event.returned.is_none()).count() as u64;
        self.unknown += unknown;
        self.acknowledged += events.len() as u64 - unknown;
        for (text, count) in errors {
            *self.errors.entry(text.clone()).or_default() += count;
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rows, acknowledged, unknown, errors } = self;
        writeln!(f, "{acknowledged} operations acknowledged, {unknown} of unknown outcome")?;
        for (text, count) in errors {
            writeln!(f, "clients saw {count} times: {text}")?;
        }
        writeln!(
            f,
            "the longest time without an acknowledged operation, of all keys and of a range:"
        )?;
        writeln!(f, "{:<32} {:>7} {:>10} {:>10}", "fault", "rounds", "all keys", "a range")?;
        for (fault, Row { rounds, gaps }) in rows {
            let [of_all, of_range] = [gaps.of_all, gaps.of_range].map(|gap| gap.as_secs_f64());
            let fault = fault.to_string();
            writeln!(f, "{fault:<32} {rounds:>7} {of_all:>8.1} s {of_range:>8.1} s")?;
        }
        Ok(())
    }
}
