//! One run in a process of its own.

use std::env;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use super::{Abilities, CompareConfig, PROTOCOL, Side, Turn, parted};
use crate::report::{Report, read_reports};
use crate::run::data_dir;
use crate::stores::is_ours;

/// Names the peers' program; without it the program is searched under `peers/target/release`.
const PEERS_VARIABLE: &str = "THERMOCLINE_PEERS";
const PEERS_PATH: &str = "peers/target/release/thermocline-peers";
const SIGKILL: i32 = 9;

/// The programs that run stores: both understand `bench run` with the same options.
#[derive(Clone, Debug)]
pub struct Programs {
    /// Runs ours.
    pub ours: PathBuf,
    /// Runs theirs.
    pub peers: PathBuf,
    /// Another build of ours, if it takes turns with this one.
    pub baseline: Option<PathBuf>,
}

/// Why a run gave no report, or a comparison could not begin.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    /// The program cannot do the work of a comparison.
    #[error(
        "{path} speaks another protocol than this program ({PROTOCOL}): build both from sources that agree",
        path = .0.display()
    )]
    Protocol(PathBuf),
    /// The directory for reports.
    #[error("{path}: {1}", path = .0.display())]
    Scratch(PathBuf, io::Error),
    /// The program is not there, or cannot be started.
    #[error("cannot start {program}: {1}", program = .0.display())]
    Start(PathBuf, io::Error),
    /// The kernel killed it.
    #[error("killed: it needed more memory than its budget allows")]
    Killed,
    /// The kernel killed it while it made the load of its runs.
    #[error("killed in its load: it needed more memory than its budget allows")]
    KilledInLoad,
    /// It failed, in its own words.
    #[error("{1} ({0})")]
    Failed(ExitStatus, String),
    /// It ended well and left no report.
    #[error("it wrote no report: {0}")]
    Report(io::Error),
}

impl Programs {
    /// Returns this program for ours; for theirs, the one that the environment names, or the one
    /// that is built in the working directory.
    ///
    /// # Errors
    /// The path of this program is not known.
    pub fn find() -> io::Result<Self> {
        let peers = env::var_os(PEERS_VARIABLE).unwrap_or_else(|| OsString::from(PEERS_PATH));
        Ok(Self { ours: env::current_exe()?, peers: peers.into(), baseline: None })
    }

    /// Why peers cannot be run, if they cannot.
    pub fn missing_peers(&self) -> Option<String> {
        (!self.peers.is_file()).then(|| {
            format!(
                "the peers' program is not at {}: build it with `./dev bench --with ...`, or by \
                 `peers/install.sh && cargo build --release --manifest-path peers/Cargo.toml`, or \
                 name it in {PEERS_VARIABLE}",
                self.peers.display()
            )
        })
    }

    /// Asks all programs that `config` needs.
    ///
    /// # Errors
    /// One is missing, or speaks another protocol.
    pub(super) fn ask(&self, config: &CompareConfig) -> Result<Known, ChildError> {
        let has_peers = config.with.iter().any(|store| !is_ours(store));
        let baseline = match (&self.baseline, config.has_baseline) {
            (Some(program), true) => Some(Abilities::ask(program)?),
            _ => None,
        };
        let peers = has_peers.then(|| Abilities::ask(&self.peers)).transpose()?;
        Ok(Known { ours: Abilities::ask(&self.ours)?, peers, baseline })
    }

    /// Runs a turn, and reads its reports, which a run with wrong results writes too. With `loads`
    /// it begins from the load there that is right for it, which is made if it is missing.
    pub(super) fn run(
        &self,
        turn: &Turn,
        report: &Path,
        loads: Option<Loads<'_>>,
    ) -> Result<Vec<Report>, ChildError> {
        let mut more = Vec::new();
        if let Some(Loads { path, is_in_place }) = loads {
            let path = match turn.side {
                Side::Baseline if is_in_place => path.join("baseline"),
                Side::Baseline | Side::Ours | Side::Peers => path.to_owned(),
            };
            more.push(format!("--loads={}", path.display()));
            let loader = self.loader(turn.side, is_in_place);
            let ended = self.start((turn, loader), "prepare", &more)?;
            if !ended.status.success() {
                return Err(match ended.failure() {
                    ChildError::Killed => ChildError::KilledInLoad,
                    other => other,
                });
            }
            more.extend(is_in_place.then(|| "--in-place".to_owned()));
        }
        more.push(format!("--json={}", report.display()));
        let ended = self.start((turn, turn.side), "run", &more)?;
        let is_right = |reports: &Vec<Report>| reports.iter().all(Report::is_right);
        match read_reports(report) {
            Ok(reports) if reports.len() != turn.workloads.len() => {
                Err(ChildError::Report(io::ErrorKind::InvalidData.into()))
            }
            Ok(reports) if ended.status.success() || !is_right(&reports) => Ok(reports),
            _ if !ended.status.success() => Err(ended.failure()),
            Ok(reports) => Ok(reports),
            Err(error) => Err(ChildError::Report(error)),
        }
    }

