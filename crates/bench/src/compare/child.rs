//! One run in a process of its own.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};

use super::Turn;
use crate::report::{Report, read_json};
use crate::run::data_dir;

/// Names the peers' program; else it is looked for under `peers/target/release`.
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
}

/// Why a run gave no report.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    /// The program is not there, or cannot be started.
    #[error("cannot start {program}: {1}", program = .0.display())]
    Start(PathBuf, io::Error),
    /// The kernel killed it.
    #[error("killed: it needed more memory than its budget allows")]
    Killed,
    /// It failed, in its own words.
    #[error("{1} ({0})")]
    Failed(ExitStatus, String),
    /// It ended well and left no report.
    #[error("it wrote no report: {0}")]
    Report(io::Error),
}

impl Programs {
    /// This program for ours; for theirs, what the environment names, or what is built in the
    /// working directory.
    ///
    /// # Errors
    /// The path of this program is not known.
    pub fn find() -> io::Result<Self> {
        let peers = env::var_os(PEERS_VARIABLE).unwrap_or_else(|| OsString::from(PEERS_PATH));
        Ok(Self { ours: env::current_exe()?, peers: peers.into() })
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

    /// Runs a turn, and reads its report, which a run with wrong answers writes too. With `loads` it
    /// begins from the load there that is right for it, which is made if it is missing.
    pub(super) fn run(
        &self,
        turn: &Turn,
        report: &Path,
        loads: Option<&Path>,
    ) -> Result<Report, ChildError> {
        let loads = loads.map(|loads| format!("--loads={}", loads.display()));
        if let Some(loads) = &loads {
            let output = self.start(turn, "prepare", std::slice::from_ref(loads))?;
            if !output.status.success() {
                return Err(failure(&output));
            }
        }
        let json = format!("--json={}", report.display());
        let more: Vec<String> = loads.into_iter().chain([json]).collect();
        let output = self.start(turn, "run", &more)?;
        match read_json(report) {
            Ok(report) if output.status.success() || !report.is_right() => Ok(report),
            _ if !output.status.success() => Err(failure(&output)),
            Ok(report) => Ok(report),
            Err(error) => Err(ChildError::Report(error)),
        }
    }

    /// Starts a child for `turn`, and waits for it.
    fn start(&self, turn: &Turn, command: &str, more: &[String]) -> Result<Output, ChildError> {
        let program = if turn.ours { &self.ours } else { &self.peers };
        let failed = |error| ChildError::Start(program.clone(), error);
        let child = Command::new(program)
            .args(["bench", command])
            .args(&turn.options)
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let data = data_of(turn, child.id());
        let output = child.wait_with_output().map_err(failed)?;
        // One that was killed has left its data; all others have removed them.
        let _ = std::fs::remove_dir_all(data);
        Ok(output)
    }
}

/// Why a child did not succeed.
fn failure(output: &Output) -> ChildError {
    if output.status.signal() == Some(SIGKILL) {
        return ChildError::Killed;
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.trim().lines().last().unwrap_or("it said nothing").to_owned();
    ChildError::Failed(output.status, last)
}

/// Where the process `pid` puts the data of `turn`.
fn data_of(turn: &Turn, pid: u32) -> PathBuf {
    let option = |name| turn.options.iter().rev().find_map(|option| option.strip_prefix(name));
    let engine = option("--engine=").unwrap_or_default();
    data_dir(option("--dir=").map(Path::new), engine, pid)
}
