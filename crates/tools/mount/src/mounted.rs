//! A mount, from its beginning to its end.
//!
//! 1. The source is found and locked; an error says in helpful words why it cannot be mounted.
//! 2. Threads take the kernel's requests. Another one makes changes durable, every few seconds, and
//!    runs collectors.
//! 3. It ends when it is unmounted, or asked to stop: then it unmounts itself, lazily if files are
//!    open. All spaces are stored, and closed.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};

use std::time::Duration;

use environment::{Environment, JoinHandle};
use fuser::{Config, MountOption, Session, SessionACL, SessionUnmounter};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::names::Names;
use crate::owner::{self, Owner};
use crate::requests::Requests;
use crate::source::Source;

/// Time after which changes are made durable without a request, as in ext4.
const SYNC_EVERY: Duration = Duration::from_secs(5);
/// How long the kernel may take to say that a mount is over which it has agreed to end.
const END_WITHIN: Duration = Duration::from_secs(5);
/// Threads that take requests: calls that wait for the storage do not hold up calls that do not.
const THREADS: usize = 4;

/// The kernel's side of all file systems in user space.
const DEVICE: &str = "/dev/fuse";

/// Is called with failures that no caller has caused.
pub type Report = Box<dyn Fn(&str) + Send + Sync>;

/// How something is mounted.
pub struct Options {
    /// Bytes of a segment of spaces that are made (`flexspace::space::Options::segment_bytes`).
    pub segment_bytes: u32,
    /// Whether users other than the mounting one may use it. Requires root, or `user_allow_other`
    /// in `/etc/fuse.conf`.
    pub allow_other: bool,
    /// Whether nothing may be changed.
    pub read_only: bool,
    /// Is called with failures.
    pub report: Report,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Options").field("read_only", &self.read_only).finish_non_exhaustive()
    }
}

/// Why something could not be mounted, or not be ended well.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is nothing of that name.
    #[error("{} does not exist", path.display())]
    NotFound {
        /// The name.
        path: PathBuf,
    },
    /// Something else has it open, or mounted.
    #[error("{} is mounted already, or open in another process", path.display())]
    Busy {
        /// The path in question.
        path: PathBuf,
    },
    /// It belongs to a database, to a backup, or to a store; only these know the meaning of its
    /// bytes.
    #[error("{} belongs to {owner}, which alone may open it", path.display())]
    Owned {
        /// The path in question.
        path: PathBuf,
        /// The owner of its bytes.
        owner: Owner,
    },
    /// The mountpoint is no directory, or one that must not be hidden.
    #[error("{}: {why}", at.display())]
    Mountpoint {
        /// The mountpoint.
        at: PathBuf,
        /// The reason why it is refused.
        why: &'static str,
    },
    /// This system has no file systems in user space.
    #[error("there is no {DEVICE}: the kernel needs its module fuse (as root: modprobe fuse)")]
    NoDevice,
    /// Only root mounts without the program.
    #[error(
        "mounting without being root needs the program fusermount3 (Debian, Ubuntu: apt install \
         fuse3)"
    )]
    NoProgram,
    /// The system refused something else.
    #[error("{what}: {error}")]
    System {
        /// The operation that failed.
        what: String,
        /// The system's error.
        error: std::io::Error,
    },
    /// A space could not be stored; synced changes are there.
    #[error("not everything was stored: {why}")]
    NotStored {
        /// Why.
        why: String,
    },
}

enum Event {
    Stop,
    Ended,
}

/// A mounted space or directory of spaces.
pub struct Mounted {
    at: PathBuf,
    names: Arc<Names>,
    unmounter: SessionUnmounter,
    session: JoinHandle<()>,
    /// Ends when its sender is dropped.
    tidying: (Sender<()>, JoinHandle<()>),
    events: (Sender<Event>, Receiver<Event>),
}

impl std::fmt::Debug for Mounted {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Mounted").field("at", &self.at).finish_non_exhaustive()
    }
}

/// Asks a mount to end.
#[derive(Clone, Debug)]
pub struct Stopper(Sender<Event>);

impl std::fmt::Debug for Event {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Stop => "Stop",
            Self::Ended => "Ended",
        })
    }
}

impl Stopper {
    /// Asks it; [`Mounted::wait`] returns when it is done.
    pub fn stop(&self) {
        // If the send fails, no thread waits any more, and the mount has ended.
        let _ = self.0.send(Event::Stop);
    }
}

