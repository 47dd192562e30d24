//! `thermocline backup`: adds a backup of a database to a directory of them.
//!
//! The command opens the database, so no other process may have it open; a program that has it open
//! makes its backups itself.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use environment::Environment;
use serde_json::{Value, json};
use thermocline::{Backup, Backups, Progress, Stage};

use super::Context;
use crate::arguments;
use crate::failure::{Failure, Outcome};
use crate::output::{self, Line, human_bytes};

/// Time between two updates of the progress line.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

pub(super) fn run(context: &Context, arguments: &arguments::Backup) -> Outcome {
    let made = context.copying(&arguments.database.dir, |db| {
        let backups = Backups::open(&arguments.backups)?;
        let made = followed(context, |progress| db.backup(&backups, progress))?;
        if let Some(count) = arguments.keep {
            backups.keep(count as usize)?;
        }
        Ok(made)
    })?;
    if context.shared.json {
        return output::json_line(&as_json(&made));
    }
    if !context.shared.quiet {
        eprintln!("made {}", shown(&made));
    }
    Ok(())
}

/// Does long work whose progress is shown meanwhile.
pub(super) fn followed<T>(
    context: &Context,
    work: impl FnOnce(&Progress) -> thermocline::Result<T>,
) -> Result<T, Failure> {
    let progress = Arc::new(Progress::default());
    let hidden = context.shared.quiet || context.shared.json;
    let (over, is_over) = mpsc::channel();
    let (line, followed) = (Line::of_bytes(hidden), Arc::clone(&progress));
    let following = Environment::real()
        .spawn("progress", move || follow(&line, &followed, &is_over))
        .map_err(|error| Failure::io("a thread for the progress", &error))?;
    let outcome = work(&progress);
    drop(over);
    // It ends once the sender is dropped.
    let _ = following.join();
    Ok(outcome?)
}

fn follow(line: &Line, progress: &Progress, is_over: &Receiver<()>) {
    while is_over.recv_timeout(LOOK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        let (stage, bytes, total_bytes) = progress.now();
        let what = match stage {
            Stage::Waiting => continue,
            Stage::Copying => "copying",
            Stage::Summing => "making and comparing checksums",
            Stage::Verifying => "verifying",
        };
        line.at(what, bytes, total_bytes);
    }
    line.clear();
}

/// A backup for a person.
pub(super) fn shown(backup: &Backup) -> String {
    let Backup { number, keyspaces, files, bytes, shared_bytes, newest, .. } = backup;
    let (bytes, shared) = (human_bytes(*bytes), human_bytes(*shared_bytes));
    format!(
        "backup {number}: {keyspaces} keyspaces, {files} files, {bytes}, {shared} of it shared with the \
         one before, every write up to {newest}"
    )
}

pub(super) fn as_json(backup: &Backup) -> Value {
    json!({
        "backup": backup.number,
        "made_at_ms": backup.made_at_ms,
        "newest_seqno": backup.newest.get(),
        "keyspaces": backup.keyspaces,
        "files": backup.files,
        "bytes": backup.bytes,
        "shared_bytes": backup.shared_bytes,
    })
}
