//! A progress line on the terminal; silent when standard error is none.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;

use crate::run::Progress;

/// Draws the current phase.
#[derive(Debug, Default)]
pub struct TerminalProgress {
    bar: Mutex<Option<ProgressBar>>,
}

/// Says nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn begin(&self, _phase: &str, _total: Option<u64>) {}
    fn at(&self, _operations: u64, _ops_per_s: f64) {}
    fn end(&self) {}
}

impl Progress for TerminalProgress {
    fn begin(&self, phase: &str, total: Option<u64>) {
        if !std::io::stderr().is_terminal() {
            return;
        }
        let (bar, template) = match total {
            Some(total) => {
                (ProgressBar::new(total), "{prefix:>12} {bar:30} {percent:>3}% {msg} {eta:>4} left")
            }
            None => (ProgressBar::new_spinner(), "{prefix:>12} {spinner} {elapsed:>4} {msg}"),
        };
        // The templates are constants; were one wrong, the plain style would be drawn.
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_prefix(phase.to_owned());
        bar.enable_steady_tick(Duration::from_millis(250));
        *self.bar.lock() = Some(bar);
    }

    fn at(&self, operations: u64, ops_per_s: f64) {
        if let Some(bar) = &*self.bar.lock() {
            bar.set_position(operations);
            bar.set_message(format!("{operations} ops, {ops_per_s:.0}/s"));
        }
    }

    fn end(&self) {
        if let Some(bar) = self.bar.lock().take() {
            bar.finish_and_clear();
        }
    }
}