/// Mounts the space or the directory of spaces at `source`, so that it is seen at the directory
/// `at`.
///
/// # Errors
/// The reason why it cannot be mounted.
pub fn mount(
    source: &Path,
    at: &Path,
    environment: &Environment,
    options: Options,
) -> Result<Mounted, Error> {
    if let Some(owner) = owner::owner_of(source).or_else(|| owner::store_in(source)) {
        return Err(Error::Owned { path: source.to_owned(), owner });
    }
    if !Path::new(DEVICE).exists() {
        return Err(Error::NoDevice);
    }
    let refused = |errno| match errno {
        Errno::NOENT => Error::NotFound { path: source.to_owned() },
        Errno::WOULDBLOCK => Error::Busy { path: source.to_owned() },
        errno => Error::System { what: source.display().to_string(), error: errno.into() },
    };
    let found = Source::new(source, options.segment_bytes).map_err(refused)?;
    if !options.read_only {
        found.remove_leftovers().map_err(refused)?;
    }
    let at = check_mountpoint(&found, at)?;
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(found.dir().display().to_string()),
        MountOption::Subtype("flexspace".to_owned()),
        MountOption::DefaultPermissions,
        MountOption::NoSuid,
        MountOption::NoDev,
        MountOption::NoAtime,
        if options.read_only { MountOption::RO } else { MountOption::RW },
    ];
    config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(THREADS);
    let names = Arc::new(Names::new(found, environment.clone(), options.report));
    let session = Session::new(Requests::new(names.clone()), &at, &config);
    let mut session = session.map_err(|error| match error.kind() {
        ErrorKind::NotFound => Error::NoProgram,
        _ => Error::System { what: format!("mounting at {}", at.display()), error },
    })?;
    let unmounter = session.unmount_callable();
    let events = mpsc::channel();
    let ended = events.0.clone();
    let no_thread = |error| Error::System { what: "a thread".to_owned(), error };
    let session = environment
        .spawn("mount", move || {
            // However it ended, it is over.
            let _ = session.run();
            let _ = ended.send(Event::Ended);
        })
        .map_err(no_thread)?;
    let (stop, stopped) = mpsc::channel();
    let tidied = names.clone();
    let tidying = environment
        .spawn("tidy", move || {
            while stopped.recv_timeout(SYNC_EVERY) == Err(RecvTimeoutError::Timeout) {
                tidied.tidy();
            }
        })
        .map_err(no_thread)?;
    Ok(Mounted { at, names, unmounter, session, tidying: (stop, tidying), events })
}

/// Returns the mountpoint, if it is a directory that neither hides the source nor is inside it.
fn check_mountpoint(source: &Source, at: &Path) -> Result<PathBuf, Error> {
    let wrong = |why| Error::Mountpoint { at: at.to_owned(), why };
    let about = std::fs::metadata(at).or_else(|error| {
        // A mount whose process was killed left this; only a mount without a process is removed.
        let is_left = error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error());
        if is_left && rustix::mount::unmount(at, UnmountFlags::DETACH).is_ok() {
            return std::fs::metadata(at);
        }
        Err(error)
    });
    let about = about.map_err(|error| match error.kind() {
        ErrorKind::NotFound => wrong("does not exist; make an empty directory"),
        _ if error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error()) => {
            wrong("a mount that was killed is in its place: fusermount3 -u takes it away")
        }
        _ => Error::System { what: at.display().to_string(), error },
    })?;
    if !about.is_dir() {
        return Err(wrong("is no directory"));
    }
    let failed = |error| Error::System { what: at.display().to_string(), error };
    let at = at.canonicalize().map_err(failed)?;
    let dir = source.dir();
    if at.starts_with(&dir) || dir.starts_with(&at) {
        return Err(wrong("is inside the directory to be mounted, or contains it"));
    }
    Ok(at)
}

impl Mounted {
    /// Returns the mountpoint.
    pub fn at(&self) -> &Path {
        &self.at
    }

    /// Returns a handle that ends the mount.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.events.0.clone())
    }

    /// Waits until it is unmounted or asked to stop, and stores everything. Programs that still
    /// have files open then cannot use them any more.
    ///
    /// # Errors
    /// [`Error::NotStored`].
    pub fn wait(mut self) -> Result<(), Error> {
        let mut has_ended = matches!(self.events.1.recv(), Ok(Event::Ended));
        if !has_ended {
            match self.unmounter.unmount() {
                Ok(()) => {
                    let event = self.events.1.recv_timeout(END_WITHIN);
                    has_ended = matches!(event, Ok(Event::Ended));
                }
                // Files are open: their names go now, and they with this process.
                Err(_) => drop(rustix::mount::unmount(&self.at, UnmountFlags::DETACH)),
            }
        }
        drop(self.tidying.0);
        let tidied = self.tidying.1.join();
        let closed = self.names.close();
        if has_ended {
            let _ = self.session.join();
        }
        closed.map_err(|refusal| Error::NotStored { why: refusal.to_string() })?;
        tidied.map_err(|_| Error::NotStored { why: "a thread panicked".to_owned() })
    }
}
