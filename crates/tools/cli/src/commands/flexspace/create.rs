//! `thermocline flexspace create`: a new space, empty or with the bytes of a file.

use std::path::Path;

use flexspace::space::{Error, FlexSpace, Options};
use serde_json::json;

use super::arguments::Create;
use super::edit::put;
use super::{Context, failed, refuse_owned};
use crate::failure::{Failure, Kind, Outcome};
use crate::output;

pub(super) fn run(context: &Context, arguments: &Create) -> Outcome {
    let file = &arguments.file;
    refuse_owned(file, mount::owner_of(file))?;
    let was_there = check_free(file)?;
    let segment_bytes = u32::try_from(arguments.segment).unwrap_or(u32::MAX);
    let options = Options { segment_bytes, ..Options::default() };
    let from = arguments.from.as_deref();
    let from = from.map(|path| super::input(Some(path))).transpose()?;
    let device = device::open(file, device::Options::default());
    let made = device.map_err(Error::from).and_then(|device| FlexSpace::create(device, options));
    let space = made.map_err(|error| refused(file, was_there, error))?;
    let filled = from.map_or(Ok(()), |from| put(context, file, &space, 0, from).map(drop));
    let len = space.len();
    let closed = space.close().map_err(|error| failed(file, error));
    if let Err(failure) = filled.and(closed) {
        remove(file, was_there);
        return Err(failure);
    }
    if context.shared.json {
        return output::json_line(&json!({ "len": len }));
    }
    if !context.shared.quiet {
        eprintln!("made a flexspace of {len} bytes");
    }
    Ok(())
}

/// The failure of a creation that has made no space.
fn refused(file: &Path, was_there: bool, error: Error) -> Failure {
    use device::Error as Refused;
    match &error {
        // Another process has made one since, or something else has the name: it is not ours.
        Error::Device(
            Refused::AlreadyExists { .. }
            | Refused::Locked { .. }
            | Refused::DanglingLink { .. }
            | Refused::SymbolicLink { .. },
        ) => {}
        Error::Device(Refused::NotFound { .. }) => {
            let what = format_args!("flexspace {}: it cannot be made there", file.display());
            return Failure::new(Kind::Error, what);
        }
        _ => remove(file, was_there),
    }
    failed(file, error)
}

/// Removes the files that this process has made a moment ago, and not the directory if that was
/// there, which may have another name; the failure that came first is the one to report.
#[expect(clippy::disallowed_methods, reason = "whole files, of a space that is none")]
fn remove(file: &Path, was_there: bool) {
    if !was_there {
        let _ = std::fs::remove_dir_all(file);
        return;
    }
    for entry in std::fs::read_dir(file).into_iter().flatten().flatten() {
        let _ = std::fs::remove_file(entry.path());
    }
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
