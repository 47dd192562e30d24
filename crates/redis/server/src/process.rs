//! The operating system's figures of this process: memory, time, threads, files.
//!
//! It is read from `/proc/self`; if there is none, the figures are absent.

use std::fmt::Write as _;
use std::fs;

/// Figures of the process at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    /// Memory that is resident now, and the most that ever was.
    pub(crate) resident_bytes: u64,
    pub(crate) resident_bytes_peak: u64,
    /// Processor time in and outside the kernel.
    pub(crate) user_s: f64,
    pub(crate) system_s: f64,
    pub(crate) threads: u64,
}

impl Process {
    /// The figures now.
    pub(crate) fn now() -> Option<Self> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        parse(&stat, &status)
    }

    /// The figures under the names that Prometheus's own clients give them; `started_s` is when it
    /// started, in seconds since the epoch.
    pub(crate) fn render_prometheus(&self, started_s: u64) -> String {
        let mut text = String::new();
        let mut metric = |name: &str, kind: &str, help: &str, value: &dyn std::fmt::Display| {
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "# HELP process_{name} {help}\n# TYPE process_{name} {kind}\nprocess_{name} {value}"
            );
        };
        let cpu_s = self.user_s + self.system_s;
        let resident_help = "Memory that is resident, in bytes.";
        metric("cpu_seconds_total", "counter", "Processor time, in seconds.", &cpu_s);
        metric("resident_memory_bytes", "gauge", resident_help, &self.resident_bytes);
        metric("start_time_seconds", "gauge", "When the process started.", &started_s);
        metric("threads", "gauge", "Threads.", &self.threads);
        if let Ok(files) = fs::read_dir("/proc/self/fd") {
            metric("open_fds", "gauge", "Open file descriptors.", &files.count());
        }
        text
    }
}

/// Reads `stat`, whose fields are counted from behind the parenthesised name (the third is the
/// first there), and the peak from `status`.
fn parse(stat: &str, status: &str) -> Option<Process> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = after_name.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let second_ticks = rustix::param::clock_ticks_per_second() as f64;
    let resident_bytes = field(24)? * rustix::param::page_size() as u64;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak_kib = peak.and_then(|rest| rest.split_ascii_whitespace().next()?.parse::<u64>().ok());
    Some(Process {
        resident_bytes,
        resident_bytes_peak: peak_kib.map_or(0, |kib| kib * 1024).max(resident_bytes),
        user_s: field(14)? as f64 / second_ticks,
        system_s: field(15)? as f64 / second_ticks,
        threads: field(20)?,
    })
}

#[cfg(test)]
mod tests;
