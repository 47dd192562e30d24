//! One process of the cluster: its starts, its signals, and the files of its output.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::sigkill;

/// Lines of messages that an error quotes.
const QUOTED_LINES: usize = 20;

/// A process. Dropping it kills it.
pub(crate) struct Process {
    pub(crate) name: String,
    command: Command,
    /// The file of its output, which each start begins again.
    output: PathBuf,
    /// The file of its messages, to which each start appends.
    messages: PathBuf,
    child: Option<Child>,
}

impl Process {
    /// Returns a process that was not started yet. Its files are in `dir`.
    pub(crate) fn new(name: String, command: Command, dir: &Path) -> Self {
        let [output, messages] = ["out", "log"].map(|end| dir.join(format!("{name}.{end}")));
        Self { name, command, output, messages, child: None }
    }

    pub(crate) fn start(&mut self) {
        let output = File::create(&self.output).unwrap();
        let messages = File::options().create(true).append(true).open(&self.messages).unwrap();
        let command = self.command.stdin(Stdio::null()).stdout(output).stderr(messages);
        let started = command.spawn();
        self.child = Some(started.unwrap_or_else(|error| {
            panic!("{}: {error}: the program {:?}", self.name, self.command.get_program())
        }));
    }

    /// Returns whether it has printed, since its last start, the line that it serves.
    pub(crate) fn is_announced(&self) -> bool {
        let output = fs::read_to_string(&self.output).unwrap_or_default();
        output.contains("\"listening\"") && output.ends_with('\n')
    }

    /// Kills it. It must have run until then.
    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        sigkill::kill(&mut child);
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// Returns how it has ended, if it has.
    fn ended(&mut self) -> Option<ExitStatus> {
        self.child.as_mut()?.try_wait().unwrap()
    }

    /// Checks that it runs, and that none of its threads has panicked.
    ///
    /// # Errors
    /// Its last messages.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        let ended = self.ended();
        let messages = fs::read(&self.messages).unwrap_or_default();
        let messages = String::from_utf8_lossy(&messages);
        let fault = match ended {
            Some(status) => format!("has ended by itself: {status}"),
            None if messages.contains("panicked at") => "has a thread that panicked".to_owned(),
            None => return Ok(()),
        };
        let lines: Vec<&str> = messages.lines().collect();
        let last = lines.get(lines.len().saturating_sub(QUOTED_LINES)..).unwrap_or_default();
        Err(format!("{} {fault}\n{}", self.name, last.join("\n")))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
