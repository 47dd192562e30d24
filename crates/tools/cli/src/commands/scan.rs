//! `thermocline scan`: pairs in key order, one a line: key, tab, value.
//!
//! A keyspace that keeps no order is walked over in the order of its engine: all of it, also for
//! those keys that begin with a prefix. A range or a direction of it make no sense and are refused.

use std::ops::ControlFlow::{self, Break, Continue};

use serde_json::json;
use thermocline::{Direction, Keyspace};

use super::{Context, walk};
use crate::arguments::Scan;
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::value_form::Shown;

pub(super) fn run(context: &Context, arguments: &Scan) -> Outcome {
    let range = arguments.span.range(arguments.place.encoding)?;
    let direction = if arguments.reverse { Direction::Backward } else { Direction::Forward };
    let limit = arguments.limit.unwrap_or(u64::MAX);
    let mut lines = Lines::default();
    let scanned = context.reading(&arguments.database.dir, |db| {
        let (keyspace, form) = arguments.place.existing(db)?;
        let mut printed = 0;
        let mut print = |key: &[u8], stored: &[u8]| -> Result<ControlFlow<()>, Failure> {
            let shown = form.show(stored).map_err(|why| arguments.place.unreadable(key, &why))?;
            if let Some(value) = shown {
                printed += 1;
                lines.push(line(context, arguments, key, value))?;
            }
            Ok(if printed < limit { Continue(()) } else { Break(()) })
        };
        if limit == 0 {
            return Ok(());
        }
        if !keyspace.is_ordered() {
            let prefix = prefix_alone(arguments, &keyspace)?;
            return walk(&keyspace, |key, stored| match key.starts_with(&prefix) {
                true => print(key, stored),
                false => Ok(Continue(())),
            });
        }
        let mut scan = keyspace.scan_in(range, direction)?;
        while let Some((key, stored)) = scan.next_ref()? {
            if print(key, stored)? == Break(()) {
                break;
            }
        }
        Ok(())
    });
    // Pairs that were found before a failure are shown before it.
    lines.finish()?;
    scanned
}

/// Returns the prefix that chooses the keys of a keyspace without order.
fn prefix_alone(arguments: &Scan, keyspace: &Keyspace) -> Result<Vec<u8>, Failure> {
    let span = &arguments.span;
    if span.start.is_some() || span.end.is_some() || arguments.reverse {
        return Err(Failure::usage(format_args!(
            "keyspace {:?} is stored by engine {}, which keeps no order: --start, --end and \
             --reverse have no meaning there; --prefix and --limit do",
            arguments.place.keyspace,
            keyspace.options().engine
        )));
    }
    match &span.prefix {
        Some(prefix) => arguments.place.bytes("--prefix", prefix),
        None => Ok(Vec::new()),
    }
}

/// One pair as a line.
fn line(context: &Context, arguments: &Scan, key: &[u8], value: Shown<'_>) -> String {
    let encoding = arguments.place.encoding;
    let key = encoding.show(key);
    if !context.shared.json {
        let value = (!arguments.keys_only).then(|| format!("\t{}", encoding.show(value.bytes)));
        return key + &value.unwrap_or_default();
    }
    let mut pair = json!({ "key": key });
    if !arguments.keys_only {
        pair["value"] = encoding.show(value.bytes).into();
        if let Some(expires_ms) = value.expires_ms {
            pair["expires_ms"] = expires_ms.into();
        }
    }
    pair.to_string()
}

/// Lines gathered to blocks, so that a long scan does not pay a system call for each.
#[derive(Default)]
struct Lines(Vec<u8>);

impl Lines {
    fn push(&mut self, line: String) -> Outcome {
        self.0.extend_from_slice(line.as_bytes());
        self.0.push(b'\n');
        if self.0.len() < 64 << 10 {
            return Ok(());
        }
        output::bytes(&std::mem::take(&mut self.0))
    }

    fn finish(self) -> Outcome {
        output::bytes(&self.0)
    }
}
