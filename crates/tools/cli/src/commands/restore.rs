//! `thermocline restore`: a new database from a backup, verified before it is one.

use thermocline::{Backups, Error};

use super::{Context, backup};
use crate::arguments::Restore;
use crate::failure::Outcome;
use crate::output;

pub(super) fn run(context: &Context, arguments: &Restore) -> Outcome {
    let place = || arguments.backups.display().to_string();
    let none = || Error::NoBackup { path: place(), number: arguments.backup, cut_off: None };
    let backups = Backups::find(&arguments.backups)?.ok_or_else(none)?;
    let restored = backup::followed(context, |progress| {
        backups.restore(arguments.backup, &arguments.dir, progress)
    })?;
    if context.shared.json {
        return output::json_line(&backup::as_json(&restored));
    }
    if !context.shared.quiet {
        eprintln!("restored and verified {}", backup::shown(&restored));
    }
    Ok(())
}
