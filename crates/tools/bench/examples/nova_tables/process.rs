//! Processes that this program starts. It ends them by their ids, and no others.
#![expect(clippy::disallowed_methods, reason = "outputs of processes are no files of a database")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::Outcome;
use crate::plan::Plan;

/// Lines of messages that an error quotes.
const QUOTED_LINES: usize = 8;

/// A process. Dropping it kills it.
pub(crate) struct Process {
    name: String,
    child: Child,
    /// The file of its output.
    output: PathBuf,
    /// The file of its messages.
    messages: PathBuf,
}

impl Process {
    /// Starts a process whose output and messages go to files in `dir`.
    pub(crate) fn start(name: &str, mut command: Command, dir: &Path) -> Outcome<Self> {
        let [output, messages] = ["out", "log"].map(|end| dir.join(format!("{name}.{end}")));
        let (to_output, to_messages) = (File::create(&output)?, File::create(&messages)?);
        command.stdin(Stdio::null()).stdout(to_output).stderr(to_messages);
        let program = command.get_program().display().to_string();
        let child = command.spawn().map_err(|error| format!("{name}: {program}: {error}"))?;
        Ok(Self { name: name.to_owned(), child, output, messages })
    }

    /// Returns whether it has printed that it serves.
    pub(crate) fn is_announced(&self) -> bool {
        let output = fs::read_to_string(&self.output).unwrap_or_default();
        output.contains("\"listening\"") && output.ends_with('\n')
    }

    /// Checks that it runs.
    ///
    /// # Errors
    /// It has ended: its last messages.
    pub(crate) fn check(&mut self) -> Outcome<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => {
                Err(format!("{} has ended: {status}\n{}", self.name, self.last_messages()).into())
            }
        }
    }

    /// Waits for its end. Returns its output.
    ///
    /// # Errors
    /// It fails, or takes longer than `limit`: its last messages.
    pub(crate) fn finish(mut self, plan: &Plan, limit: Duration) -> Outcome<String> {
        let status = plan
            .wait_for((&format!("{} ends", self.name), limit), || Ok(self.child.try_wait()?))?;
        match status.success() {
            true => Ok(fs::read_to_string(&self.output)?),
            false => Err(format!("{}: {status}\n{}", self.name, self.last_messages()).into()),
        }
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) -> Outcome<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Returns the bytes that it has written to devices so far.
    pub(crate) fn written_bytes(&self) -> Outcome<u64> {
        let path = format!("/proc/{}/io", self.child.id());
        let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let found = text.lines().find_map(|line| line.strip_prefix("write_bytes: "));
        let found = found.ok_or_else(|| format!("{path} has no line write_bytes"))?;
        Ok(found.trim().parse()?)
    }

    fn last_messages(&self) -> String {
        let messages = fs::read_to_string(&self.messages).unwrap_or_default();
        let lines: Vec<&str> = messages.lines().collect();
        let last = lines.len().saturating_sub(QUOTED_LINES);
        lines.get(last..).unwrap_or_default().join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Locks a directory until the end of the program.
///
/// # Errors
/// Another run has it: its clusters would be mixed with those of this one.
pub(crate) fn lock(dir: &Path) -> Outcome<File> {
    let file = File::create(dir.join("LOCK"))?;
    file.try_lock().map_err(|error| format!("another run has {}: {error}", dir.display()))?;
    Ok(file)
}

/// Runs a command to its end. Returns its output.
///
/// # Errors
/// It fails, or takes longer than `limit`.
pub(crate) fn run(plan: &Plan, name: &str, command: Command, limit: Duration) -> Outcome<String> {
    Process::start(name, command, &plan.dir)?.finish(plan, limit)
}
