//! Operations as one line of text each.

use std::fmt;
use std::ops::Bound;

use engine::{Direction, KeyRange};

use super::{Operation, Step, Tweak};
use crate::text::Quoted;

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Put { key, value } => write!(f, "put {} {}", Quoted(key), Quoted(value)),
            Self::Delete { key } => write!(f, "delete {}", Quoted(key)),
            Self::DeleteRange { start, end: Some(end) } => {
                write!(f, "delete-range {} {}", Quoted(start), Quoted(end))
            }
            Self::DeleteRange { start, end: None } => write!(f, "delete-from {}", Quoted(start)),
        }
    }
}

/// A range as `[.. "b")`.
struct Span<'a>(&'a KeyRange);

impl fmt::Display for Span<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.start {
            Bound::Included(key) => write!(f, "[{} ..", Quoted(key))?,
            Bound::Excluded(key) => write!(f, "({} ..", Quoted(key))?,
            Bound::Unbounded => write!(f, "[..")?,
        }
        match &self.0.end {
            Bound::Included(key) => write!(f, " {}]", Quoted(key)),
            Bound::Excluded(key) => write!(f, " {})", Quoted(key)),
            Bound::Unbounded => write!(f, "]"),
        }
    }
}

fn way(direction: Direction) -> &'static str {
    match direction {
        Direction::Forward => "forward",
        Direction::Backward => "backward",
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(steps) => {
                write!(f, "write")?;
                for (index, step) in steps.iter().enumerate() {
                    write!(f, "{} {step}", if index == 0 { "" } else { "," })?;
                }
                Ok(())
            }
            Self::Ingest { pairs } => {
                write!(f, "ingest")?;
                let mut pairs = pairs.iter();
                pairs.try_for_each(|(key, value)| write!(f, " {} {}", Quoted(key), Quoted(value)))
            }
            Self::Rmw { key, tweak } => match tweak {
                Tweak::Append(more) => write!(f, "rmw {} append {}", Quoted(key), Quoted(more)),
                Tweak::Invert => write!(f, "rmw {} invert", Quoted(key)),
                Tweak::Remove => write!(f, "rmw {} remove", Quoted(key)),
                Tweak::Keep => write!(f, "rmw {} keep", Quoted(key)),
            },
            Self::Get { key } => write!(f, "get {}", Quoted(key)),
            Self::MultiGet { keys } => {
                write!(f, "multi-get")?;
                keys.iter().try_for_each(|key| write!(f, " {}", Quoted(key)))
            }
            Self::Scan { range, direction } => {
                write!(f, "scan {} {}", way(*direction), Span(range))
            }
            Self::Pin { slot } => write!(f, "pin {slot}"),
            Self::Unpin { slot } => write!(f, "unpin {slot}"),
            Self::ViewGet { slot, key } => write!(f, "view-get {slot} {}", Quoted(key)),
            Self::ViewScan { slot, range, direction } => {
                write!(f, "view-scan {slot} {} {}", way(*direction), Span(range))
            }
            Self::Cursor { slot, range, direction } => {
                write!(f, "cursor {slot} {} {}", way(*direction), Span(range))
            }
            Self::Advance { slot, pairs } => write!(f, "advance {slot} {pairs}"),
            Self::Sync => write!(f, "sync"),
            Self::Flush => write!(f, "flush"),
            Self::Checkpoint => write!(f, "checkpoint"),
            Self::Reopen => write!(f, "reopen"),
            Self::LoseTail => write!(f, "lose-tail"),
            Self::Refusals => write!(f, "refusals"),
        }
    }
}
