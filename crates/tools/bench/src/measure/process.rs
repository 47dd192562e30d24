//! The operating system's counts of this process.
//!
//! Off Linux, or if `/proc` is closed, the counts are zero.
#![expect(clippy::disallowed_methods, reason = "/proc is no storage of the database")]

use std::path::Path;
use std::{fs, io};

use rustix::time::{ClockId, clock_gettime};

use crate::stores::DeviceCounts;

/// Processor time and I/O of the process until now.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessCounts {
    /// User and system time of all threads, in nanoseconds.
    pub cpu_ns: u64,
    /// User time, in clock ticks of a hundredth of a second.
    pub user_ticks: u64,
    /// System time, in the same ticks.
    pub system_ticks: u64,
    /// Bytes that the process caused the device to read and write; system calls that read and
    /// wrote.
    pub io: DeviceCounts,
}

impl ProcessCounts {
    /// The counts now.
    pub fn now() -> Self {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let (user_ticks, system_ticks) = ticks().unwrap_or_default();
        let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
        Self {
            cpu_ns: cpu.tv_sec as u64 * 1_000_000_000 + cpu.tv_nsec as u64,
            user_ticks,
            system_ticks,
            io: DeviceCounts {
                read_bytes: field(&io, "read_bytes:").unwrap_or(0),
                write_bytes: field(&io, "write_bytes:").unwrap_or(0),
                read_ops: field(&io, "syscr:").unwrap_or(0),
                write_ops: field(&io, "syscw:").unwrap_or(0),
            },
        }
    }
}

/// User and system ticks: fields 14 and 15 of `stat`, counted after the parenthesised name.
fn ticks() -> Option<(u64, u64)> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// The number behind `name` at the start of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_ascii_whitespace().next()?.parse().ok()
}

/// The largest resident set since the last reset, in bytes.
pub fn peak_rss() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    field(&status, "VmHWM:").unwrap_or(0) * 1024
}

/// The resident set now, in bytes.
pub fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    field(&status, "VmRSS:").unwrap_or(0) * 1024
}

/// Resets the peak to the present resident bytes, if the kernel allows it.
pub fn reset_peak_rss() {
    // Refused in some containers; the peak then includes the load, as the report's reader sees
    // from the two being equal.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// Memory that the machine could give to new processes, in bytes; `None` if it does not say.
pub fn available_memory() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    field(&meminfo, "MemAvailable:").map(|kib| kib * 1024)
}

/// Bytes that the file system of `dir` has left for this user.
///
/// # Errors
/// The system does not say.
pub fn free_disk_bytes(dir: &Path) -> io::Result<u64> {
    let about = rustix::fs::statvfs(dir)?;
    Ok(about.f_bavail.saturating_mul(about.f_frsize))
}

/// Bytes that the files below `dir` take up on the disk: allocated blocks, not lengths.
pub fn disk_bytes(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = fs::read_dir(dir) else {
        return 0;
    };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => disk_bytes(&entry.path()),
            Ok(metadata) => metadata.blocks() * 512,
            // Removed between listing and looking.
            Err(_) => 0,
        })
        .sum()
}
