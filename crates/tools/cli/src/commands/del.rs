//! `thermocline del`: deletes keys in one batch and says how many there were.

use std::collections::BTreeSet;

use serde_json::json;
use thermocline::Batch;

use super::{Context, not_found};
use crate::arguments::Del;
use crate::failure::Outcome;
use crate::output;

pub(super) fn run(context: &Context, arguments: &Del) -> Outcome {
    let place = &arguments.place;
    // Given twice, it counts once.
    let keys = arguments.keys.iter().map(|key| place.bytes("KEY", key));
    let keys = keys.collect::<Result<BTreeSet<_>, _>>()?;
    let deleted = context.with_database(&arguments.database.dir, false, |db| {
        let (keyspace, form) = place.existing(db)?;
        let mut batch = Batch::new();
        let mut deleted = 0_u64;
        for key in &keys {
            // The only opener is this process, and it has one thread: the value that is read stays
            // true.
            let stored = keyspace.get(key)?;
            // One that is damaged is there, and deleting it is one way to mend it.
            deleted += u64::from(stored.is_some_and(|stored| form.show(&stored) != Ok(None)));
            batch.delete(&keyspace, key);
        }
        db.write(&batch)?;
        Ok(deleted)
    })?;
    if context.shared.json {
        output::json_line(&json!({ "deleted": deleted }))?;
    }
    if deleted == 0 {
        let none = format_args!("keyspace {:?} has none of these keys", place.keyspace);
        return Err(not_found(none));
    }
    Ok(())
}
