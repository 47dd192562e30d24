//! `thermocline flexspace insert` and `collapse`: bytes in and out.

use std::path::Path;

use flexspace::space::FlexSpace;
use serde_json::json;

use super::arguments::{Collapse, Insert};
use super::{Context, Input, PIECE_BYTES, change, failed, read_piece, with_space};
use crate::failure::{Failure, Outcome};
use crate::output::{self, Progress};

pub(super) fn insert(context: &Context, arguments: &Insert) -> Outcome {
    let file = &arguments.file;
    let (offset, count, len) = with_space(file, |space| {
        let offset = arguments.offset.or(space.len());
        check_within(file, offset, space.len())?;
        let count = put(context, file, space, offset, super::input(arguments.input.as_deref())?)?;
        Ok((offset, count, space.len()))
    })?;
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
    let (count, len) = with_space(file, |space| {
        check_within(file, offset, space.len())?;
        let count = arguments.length.or(space.len() - offset);
        space.collapse(offset, count).map_err(|error| failed(file, error))?;
        Ok((count, space.len()))
    })?;
    if context.shared.json {
        return output::json_line(&json!({ "offset": offset, "removed": count, "len": len }));
    }
    if !context.shared.quiet {
        eprintln!("removed {count} bytes at {offset}; now {len} bytes");
    }
    Ok(())
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
