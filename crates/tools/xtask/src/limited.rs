//! Runs a process in a group of its own, and ends the whole group if it prints nothing for too
//! long.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use environment::Environment;
use rustix::process::{Pid, Signal, kill_process_group};

/// Time between two looks at whether the process has ended.
const SLICE: Duration = Duration::from_millis(100);
/// Time for the lines that are still in the pipe when the process has ended. A process that
/// outlives its parent can keep the pipe open.
const DRAIN_MAX: Duration = Duration::from_secs(2);

/// How a process ended.
#[derive(Debug)]
pub(crate) enum End {
    /// By itself, or by a signal of another process.
    Exited(ExitStatus),
    /// It printed nothing for too long and was killed.
    Silent,
    /// It could not be started.
    Unstarted(String),
}

impl End {
    pub(crate) fn text(&self, silence_max: Option<Duration>) -> String {
        match self {
            Self::Exited(status) => format!("it ended with {status}"),
            Self::Silent => {
                let seconds = silence_max.unwrap_or_default().as_secs();
                format!("it printed nothing for {seconds} s and was ended")
            }
            Self::Unstarted(why) => format!("cannot run it: {why}"),
        }
    }
}

/// Runs `command` and calls `on_line` with each line of its output, its end of line included.
pub(crate) fn run(
    command: &mut Command,
    silence_max: Option<Duration>,
    mut on_line: impl FnMut(&[u8]),
) -> End {
    let clock = Environment::real();
    let spawned = command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => return End::Unstarted(error.to_string()),
    };
    let (sender, lines) = mpsc::channel();
    if let Some(output) = child.stdout.take() {
        // The thread is not joined: it lives for as long as a process keeps the pipe open.
        drop(clock.spawn("output", move || read(BufReader::new(output), &sender)));
    }
    let mut last = clock.now();
    loop {
        match lines.recv_timeout(SLICE) {
            Ok(line) => {
                on_line(&line);
                last = clock.now();
                continue;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => clock.sleep(SLICE),
        }
        if let Ok(Some(status)) = child.try_wait() {
            drain(&lines, &clock, on_line);
            return End::Exited(status);
        }
        if silence_max.is_some_and(|most| clock.now() - last >= most) {
            let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
            let _ = child.wait();
            drain(&lines, &clock, on_line);
            return End::Silent;
        }
    }
}

fn read(mut output: impl BufRead, lines: &Sender<Vec<u8>>) {
    let mut line = Vec::new();
    while output.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        if lines.send(std::mem::take(&mut line)).is_err() {
            return;
        }
    }
}

fn drain(lines: &Receiver<Vec<u8>>, clock: &Environment, mut on_line: impl FnMut(&[u8])) {
    let ended = clock.now();
    while clock.now() - ended < DRAIN_MAX {
        match lines.recv_timeout(DRAIN_MAX) {
            Ok(line) => on_line(&line),
            Err(_) => return,
        }
    }
}
