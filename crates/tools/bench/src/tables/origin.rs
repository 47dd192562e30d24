//! The build, the machine and the date of figures.

use std::fmt;
use std::process::Command;

use serde::{Deserialize, Serialize};

/// The build, the machine and the date of a comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The commit of the working directory; "with changes" if it differs outside `docs/`.
    pub commit: String,
    /// Processor, memory and kernel.
    pub machine: String,
    /// The day, in UTC.
    pub date: String,
}

impl Origin {
    /// The origin of a page that begins now. A part that the system does not have is "unknown".
    pub fn here() -> Self {
        let commit = output("git", &["rev-parse", "--short=12", "HEAD"]);
        let changes = output("git", &["status", "--porcelain", "--", ":/", ":(top,exclude)docs"]);
        let suffix = match changes.as_deref() {
            Some("") => "",
            Some(_) => " with changes",
            None => " with unknown changes",
        };
        Self {
            commit: commit.map_or_else(unknown, |commit| format!("{commit}{suffix}")),
            machine: machine(),
            date: output("date", &["-u", "+%F"]).unwrap_or_else(unknown),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Commit {}, {}, {}", self.commit, self.date, self.machine)
    }
}

fn unknown() -> String {
    "unknown".to_owned()
}

/// Returns the output of a program, or nothing if it cannot run or fails.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

fn machine() -> String {
    let field = |path: &str, name: &str| {
        let text = std::fs::read_to_string(path).ok()?;
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let processor = field("/proc/cpuinfo", "model name").unwrap_or_else(unknown);
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    let kib = field("/proc/meminfo", "MemTotal");
    let kib = kib.and_then(|text| text.trim_end_matches("kB").trim().parse::<f64>().ok());
    let memory = kib.map_or_else(unknown, |kib| format!("{:.0} GiB", kib / f64::from(1 << 20)));
    let kernel = output("uname", &["-sr"]).unwrap_or_else(unknown);
    format!("{processors} x {processor}, {memory}, {kernel}")
}
