//! `thermocline flexspace defrag` and `check`: scattered bytes are rewritten, and all are verified.

use std::path::Path;

use flexspace::space::{Error, FlexSpace, Verified, verify_offline};
use serde_json::{Value, json};

use super::arguments::{Check, Defrag};
use super::{Context, change, device_of, failed, with_space};
use crate::failure::{Failure, Kind, Outcome};
use crate::output::{self, Progress};

/// Bytes that are examined together, and rewritten if they are in many pieces.
const STEP_BYTES: u64 = 8 << 20;

pub(super) fn defrag(context: &Context, arguments: &Defrag) -> Outcome {
    let file = &arguments.file;
    let (before, after, damage) = with_space(file, |space| {
        let failed = |error| failed(file, error);
        let range = arguments.range;
        let length = range.length.or(space.len().saturating_sub(range.offset));
        let end = range.offset.saturating_add(length);
        space.pread(end, &mut []).map_err(failed)?;
        let before = extents(space, 0, space.len());
        let progress = Progress::of_bytes(
            "rewriting",
            Some(length),
            context.shared.quiet || context.shared.json,
        );
        let mut damage = None;
        for at in (range.offset..end).step_by(STEP_BYTES as usize) {
            let step = STEP_BYTES.min(end - at);
            if is_scattered(space, at, step) {
                match change(space, || space.defrag(at, step)) {
                    // All else of the step was rewritten.
                    Err(found @ Error::Corruption(_)) => _ = damage.get_or_insert(found),
                    done => done.map_err(failed)?,
                }
            }
            progress.at(at + step - range.offset);
        }
        space.sync().map_err(failed)?;
        // Segments that the rewriting left empty in part are worth another copy, or not.
        loop {
            let done = space.collect().map_err(failed)?;
            damage = damage.or(done.damage);
            if done.segments == 0 {
                break;
            }
        }
        Ok((before, extents(space, 0, space.len()), damage))
    })?;
    if context.shared.json {
        output::json_line(&json!({ "extents_before": before, "extents": after }))?;
    } else if !context.shared.quiet {
        eprintln!("{before} extents before, {after} now");
    }
    // Unreadable bytes stay in place, outside of the range, too.
    damage.map_or(Ok(()), |damage| Err(failed(file, damage)))
}

fn extents(space: &FlexSpace, offset: u64, length: u64) -> u64 {
    let snapshot = space.snapshot();
    snapshot.map_or(0, |snapshot| snapshot.extents(offset..offset + length).count() as u64)
}

/// Returns whether a range is in more than twice the pieces that it needs.
fn is_scattered(space: &FlexSpace, offset: u64, length: u64) -> bool {
    let needed = length.div_ceil(u64::from(space.stats().extent_bytes_max)) + 1;
    extents(space, offset, length) > 2 * needed
}

pub(super) fn check(context: &Context, arguments: &Check) -> Outcome {
    let mut damaged = 0;
    let mut refused: Vec<Kind> = Vec::new();
    for file in &arguments.files {
        match verify(context, file) {
            Ok(verified) => {
                damaged += verified.damage_count;
                show(context, file, &verified)?;
            }
            Err(failure) if arguments.files.len() == 1 => return Err(failure),
            // The others are worth a look nevertheless.
            Err(failure) => {
                output::report_failure(&failure, context.shared.json);
                refused.push(failure.kind);
            }
        }
    }
    if let Some(kind) = refused.first() {
        let (refused, of) = (refused.len(), arguments.files.len());
        let what = format_args!("{refused} of {of} could not be verified");
        return Err(Failure::new(*kind, what));
    }
    match damaged {
        0 if context.shared.json => Ok(()),
        0 => output::line("everything is whole"),
        1 => Err(Failure::new(Kind::Damaged, "1 piece is damaged")),
        count => Err(Failure::new(Kind::Damaged, format_args!("{count} pieces are damaged"))),
    }
}

fn verify(context: &Context, file: &Path) -> Result<Verified, Failure> {
    let hidden = context.shared.quiet || context.shared.json;
    let progress = Progress::of_bytes("checking", None, hidden);
    let verified = verify_offline(&*device_of(file)?, &mut |done| progress.at(done));
    drop(progress);
    verified.map_err(|error| failed(file, error))
}

fn show(context: &Context, file: &Path, verified: &Verified) -> Outcome {
    if context.shared.json {
        return output::json_line(&as_json(&file.display().to_string(), verified));
    }
    let Verified { len, extents, .. } = verified;
    output::line(&format!("checked  {}: {len} bytes, {extents} extents", file.display()))?;
    for damage in &verified.damage {
        output::line(&format!("damaged  {damage}"))?;
    }
    match verified.damage_count - verified.damage.len() as u64 {
        0 => Ok(()),
        further => output::line(&format!("damaged  {further} more, not listed")),
    }
}

fn as_json(file: &str, verified: &Verified) -> Value {
    let place = |damage: &codec::Corruption| json!({ "file": damage.file, "offset": damage.offset, "what": damage.what });
    json!({
        "file": file,
        "whole": verified.damage_count == 0,
        "len": verified.len,
        "extents": verified.extents,
        "damage_count": verified.damage_count,
        "damage": verified.damage.iter().map(place).collect::<Vec<_>>(),
    })
}
