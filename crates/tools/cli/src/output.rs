//! The printed output of commands: results, failures, progress.

use std::io::{self, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};
use thermocline::Corruption;

use crate::failure::{Failure, Outcome};

/// Writes a line of the result to standard output.
///
/// # Errors
/// A reader that has closed the pipe ends the process with success, as `| head` wants it; anything
/// else is a failure, since a result that was not delivered is none.
pub(crate) fn line(text: &str) -> Outcome {
    bytes(format!("{text}\n").as_bytes())
}

/// The same for any bytes.
pub(crate) fn bytes(bytes: &[u8]) -> Outcome {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => Err(Failure::io("standard output", &error)),
    }
}

/// The same for one JSON value on one line.
pub(crate) fn json_line(value: &Value) -> Outcome {
    line(&value.to_string())
}

/// Damage and its place, as JSON.
pub(crate) fn damage(damage: &Corruption) -> Value {
    json!({ "file": damage.file, "offset": damage.offset, "what": damage.what })
}

/// Says on standard error why a command failed.
pub(crate) fn report_failure(failure: &Failure, as_json: bool) {
    if as_json {
        let code = failure.kind as u8;
        eprintln!("{}", json!({ "error": failure.message, "exit_code": code }));
    } else {
        eprintln!("thermocline: {}", failure.message);
    }
}

/// A line on standard error that follows long work; it is there only on a terminal.
#[derive(Clone, Debug)]
pub(crate) struct Line(ProgressBar);

impl Line {
    /// Follows work on bytes.
    pub(crate) fn of_bytes(hidden: bool) -> Self {
        let target =
            if hidden { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(None, target);
        let template = "{spinner} {msg} {binary_bytes} of {binary_total_bytes}, {elapsed}";
        match ProgressStyle::with_template(template) {
            Ok(style) => Self(bar.with_style(style)),
            Err(_) => Self(bar),
        }
    }

    /// Shows the work under way, and its progress.
    pub(crate) fn at(&self, what: &'static str, bytes: u64, total_bytes: u64) {
        self.0.set_message(what);
        // The written bytes may be a little more than the estimate.
        self.0.set_length(total_bytes.max(bytes));
        self.0.set_position(bytes);
    }

    /// Takes the line away.
    pub(crate) fn clear(&self) {
        self.0.finish_and_clear();
    }
}

/// The same for work on pairs.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Follows work whose amount is not known: pairs so far, and their rate.
    pub(crate) fn of_pairs(verb: &'static str, hidden: bool) -> Self {
        let target =
            if hidden { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(None, target).with_message(verb);
        let template = "{spinner} {msg} {human_pos} pairs, {per_sec}, {elapsed}";
        match ProgressStyle::with_template(template) {
            Ok(style) => Self(bar.with_style(style)),
            Err(_) => Self(bar),
        }
    }

    /// Follows work on bytes, of which there are `all` if that is known.
    pub(crate) fn of_bytes(verb: &'static str, all: Option<u64>, hidden: bool) -> Self {
        let target =
            if hidden { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(all, target).with_message(verb);
        let template = match all {
            Some(_) => {
                "{spinner} {msg} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta}"
            }
            None => "{spinner} {msg} {binary_bytes}, {binary_bytes_per_sec}, {elapsed}",
        };
        match ProgressStyle::with_template(template) {
            Ok(style) => Self(bar.with_style(style)),
            Err(_) => Self(bar),
        }
    }

    /// Says how far the work is.
    pub(crate) fn at(&self, count: u64) {
        self.0.set_position(count);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Bytes in the largest unit that leaves a whole part.
pub(crate) fn human_bytes(bytes: u64) -> String {
    indicatif::BinaryBytes(bytes).to_string()
}
