//! Figures of the system about this process.

/// Bytes of the process that are in memory, of addresses like ours.
pub(crate) fn resident_bytes() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a figure of the system about this process")]
    let read = std::fs::read("/proc/self/statm").expect("the system tells");
    let text = String::from_utf8(read).expect("text");
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    4096 * pages.expect("the second number is the resident set")
}
