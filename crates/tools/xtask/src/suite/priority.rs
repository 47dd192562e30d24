//! The scheduling of a process: usual, low, or only while a processor is idle.
//!
//! Linux has a class of processes (`SCHED_IDLE`) that run only on a processor with nothing else to
//! do. A process that wakes up there gets the processor immediately. Tests whose threads wait for
//! each other took 1.3 times as long next to a process of niceness 10, and 1.04 times as long next
//! to one of this class. Only models and builds run in it: a test with a deadline would miss it
//! next to a test that takes all processors. In a container with a quota of processor time, these
//! processes take a part of the quota.

use std::process::{Command, Stdio};
use std::sync::LazyLock;

/// How a process is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Priority {
    Usual,
    /// Gets a tenth of the processor time where a usual process wants all of it.
    Low,
    /// Runs only while a processor is idle, or at the lowest niceness if the system has no such
    /// class.
    Idle,
}

const IDLE: &[&str] = &["chrt", "--idle", "0"];
const LOW: &[&str] = &["nice", "-n", "10"];
const LOWEST: &[&str] = &["nice", "-n", "19"];

static HAS_IDLE: LazyLock<bool> = LazyLock::new(|| {
    let tried = started_by(IDLE, "true").stdout(Stdio::null()).stderr(Stdio::null()).status();
    tried.is_ok_and(|status| status.success())
});

impl Priority {
    /// Returns the priority of what runs next to a process of this one, and takes what it leaves.
    pub(super) fn second(self) -> Self {
        match self {
            Self::Usual => Self::Low,
            Self::Low | Self::Idle => self,
        }
    }

    /// Returns a command that runs `program` at this priority.
    pub(super) fn command(self, program: &str) -> Command {
        match self {
            Self::Usual => Command::new(program),
            Self::Low => started_by(LOW, program),
            Self::Idle if *HAS_IDLE => started_by(IDLE, program),
            Self::Idle => started_by(LOWEST, program),
        }
    }
}

fn started_by(starter: &[&str], program: &str) -> Command {
    let mut command = Command::new(starter[0]);
    command.args(&starter[1..]).arg(program);
    command
}
