//! `thermocline scan`: pairs in key order, one a line: key, tab, value.

use std::fmt::Display;
use std::io::Write;
use std::ops::Bound;

use serde_json::json;
use thermocline::{Direction, KeyRange};

use super::Context;
use crate::arguments::Scan;
use crate::failure::{Failure, Outcome};
use crate::output;

pub(super) fn run(context: &Context, arguments: &Scan) -> Outcome {
    let range = range(arguments)?;
    let direction = if arguments.reverse { Direction::Backward } else { Direction::Forward };
    let limit = arguments.limit.unwrap_or(u64::MAX);
    let mut lines = Lines::default();
    context.with_database(&arguments.database.dir, false, |db| {
        let keyspace = arguments.place.existing(db)?;
        let mut scan = keyspace.scan_in(range, direction)?;
        let mut printed = 0;
        while printed < limit
            && let Some((key, value)) = scan.next_ref()?
        {
            printed += 1;
            let encoding = arguments.place.encoding;
            let key = encoding.show(key);
            match (context.shared.json, arguments.keys_only) {
                (false, true) => lines.push(key)?,
                (false, false) => lines.push(format_args!("{key}\t{}", encoding.show(value)))?,
                (true, true) => lines.push(json!({ "key": key }))?,
                (true, false) => {
                    lines.push(json!({ "key": key, "value": encoding.show(value) }))?;
                }
            }
        }
        Ok(())
    })?;
    lines.finish()
}

fn range(arguments: &Scan) -> Result<KeyRange, Failure> {
    let place = &arguments.place;
    if let Some(prefix) = &arguments.prefix {
        return Ok(KeyRange::prefix(&place.bytes("--prefix", prefix)?));
    }
    let start = match &arguments.start {
        Some(key) => Bound::Included(place.bytes("--start", key)?),
        None => Bound::Unbounded,
    };
    let end = match &arguments.end {
        Some(key) => Bound::Excluded(place.bytes("--end", key)?),
        None => Bound::Unbounded,
    };
    Ok(KeyRange { start, end })
}

/// Lines gathered to blocks, so that a long scan does not pay a system call for each.
#[derive(Default)]
struct Lines(Vec<u8>);

impl Lines {
    fn push(&mut self, line: impl Display) -> Outcome {
        let _ = writeln!(self.0, "{line}");
        if self.0.len() < 64 << 10 {
            return Ok(());
        }
        output::bytes(&std::mem::take(&mut self.0))
    }

    fn finish(self) -> Outcome {
        output::bytes(&self.0)
    }
}
