//! `thermocline load`: a new database from a dump.
//!
//! Keyspaces get the engine that the dump names, or all of them the one that the setting `engine`
//! names, in whichever layer it is given. In that case the dump's own options of another engine are
//! left out. Their merge operators are another program's. Sorted pairs of the dump are ingested by
//! an engine that can; all else is written in batches.
//!
//! 1. The dump is loaded into `DIR.loading`, a sibling of the new database.
//! 2. Once the whole dump was read and verified, everything is made durable and closed.
//! 3. A rename gives the directory its name. So `DIR` holds a whole copy, or stays missing or
//!    empty; the next load names the rest of an interrupted one in `DIR.loading`.

use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use serde_json::json;
use thermocline::{
    Batch, Db, Durability, EngineKind, ErrorKind, Ingestion, Keyspace, KeyspaceOptions,
};

use super::Context;
use crate::arguments::Load;
use crate::dump::{self, Frame, Reader};
use crate::failure::{Failure, Kind, Outcome};
use crate::output::{self, Progress};

/// A batch is written once it holds this many bytes.
const BATCH_BYTES: usize = 1 << 20;

#[expect(clippy::disallowed_methods, reason = "names the database's directory, from outside")]
pub(super) fn run(context: &Context, arguments: &Load) -> Outcome {
    let target = &arguments.dir;
    let loading = beside(target)?;
    if target.is_symlink() && !target.exists() {
        return Err(Failure::usage(format_args!(
            "{} is a symbolic link whose target does not exist",
            target.display()
        )));
    }
    if target.symlink_metadata().is_ok() && !is_empty_directory(target) {
        return Err(Failure::usage(format_args!(
            "{} exists already and is not an empty directory; load makes a new database",
            target.display()
        )));
    }
    if loading.exists() {
        return Err(Failure::usage(format_args!(
            "{} exists: what an interrupted load left, unless one is running; remove it first",
            loading.display()
        )));
    }
    let failed = |path: &Path, error: io::Error| Failure::io(path.display(), &error);
    let input: Box<dyn Read> = match &arguments.input {
        Some(path) => Box::new(std::fs::File::open(path).map_err(|error| failed(path, error))?),
        None => Box::new(io::stdin().lock()),
    };
    let name = match &arguments.input {
        Some(path) => path.display().to_string(),
        None => "standard input".to_owned(),
    };
    let loaded = context.with_database(&loading, true, |db| load(context, db, input, &name));
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(failure) => {
            // Made by this process a moment ago, and no whole database.
            let _ = std::fs::remove_dir_all(&loading);
            return Err(failure);
        }
    };
    std::fs::rename(&loading, target).map_err(|error| failed(target, error))?;
    sync_parent(target).map_err(|error| failed(target, error))?;
    let Loaded { keyspaces, pairs } = loaded;
    if context.shared.json {
        return output::json_line(&json!({ "keyspaces": keyspaces, "pairs": pairs }));
    }
    if !context.shared.quiet {
        eprintln!("loaded {pairs} pairs of {keyspaces} keyspaces");
    }
    Ok(())
}

