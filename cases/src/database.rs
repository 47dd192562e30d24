//! Cases of the library: a program uses the database in its own process.

mod forked;
mod queue_head;
mod space;
mod torn_copy;

use std::time::Duration;

use thermocline::{Change, Db, EngineKind, KeyspaceOptions, MergeName, MergeOperators, Options};

use crate::place::{self, Place};
use crate::verdict::{Outcome, Verdict};

pub(crate) const CASES: &[(&str, fn(&Place) -> Outcome)] = &[
    ("dropped_handles", dropped_handles),
    ("appends", appends),
    ("journal_bytes", space::journal_bytes),
    ("deleted_space_lsm", |place| space::deleted_space(place, EngineKind::Lsm)),
    ("deleted_space_flexdb", |place| space::deleted_space(place, EngineKind::FlexDb)),
    ("deleted_space_f2", |place| space::deleted_space(place, EngineKind::F2)),
    ("queue_head_lsm", |place| queue_head::run(place, EngineKind::Lsm)),
    ("queue_head_flexdb", |place| queue_head::run(place, EngineKind::FlexDb)),
    ("queue_head_memory", |place| queue_head::run(place, EngineKind::Memory)),
    ("forked_writes", forked::writes),
    ("forked_memory", |place| forked::daemon(place, EngineKind::Memory)),
    ("forked_lsm", |place| forked::daemon(place, EngineKind::Lsm)),
    ("forked_flexdb", |place| forked::daemon(place, EngineKind::FlexDb)),
    ("forked_f2", |place| forked::daemon(place, EngineKind::F2)),
    ("torn_copy", torn_copy::run),
];

/// Returns options for a keyspace of this engine.
fn of(engine: EngineKind) -> KeyspaceOptions {
    KeyspaceOptions { engine, ..KeyspaceOptions::default() }
}

/// A program drops keyspaces and keeps a handle of each. A drop must release files, memory and
/// descriptors even so.
fn dropped_handles(place: &Place) -> Outcome {
    const TENANTS: usize = 40;
    /// Descriptors that may be open in addition, for work in the background.
    const SPARE: usize = 8;
    let directory = place.path("data");
    let db = Db::open(&directory, Options { memory_bytes: 256 << 20, ..Options::default() })?;
    let mut kept = Vec::new();
    let before = place::descriptors()?;
    let wanted = "files, memory and descriptors back at each drop";
    for index in 0..TENANTS {
        let name = format!("tenant-{index}");
        match db.keyspace(&name, of(EngineKind::Lsm)) {
            Ok(keyspace) => {
                keyspace.put(b"key", b"value")?;
                db.drop_keyspace(&name)?;
                kept.push(keyspace);
            }
            Err(error) => {
                let got = format!("keyspace {index} of {TENANTS} refused: {error}");
                return Ok(Verdict::wrong(wanted, got));
            }
        }
    }
    let files = || place::files_below(&directory.join("keyspaces")).len();
    place::until(Duration::from_secs(10), || {
        files() == 0 && place::descriptors().is_ok_and(|now| now <= before + SPARE)
    });
    let (now, files) = (place::descriptors()?, files());
    let got = format!("{TENANTS} dropped; descriptors {before} before, {now} after; {files} files");
    Ok(Verdict::of(files == 0 && now <= before + SPARE, wanted, got))
}

/// A list grows by merges of 72 bytes. Each merge writes the whole value, so the documents must say
/// so and the figures must count it.
fn appends(place: &Place) -> Outcome {
    const MERGES: u64 = 1_000;
    const OPERAND: usize = 72;
    let append: MergeName = "append".parse()?;
    let operators = MergeOperators::new()
        .with(append, |_, old, more| Ok(Change::Put([old.unwrap_or_default(), more].concat())));
    let directory = place.path("data");
    let db = Db::open(&directory, Options { merge_operators: operators, ..Options::default() })?;
    let options = KeyspaceOptions { merge: Some(append), ..of(EngineKind::Lsm) };
    let list = db.keyspace("default", options)?;
    for _ in 0..MERGES {
        list.merge(b"list", &[b'o'; OPERAND])?;
    }
    let stats = db.stats();
    let (merged, written) = (MERGES * OPERAND as u64, stats.io.write_bytes);
    let updates = stats.keyspaces.first().ok_or("no keyspace")?.updates;
    db.close()?;
    let page = include_str!("../../docs/from-rocksdb.md");
    let is_documented = page
        .lines()
        .any(|line| line.contains("Each merge") && line.contains("writes the whole new one"));
    // Each merge writes the key and all operands so far, and takes the key and one operand.
    let (key, operands) =
        (MERGES * b"list".len() as u64, OPERAND as u64 * MERGES * (MERGES + 1) / 2);
    let is_counted =
        updates.written_bytes == key + operands && updates.operand_bytes == key + merged;
    let got = format!(
        "{written} bytes written for {merged} bytes merged; documented: {is_documented}; \
         counted in stats: {is_counted}, {updates:?}"
    );
    let is_right = written < 8 * merged || (is_documented && is_counted);
    Ok(Verdict::of(is_right, "few bytes written, or the cost documented and counted", got))
}
