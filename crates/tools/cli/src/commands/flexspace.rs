//! `thermocline flexspace`: a file on disk with cheap insertions.
//!
//! Bytes can be put into its middle, without the rest being written again.
//!
//! A command opens the space, works and closes it, so it changes the space's files even if it only
//! reads; `check` alone does not. So all others refuse files that belong to a database, to a backup
//! or to a store. A mounted space is opened when it is used. A change by a command is durable when
//! the command ends with success. One that fails takes back what it put in; one that is killed has
//! done nothing, or the beginning.

pub(crate) mod arguments;
mod create;
mod edit;
mod look;
mod mount;
mod tidy;

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use device::Device;
use flexspace::space::{Error, FlexSpace, Options, SUPERBLOCK};

use super::Context;
use crate::failure::{Failure, Kind, Outcome};
use arguments::FlexspaceCommand;

/// Bytes that are read, written or shown in one step.
const PIECE_BYTES: u64 = 1 << 20;

pub(super) fn run(context: &Context, command: &FlexspaceCommand) -> Outcome {
    match command {
        FlexspaceCommand::Create(with) => create::run(context, &with.own),
        FlexspaceCommand::Insert(with) => edit::insert(context, &with.own),
        FlexspaceCommand::Collapse(with) => edit::collapse(context, &with.own),
        FlexspaceCommand::Cat(with) => look::cat(context, &with.own),
        FlexspaceCommand::Stat(with) => look::stat(context, &with.own),
        FlexspaceCommand::Defrag(with) => tidy::defrag(context, &with.own),
        FlexspaceCommand::Check(with) => tidy::check(context, &with.own),
        FlexspaceCommand::Mount(with) => mount::run(context, &with.own),
    }
}

/// The directory of a space that is there.
fn device_of(file: &Path) -> Result<Arc<dyn Device>, Failure> {
    if !file.exists() {
        return Err(Failure::new(
            Kind::NotFound,
            format_args!("{} does not exist", file.display()),
        ));
    }
    if !file.is_dir() {
        let what = "is not a directory, so no flexspace: flexspace create --from makes one of it";
        return Err(Failure::new(Kind::NotFound, format_args!("{} {what}", file.display())));
    }
    device::open(file, device::Options::default()).map_err(|error| failed(file, error.into()))
}

/// Refuses a space of another owner, which would find it changed.
fn refuse_owned(file: &Path, owner: Option<::mount::Owner>) -> Outcome {
    let Some(owner) = owner else { return Ok(()) };
    let file = file.display();
    Err(Failure::usage(format_args!(
        "{file} belongs to {owner}, which alone may open it; flexspace check verifies it"
    )))
}

/// Opens the space, has `work` done to it, and closes it; the first failure counts.
fn with_space<T>(
    file: &Path,
    work: impl FnOnce(&FlexSpace) -> Result<T, Failure>,
) -> Result<T, Failure> {
    refuse_owned(file, ::mount::owner_of(file))?;
    let space = FlexSpace::open(device_of(file)?, Options::default());
    let space = space.map_err(|error| failed(file, error))?;
    let answer = refuse_store(file, &space).and_then(|()| work(&space));
    let closed = space.close().map_err(|error| failed(file, error));
    let answer = answer?;
    closed?;
    Ok(answer)
}

/// Refuses a store that is in no database: one that is used by itself, or was copied.
fn refuse_store(file: &Path, space: &FlexSpace) -> Outcome {
    let mut begin = [0; 8];
    if space.len() < begin.len() as u64 {
        return Ok(());
    }
    match space.pread(0, &mut begin) {
        Ok(()) if ::mount::is_store(&begin) => refuse_owned(file, Some(::mount::store(file))),
        // The reader of damaged bytes gets the error.
        _ => Ok(()),
    }
}

/// Makes a change, and runs the collector as long as that is all it lacks.
fn change(space: &FlexSpace, mut make: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
    loop {
        match make() {
            Err(Error::Uncollected) => {
                if space.collect()?.segments == 0 {
                    // A commit of the collector may have freed the room that the change needs.
                    return make();
                }
            }
            made => return made,
        }
    }
}

/// The failure of a call, with the space that it was about.
fn failed(file: &Path, error: Error) -> Failure {
    use device::Error as Refused;
    let kind = match &error {
        Error::Device(Refused::NotFound { name }) if name != SUPERBLOCK => Kind::Damaged,
        Error::Device(Refused::NotFound { .. }) => Kind::NotFound,
        Error::Device(Refused::AlreadyExists { .. } | Refused::DanglingLink { .. }) => Kind::Usage,
        Error::Device(Refused::Locked { .. }) => Kind::InUse,
        Error::Corruption(_) => Kind::Damaged,
        Error::NewerVersion(_) => Kind::NewerVersion,
        Error::BehindTheEnd { .. } | Error::Options(_) => Kind::Usage,
        _ => Kind::Error,
    };
    let file = file.display();
    match error {
        Error::Device(Refused::NotFound { name }) if kind == Kind::NotFound => {
            Failure::new(kind, format_args!("{file} is no flexspace: it has no {name}"))
        }
        Error::Device(Refused::NotFound { name }) => {
            Failure::new(kind, format_args!("flexspace {file}: its file {name} is missing"))
        }
        Error::Device(Refused::Locked { .. }) => {
            Failure::new(kind, format_args!("{file} is open in another process"))
        }
        error => Failure::new(kind, format_args!("flexspace {file}: {error}")),
    }
}

/// Bytes that a user gives, their name, and their number if that is known.
struct Input {
    from: Box<dyn Read>,
    name: String,
    bytes: Option<u64>,
}

/// Opens the file that the user named; standard input, if none.
#[expect(clippy::disallowed_methods, reason = "the user's file, outside of any space")]
fn input(path: Option<&Path>) -> Result<Input, Failure> {
    match path {
        Some(path) if path != Path::new("-") => {
            let failed = |error: io::Error| Failure::io(path.display(), &error);
            let file = File::open(path).map_err(failed)?;
            let about = file.metadata().map_err(failed)?;
            let bytes = about.is_file().then_some(about.len());
            Ok(Input { from: Box::new(file), name: path.display().to_string(), bytes })
        }
        _ => {
            let name = "standard input".to_owned();
            Ok(Input { from: Box::new(io::stdin().lock()), name, bytes: None })
        }
    }
}

/// Fills `into` as far as there are bytes.
fn read_piece(from: &mut dyn Read, name: impl Display, into: &mut [u8]) -> Result<usize, Failure> {
    let mut count = 0;
    while count < into.len() {
        match from.read(&mut into[count..]) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Failure::io(name, &error)),
        }
    }
    Ok(count)
}