/// Returns whether there is an empty directory, which the rename at the end replaces. A link to one
/// is not.
fn is_empty_directory(path: &Path) -> bool {
    let is_directory = path.symlink_metadata().is_ok_and(|found| found.is_dir());
    is_directory && std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

fn beside(target: &Path) -> Result<PathBuf, Failure> {
    let name = target.file_name().ok_or_else(|| {
        Failure::usage(format_args!("{} names no directory that could be made", target.display()))
    })?;
    let mut loading = name.to_owned();
    loading.push(".loading");
    Ok(target.with_file_name(loading))
}

#[expect(clippy::disallowed_methods, reason = "makes the database's own name durable")]
fn sync_parent(target: &Path) -> io::Result<()> {
    let parent = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    std::fs::File::open(parent)?.sync_all()
}

#[derive(Default)]
struct Loaded {
    keyspaces: u64,
    pairs: u64,
}

/// Loads the dump that `input` holds; `name` is its name in failures.
fn load(context: &Context, db: &Db, input: impl Read, name: &str) -> Result<Loaded, Failure> {
    let refused = |error| refused(name, error);
    let asked = context.settings.engine_chosen().map_err(Failure::usage)?;
    let progress = Progress::of_pairs("loading", context.shared.quiet || context.shared.json);
    // Nothing of it counts before the close makes all of it durable.
    let db = db.durability(Durability::Buffered);
    let mut reader = Reader::new(BufReader::new(input)).map_err(refused)?;
    let mut loaded = Loaded::default();
    let mut way = None;
    while let Some(frame) = reader.next_frame().map_err(refused)? {
        match frame {
            Frame::Keyspace {
                name,
                engine,
                journaled,
                expiring,
                memory_bytes,
                settings,
                merge,
            } => {
                loaded.keyspaces += 1;
                way.take().map_or(Ok(()), |way: Way| way.end(&db))?;
                let dumped: Option<EngineKind> = engine.parse().ok();
                let engine = match asked {
                    Some(asked) => asked,
                    None => engine.parse()?,
                };
                let settings = settings.filter(|of| of.engine() == engine.name());
                let options =
                    KeyspaceOptions { engine, journaled, memory_bytes, expiring, merge, settings };
                let is_sorted = dumped.is_some_and(EngineKind::is_ordered);
                way = Some(Way::to(db.keyspace(name, options)?.expiring().raw(), is_sorted)?);
            }
            Frame::Pairs(pairs) => {
                let way = way.as_mut().ok_or_else(no_keyspace)?;
                for pair in pairs.iter() {
                    let pair = pair.map_err(|damage| refused(dump::Error::Damaged(damage)));
                    way.write(&db, pair?)?;
                    loaded.pairs += 1;
                }
                progress.at(loaded.pairs);
            }
            Frame::End { .. } => {}
        }
    }
    way.map_or(Ok(()), |way| way.end(&db))?;
    Ok(loaded)
}

/// How the pairs of a keyspace get there.
enum Way {
    Ingested(Ingestion),
    Written { keyspace: Keyspace, batch: Batch, batched: usize },
}

impl Way {
    fn to(keyspace: Keyspace, is_sorted: bool) -> Result<Self, Failure> {
        if is_sorted {
            match keyspace.ingestion() {
                Ok(ingestion) => return Ok(Self::Ingested(ingestion)),
                Err(error) if error.kind() == ErrorKind::Unsupported => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Self::Written { keyspace, batch: Batch::new(), batched: 0 })
    }

    fn write(&mut self, db: &Db, (key, value): (&[u8], &[u8])) -> Outcome {
        match self {
            Self::Ingested(ingestion) => ingestion.push(key, value)?,
            Self::Written { keyspace, batch, batched } => {
                batch.put(keyspace, key, value);
                *batched += key.len() + value.len();
                if *batched >= BATCH_BYTES {
                    db.write(batch)?;
                    batch.clear();
                    *batched = 0;
                }
            }
        }
        Ok(())
    }

    /// All pairs were written.
    fn end(self, db: &Db) -> Outcome {
        match self {
            Self::Ingested(ingestion) => ingestion.commit()?,
            Self::Written { batch, .. } => db.write(&batch)?,
        };
        Ok(())
    }
}

fn refused(name: &str, error: dump::Error) -> Failure {
    let kind = match &error {
        dump::Error::Io(_) => Kind::Error,
        dump::Error::Header(header) if codec::Corruption::from(*header).newer.is_some() => {
            Kind::NewerVersion
        }
        dump::Error::Header(_) | dump::Error::Older { .. } | dump::Error::Damaged(_) => {
            Kind::Damaged
        }
    };
    Failure::new(kind, format_args!("{name}: {error}"))
}

fn no_keyspace() -> Failure {
    Failure::new(Kind::Damaged, "damaged dump: pairs before any keyspace")
}