    /// The program of `side`.
    pub(super) fn program(&self, side: Side) -> &Path {
        match side {
            Side::Ours => &self.ours,
            Side::Peers => &self.peers,
            Side::Baseline => self.baseline.as_ref().unwrap_or(&self.ours),
        }
    }

    /// Returns the side whose program makes the load of a run. Two builds begin from copies of one
    /// load, which the baseline makes: two loads of one build differ in shape, and so in the cost
    /// of reads. A load that is opened in place is measured, so each build makes its own.
    pub(super) fn loader(&self, side: Side, is_in_place: bool) -> Side {
        match side {
            Side::Ours if self.baseline.is_some() && !is_in_place => Side::Baseline,
            side => side,
        }
    }

    /// Starts a child for `turn` by the program of a side, waits for it, and passes the lines of
    /// its standard error on.
    fn start(
        &self,
        (turn, side): (&Turn, Side),
        command: &str,
        more: &[String],
    ) -> Result<Ended, ChildError> {
        let program = self.program(side);
        let failed = |error| ChildError::Start(program.to_owned(), error);
        let mut child = Command::new(program)
            .args(["bench", command])
            .args(&turn.options)
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let data = data_of(turn, child.id());
        let mut said = String::new();
        for line in child.stderr.take().into_iter().flat_map(|out| BufReader::new(out).split(b'\n'))
        {
            let Ok(line) = line else { break };
            let line = String::from_utf8_lossy(&line);
            if !line.trim().is_empty() {
                eprintln!("  {} {}: {line}", turn.workload(), turn.store);
                said = line.trim().to_owned();
            }
        }
        let status = child.wait().map_err(failed)?;
        // One that was killed has left its data; all others have removed them.
        let _ = std::fs::remove_dir_all(data);
        Ok(Ended { status, said })
    }
}

/// A directory with loads that a child begins from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loads<'a> {
    pub(super) path: &'a Path,
    /// Whether the child opens the load in place.
    pub(super) is_in_place: bool,
}

/// A child that has ended.
struct Ended {
    status: ExitStatus,
    /// The last line of its standard error.
    said: String,
}

impl Ended {
    /// Why it did not succeed.
    fn failure(self) -> ChildError {
        if self.status.signal() == Some(SIGKILL) {
            return ChildError::Killed;
        }
        let silent = self.said.is_empty();
        let said = if silent { "it said nothing".to_owned() } else { self.said };
        ChildError::Failed(self.status, said)
    }
}

/// The abilities of the programs of a comparison.
pub(super) struct Known {
    ours: Abilities,
    peers: Option<Abilities>,
    baseline: Option<Abilities>,
}

impl Known {
    /// Whether the store of `turn` obeys `--cache`.
    pub(super) fn sizes_cache(&self, turn: &Turn) -> bool {
        let abilities = match turn.side {
            Side::Ours => Some(&self.ours),
            Side::Peers => self.peers.as_ref(),
            Side::Baseline => self.baseline.as_ref(),
        };
        abilities.is_some_and(|abilities| abilities.sizes_cache(parted(&turn.store).0))
    }
}

/// Returns the directory in which the process `pid` puts the data of `turn`.
fn data_of(turn: &Turn, pid: u32) -> PathBuf {
    let option = |name| turn.options.iter().rev().find_map(|option| option.strip_prefix(name));
    let engine = option("--engine=").unwrap_or_default();
    data_dir(option("--dir=").map(Path::new), engine, pid)
}
