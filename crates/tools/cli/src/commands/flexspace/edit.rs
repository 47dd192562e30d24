//! `thermocline flexspace insert` and `collapse`: bytes in and out.

use std::path::Path;

use flexspace::space::FlexSpace;
use serde_json::json;

use super::arguments::{Collapse, Insert};
use super::{Context, Input, PIECE_BYTES, change, failed, read_piece, with_space};
use crate::failure::{Failure, Kind, Outcome};
use crate::output::{self, Progress};

pub(super) fn insert(context: &Context, arguments: &Insert) -> Outcome {
    let file = &arguments.file;
    let input = || super::input(arguments.input.as_deref());
    let (offset, count, len) = if let Some(len) = mounted_len(file)? {
        let offset = arguments.offset.or(len);
        check_within(file, offset, len)?;
        let count = put_mounted(file, offset, input()?)?;
        (offset, count, len + count)
    } else {
        with_space(file, |space| {
            let offset = arguments.offset.or(space.len());
            check_within(file, offset, space.len())?;
            let count = put(context, file, space, offset, input()?)?;
            Ok((offset, count, space.len()))
        })?
    };
    if context.shared.json {
        return output::json_line(&json!({ "offset": offset, "inserted": count, "len": len }));
    }
    if !context.shared.quiet {
        eprintln!("inserted {count} bytes at {offset}; now {len} bytes");
    }
    Ok(())
}

pub(super) fn collapse(context: &Context, arguments: &Collapse) -> Outcome {
    let file = &arguments.file;
    let offset = arguments.offset;
    let (count, len) = if let Some(len) = mounted_len(file)? {
        check_within(file, offset, len)?;
        let count = arguments.length.or(len - offset);
        check_within(file, offset.saturating_add(count), len)?;
        if count > 0 {
            let done = mount::collapse(file, offset, count).and_then(|()| mount::sync(file));
            done.map_err(|error| refused(file, &error))?;
        }
        (count, len - count)
    } else {
        with_space(file, |space| {
            check_within(file, offset, space.len())?;
            let count = arguments.length.or(space.len() - offset);
            space.collapse(offset, count).map_err(|error| failed(file, error))?;
            Ok((count, space.len()))
        })?
    };
    if context.shared.json {
        return output::json_line(&json!({ "offset": offset, "removed": count, "len": len }));
    }
    if !context.shared.quiet {
        eprintln!("removed {count} bytes at {offset}; now {len} bytes");
    }
    Ok(())
}

/// The length of a file of a mount; none if it is something else.
fn mounted_len(file: &Path) -> Result<Option<u64>, Failure> {
    match std::fs::metadata(file) {
        Ok(about) if about.is_file() => Ok(Some(about.len())),
        _ => Ok(None),
    }
}

/// As [`put`], through a mount.
fn put_mounted(file: &Path, offset: u64, input: Input) -> Result<u64, Failure> {
    let Input { mut from, name, .. } = input;
    let mut piece = vec![0; mount::INSERT_BYTES_MAX];
    let mut done = 0;
    let mut step = |done: u64| {
        let count = read_piece(&mut *from, &name, &mut piece)?;
        if count > 0 {
            let inserted = mount::insert(file, offset + done, &piece[..count]);
            inserted.map_err(|error| refused(file, &error))?;
        }
        Ok(count as u64)
    };
    loop {
        match step(done) {
            Ok(0) => {
                mount::sync(file).map_err(|error| refused(file, &error))?;
                return Ok(done);
            }
            Ok(count) => done += count,
            Err(failure) => {
                if done > 0 {
                    // As in a space.
                    let _ = mount::collapse(file, offset, done);
                }
                return Err(failure);
            }
        }
    }
}

/// Returns the failure of a shift in a mount.
fn refused(file: &Path, error: &std::io::Error) -> Failure {
    if error.kind() == std::io::ErrorKind::Unsupported {
        let what =
            "is a file, but of no mounted flexspace: flexspace create --from makes one of it";
        return Failure::new(Kind::NotFound, format_args!("{} {what}", file.display()));
    }
    Failure::io(file.display(), error)
}

fn check_within(file: &Path, offset: u64, len: u64) -> Outcome {
    if offset <= len {
        return Ok(());
    }
    Err(Failure::usage(format_args!("{} has {len} bytes: no offset {offset}", file.display())))
}

/// Puts all that `from` has at `offset`, and says how many bytes that was; or none, if it fails.
pub(super) fn put(
    context: &Context,
    file: &Path,
    space: &FlexSpace,
    offset: u64,
    Input { mut from, name, bytes }: Input,
) -> Result<u64, Failure> {
    let hidden = context.shared.quiet || context.shared.json;
    let progress = Progress::of_bytes("inserting", bytes, hidden);
    let mut piece = vec![0; PIECE_BYTES as usize];
    let mut done = 0;
    let mut step = |done: u64| {
        let count = read_piece(&mut *from, &name, &mut piece)?;
        let inserted = change(space, || space.insert(offset + done, &piece[..count]));
        inserted.map_err(|error| failed(file, error))?;
        Ok(count as u64)
    };
    loop {
        match step(done) {
            Ok(0) => return Ok(done),
            Ok(count) => {
                done += count;
                progress.at(done);
            }
            Err(failure) => {
                // As if nothing had been asked for; should that fail, too, it is not the cause.
                let _ = space.collapse(offset, done);
                return Err(failure);
            }
        }
    }
}
