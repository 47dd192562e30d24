//! `thermocline dump`: all pairs of one moment, to one portable stream.
//!
//! A keyspace that keeps no order is in no snapshot; it is walked over. It is of the same moment,
//! since no process writes a database that a dump has open.
//!
//! Values that may expire are dumped in their stored form, so that they keep their expiry. Values
//! that have expired when the dump begins are not in it.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::ops::ControlFlow::Continue;
use std::path::Path;

use serde_json::json;
use thermocline::{Db, Expiring, KeyRange, Keyspace, Snapshot};

use super::{Context, existing, walk};
use crate::arguments::Dump;
use crate::dump::Writer;
use crate::failure::{Failure, Outcome};
use crate::output::{self, Progress};

/// Pairs between two looks at the progress line.
const PROGRESS_PAIRS: u64 = 4096;

pub(super) fn run(context: &Context, arguments: &Dump) -> Outcome {
    if arguments.output.is_none() && io::stdout().is_terminal() {
        return Err(Failure::usage(
            "a dump is no text for a terminal: give --output FILE, or a pipe",
        ));
    }
    let written = context.reading(&arguments.database.dir, |db| {
        let keyspaces = chosen(db, &arguments.keyspace)?;
        match &arguments.output {
            Some(path) => to_file(context, db, &keyspaces, path),
            None => {
                write_all(context, db, &keyspaces, io::stdout().lock()).map(|(written, _)| written)
            }
        }
    })?;
    let Written { keyspaces, pairs, bytes } = written;
    // Standard output is the dump itself unless it went to a file.
    if context.shared.json && arguments.output.is_some() {
        return output::json_line(
            &json!({ "keyspaces": keyspaces, "pairs": pairs, "bytes": bytes }),
        );
    }
    if !context.shared.quiet {
        eprintln!("dumped {pairs} pairs of {keyspaces} keyspaces, {bytes} bytes");
    }
    Ok(())
}

struct Written {
    keyspaces: u64,
    pairs: u64,
    bytes: u64,
}

fn chosen(db: &Db, names: &[String]) -> Result<Vec<Keyspace>, Failure> {
    if names.is_empty() {
        return Ok(db.keyspaces());
    }
    let mut names: Vec<&String> = names.iter().collect();
    names.sort();
    // Given twice, it is in the dump once.
    names.dedup();
    names.into_iter().map(|name| existing(db, name)).collect()
}

#[expect(clippy::disallowed_methods, reason = "a dump is the user's file, outside the database")]
fn to_file(
    context: &Context,
    db: &Db,
    keyspaces: &[Keyspace],
    path: &Path,
) -> Result<Written, Failure> {
    let failed = |error: io::Error| Failure::io(path.display(), &error);
    let file = std::fs::OpenOptions::new().write(true).create_new(true).open(path);
    let file = file.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::usage(format_args!(
            "{} exists already; dump writes a new file: give another name, or remove it first",
            path.display()
        )),
        _ => failed(error),
    })?;
    let outcome = write_all(context, db, keyspaces, file).and_then(|(written, file)| {
        file.sync_all().map_err(failed)?;
        Ok(written)
    });
    if outcome.is_err() {
        // Half a dump is none, and the name was free before; the first failure is the one to
        // report.
        let _ = std::fs::remove_file(path);
    }
    outcome
}

fn write_all<W: Write>(
    context: &Context,
    db: &Db,
    keyspaces: &[Keyspace],
    out: W,
) -> Result<(Written, W), Failure> {
    let failed = |error: io::Error| Failure::io("writing the dump", &error);
    let now_ms = db.now_ms();
    let snapshot = db.snapshot()?;
    let progress = Progress::of_pairs("dumping", context.shared.quiet || context.shared.json);
    let mut writer = Writer::new(BufWriter::new(out)).map_err(failed)?;
    for keyspace in keyspaces {
        write_keyspace(&mut writer, &snapshot, &keyspace.expiring().raw(), now_ms, &progress)?;
    }
    let (keyspaces, pairs) = (writer.keyspaces(), writer.pairs());
    let (buffered, bytes) = writer.finish().map_err(failed)?;
    let out = buffered.into_inner().map_err(|error| failed(error.into_error()))?;
    Ok((Written { keyspaces, pairs, bytes }, out))
}

fn write_keyspace(
    writer: &mut Writer<impl Write>,
    snapshot: &Snapshot,
    keyspace: &Keyspace,
    now_ms: u64,
    progress: &Progress,
) -> Outcome {
    let failed = |error: io::Error| Failure::io("writing the dump", &error);
    let options = keyspace.options();
    let expiring = options.expiring;
    writer.keyspace(keyspace.name(), &options).map_err(failed)?;
    let mut write = |key: &[u8], value: &[u8]| {
        if expiring && Expiring::decode(value).map_err(thermocline::Error::from)?.is_expired(now_ms)
        {
            return Ok(());
        }
        writer.pair(key, value).map_err(failed)?;
        if writer.pairs().is_multiple_of(PROGRESS_PAIRS) {
            progress.at(writer.pairs());
        }
        Ok(())
    };
    if !keyspace.is_ordered() {
        return walk(keyspace, |key, value| write(key, value).map(|()| Continue(())));
    }
    let mut scan = snapshot.scan(keyspace, KeyRange::all())?;
    while let Some((key, value)) = scan.next_ref()? {
        write(key, value)?;
    }
    Ok(())
}
