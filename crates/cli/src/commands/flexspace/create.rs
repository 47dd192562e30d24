//! `thermocline flexspace create`: a new space, empty or with the bytes of a file.

use std::path::Path;

use flexspace::space::{FlexSpace, Options};
use serde_json::json;

use super::arguments::Create;
use super::edit::put;
use super::{Context, failed, refuse_owned};
use crate::failure::{Failure, Outcome};
use crate::output;

pub(super) fn run(context: &Context, arguments: &Create) -> Outcome {
    let file = &arguments.file;
    refuse_owned(file, mount::owner_of(file))?;
    let was_there = check_free(file)?;
    let segment_bytes = u32::try_from(arguments.segment).unwrap_or(u32::MAX);
    let options = Options { segment_bytes, ..Options::default() };
    let from = arguments.from.as_deref();
    let from = from.map(|path| super::input(Some(path))).transpose()?;
    let made = device::open(file, device::Options::default())
        .map_err(flexspace::space::Error::from)
        .and_then(|device| FlexSpace::create(device, options))
        .map_err(|error| failed(file, error))
        .and_then(|space| {
            let filled = from.map_or(Ok(()), |from| put(context, file, &space, 0, from).map(drop));
            let len = space.len();
            let closed = space.close().map_err(|error| failed(file, error));
            filled.and(closed).map(|()| len)
        });
    if made.is_err() {
        // What is in it was made by this process a moment ago; the failure that came first is the one
        // to tell.
        let _ = std::fs::remove_dir_all(file);
        let _ = if was_there { std::fs::create_dir(file) } else { Ok(()) };
    }
    let len = made?;
    if context.shared.json {
        return output::json_line(&json!({ "len": len }));
    }
    if !context.shared.quiet {
        eprintln!("made a flexspace of {len} bytes");
    }
    Ok(())
}

/// Refuses a name that is taken, but for an empty directory; says whether that is there.
fn check_free(file: &Path) -> Result<bool, Failure> {
    if !file.exists() {
        return Ok(false);
    }
    let is_empty = std::fs::read_dir(file).is_ok_and(|mut entries| entries.next().is_none());
    if is_empty {
        return Ok(true);
    }
    let what = "exists already, and is no empty directory; flexspace create makes a new one";
    Err(Failure::usage(format_args!("{} {what}", file.display())))
}
