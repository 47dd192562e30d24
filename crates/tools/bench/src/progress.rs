//! A progress line on the terminal. If standard error is no terminal, as in a comparison's
//! children, a run that waits for something writes a line each [`SAID_EVERY`].

use std::io::IsTerminal;
use std::time::Duration;

use environment::{Environment, Monotonic};
use indicatif::{ProgressBar, ProgressStyle};
use sync::locks::Mutex;

use crate::run::Progress;

/// Time between two lines about the same wait.
const SAID_EVERY: Duration = Duration::from_secs(10);

/// Draws the current phase.
#[derive(Debug)]
pub struct TerminalProgress {
    env: Environment,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    phase: String,
    /// When this phase began, and when a line was last written about it.
    begun: Monotonic,
    said: Monotonic,
    waits: String,
    bar: Option<ProgressBar>,
}

/// Says nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn begin(&self, _phase: &str, _total: Option<u64>) {}
    fn at(&self, _operations: u64, _ops_per_s: f64) {}
    fn waits(&self, _what: &str) {}
    fn end(&self) {}
}

impl TerminalProgress {
    /// Draws by the clock of `env`.
    pub fn new(env: &Environment) -> Self {
        let now = env.now();
        let (phase, waits) = (String::new(), String::new());
        let state = State { phase, begun: now, said: now, waits, bar: None };
        Self { env: env.clone(), state: Mutex::new(state) }
    }
}

impl Progress for TerminalProgress {
    fn begin(&self, phase: &str, total: Option<u64>) {
        let now = self.env.now();
        let mut state = self.state.lock();
        if state.phase != phase {
            phase.clone_into(&mut state.phase);
            state.waits.clear();
            (state.begun, state.said) = (now, now);
        }
        if !std::io::stderr().is_terminal() {
            return;
        }
        let (bar, template) = match total {
            Some(total) => {
                (ProgressBar::new(total), "{prefix:>13} {bar:30} {percent:>3}% {msg} {eta:>4} left")
            }
            None => (ProgressBar::new_spinner(), "{prefix:>13} {spinner} {elapsed:>4} {msg}"),
        };
        // The templates are constants; were one wrong, the plain style would be drawn.
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_prefix(phase.to_owned());
        bar.enable_steady_tick(Duration::from_millis(250));
        state.bar = Some(bar);
    }

    fn at(&self, operations: u64, ops_per_s: f64) {
        let state = self.state.lock();
        if let Some(bar) = &state.bar {
            bar.set_position(operations);
            let done = format!("{operations} ops, {ops_per_s:.0}/s");
            bar.set_message(match state.waits.is_empty() {
                true => done,
                false => format!("{done}, waits for {}", state.waits),
            });
        }
    }

    fn waits(&self, what: &str) {
        let now = self.env.now();
        let mut state = self.state.lock();
        what.clone_into(&mut state.waits);
        if let Some(bar) = &state.bar {
            bar.set_message(format!("waits for {what}"));
        } else if now - state.said >= SAID_EVERY && !std::io::stderr().is_terminal() {
            state.said = now;
            eprintln!("{}, {:.0} s: {what}", state.phase, (now - state.begun).as_secs_f64());
        }
    }

    fn end(&self) {
        if let Some(bar) = self.state.lock().bar.take() {
            bar.finish_and_clear();
        }
    }
}
