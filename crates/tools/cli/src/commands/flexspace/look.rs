//! `thermocline flexspace cat` and `stat`: a space's bytes, and figures about it.

use std::path::Path;

use flexspace::space::Stats;
use serde_json::{Value, json};

use super::arguments::{Cat, Stat};
use super::{Context, PIECE_BYTES, failed, with_space};
use crate::failure::Outcome;
use crate::output::{self, human_bytes};

pub(super) fn cat(_: &Context, arguments: &Cat) -> Outcome {
    let file = &arguments.file;
    with_space(file, |space| {
        let failed = |error| failed(file, error);
        let snapshot = space.snapshot().map_err(failed)?;
        let offset = arguments.range.offset;
        let length = arguments.range.length.or(snapshot.len().saturating_sub(offset));
        // A range that is not there is refused before anything is printed.
        let end = offset.saturating_add(length);
        snapshot.pread(end, &mut []).map_err(failed)?;
        for at in (offset..end).step_by(PIECE_BYTES as usize) {
            let count = PIECE_BYTES.min(end - at);
            output::bytes(&snapshot.read(at, count).map_err(failed)?)?;
        }
        Ok(())
    })
}

pub(super) fn stat(context: &Context, arguments: &Stat) -> Outcome {
    for (index, file) in arguments.files.iter().enumerate() {
        let (stats, extents) = with_space(file, |space| {
            let snapshot = space.snapshot().map_err(|error| failed(file, error))?;
            let extents = snapshot.extents(0..snapshot.len()).count() as u64;
            // It would count as one that a user has.
            drop(snapshot);
            Ok((space.stats(), extents))
        })?;
        if context.shared.json {
            output::json_line(&as_json(file, &stats, extents))?;
            continue;
        }
        if index > 0 {
            output::line("")?;
        }
        print(file, &stats, extents)?;
    }
    Ok(())
}

/// Segments have 32 times the bytes of the longest extent.
fn segment_bytes(stats: &Stats) -> u64 {
    u64::from(stats.extent_bytes_max) * 32
}

fn print(file: &Path, stats: &Stats, extents: u64) -> Outcome {
    let figure = |name: &str, value: String| output::line(&format!("{name:<20} {value}"));
    figure("flexspace", file.display().to_string())?;
    figure("bytes", stats.len.to_string())?;
    figure("extents", extents.to_string())?;
    figure("segments of", human_bytes(segment_bytes(stats)))?;
    let used = human_bytes(stats.used_segments * segment_bytes(stats));
    figure("  in use", format!("{}, {used}", stats.used_segments))?;
    figure("  free", stats.free_segments.to_string())?;
    figure("held for emergencies", human_bytes(stats.ballast_bytes))?;
    figure("nodes of the tree", stats.used_slots.to_string())?;
    figure("replayed records", stats.replayed_records.to_string())
}

fn as_json(file: &Path, stats: &Stats, extents: u64) -> Value {
    json!({
        "file": file.display().to_string(),
        "len": stats.len,
        "extents": extents,
        "segment_bytes": segment_bytes(stats),
        "used_segments": stats.used_segments,
        "free_segments": stats.free_segments,
        "ballast_bytes": stats.ballast_bytes,
        "used_slots": stats.used_slots,
        "free_slots": stats.free_slots,
        "replayed_records": stats.replayed_records,
    })
}
