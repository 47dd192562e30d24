//! `thermocline compact`: rewrites files so that nothing that was deleted or overwritten takes
//! space in them.
//!
//! Prints the bytes on disk before and after. A range of keys belongs to one keyspace, which keeps
//! an order.

use serde_json::json;

use super::{Context, chosen};
use crate::arguments::Compact;
use crate::failure::{Failure, Outcome};
use crate::output::{self, human_bytes};

pub(super) fn run(context: &Context, arguments: &Compact) -> Outcome {
    let range = arguments.span.range(arguments.encoding)?;
    if arguments.keyspace.is_none() && !range.is_all() {
        return Err(Failure::usage(
            "--start, --end and --prefix are keys of one keyspace: --keyspace says which",
        ));
    }
    let (names, before, after) = context.with_database(&arguments.database.dir, false, |db| {
        let before = db.stats().disk_bytes();
        let keyspaces = chosen(db, arguments.keyspace.as_deref())?;
        for keyspace in &keyspaces {
            if !keyspace.is_ordered() && !range.is_all() {
                return Err(Failure::usage(format_args!(
                    "keyspace {:?} is stored by engine {}, which keeps no order: it is compacted as a whole, \
                     without --start, --end and --prefix",
                    keyspace.name(),
                    keyspace.options().engine
                )));
            }
            keyspace.compact_range(&range)?;
        }
        let names: Vec<_> = keyspaces.iter().map(|one| one.name().to_owned()).collect();
        Ok((names, before, db.stats().disk_bytes()))
    })?;
    if context.shared.json {
        return output::json_line(&json!({
            "compacted": names,
            "disk_bytes_before": before,
            "disk_bytes": after,
        }));
    }
    if context.shared.quiet {
        return Ok(());
    }
    output::line(&format!("{} on disk, {} before", human_bytes(after), human_bytes(before)))
}
