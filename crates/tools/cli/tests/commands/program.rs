//! Runs the binary and keeps what it said.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// The output and the exit code of a run.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) err: String,
}

impl Said {
    /// The only line of JSON on standard output.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A command of the binary under test, with none of our variables set.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thermocline"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("THERMOCLINE_")) {
        command.env_remove(name);
    }
    command
}

/// Runs it to its end with nothing on standard input.
pub(crate) fn run<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Said {
    finish(command().args(arguments), b"")
}

/// Runs `name DIR REST...`.
pub(crate) fn on(name: &str, dir: &Path, rest: &[&str]) -> Said {
    finish(command().arg(name).arg(dir).args(rest), b"")
}

/// Runs a prepared command to its end with `input` on standard input.
pub(crate) fn finish(command: &mut Command, input: &[u8]) -> Said {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut stdin = child.stdin.take().expect("it was piped");
    // It may end before it has read everything; the test looks at its output then.
    let _ = stdin.write_all(input);
    drop(stdin);
    let output = child.wait_with_output().expect("the binary ends");
    Said {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        bytes: output.stdout,
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A small file system, for tests of a full device; removed at the end.
pub(crate) struct Small(PathBuf);

impl Small {
    /// Mounts one of that size over the directory `at`. Returns none if that is not allowed, and
    /// prints this.
    pub(crate) fn mount(at: &Path, size: &str) -> Option<Self> {
        let size = format!("size={size}");
        let mut mount = Command::new("mount");
        let said = finish(mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(at), b"");
        if said.code != 0 {
            let _ = writeln!(std::io::stderr(), "skipped: no tmpfs can be mounted: {}", said.err);
            return None;
        }
        Some(Self(at.to_owned()))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
