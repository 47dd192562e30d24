//! Names of segment files.

/// A segment whose header may not be durable yet. Nothing is in it; opening removes it.
const UNFINISHED: &str = ".new";
/// A segment.
const SEGMENT: &str = ".journal";
/// Digits of an index, so that names sort as indices do.
const DIGITS: usize = 20;

/// Returns the name of segment `index`.
pub(crate) fn file_name(index: u64) -> String {
    format!("{index:0DIGITS$}{SEGMENT}")
}

/// Returns the name under which segment `index` is created.
pub(super) fn unfinished_name(index: u64) -> String {
    format!("{index:0DIGITS$}{UNFINISHED}")
}

/// Returns the index of the segment of this name; `None` if it is no segment's.
pub(crate) fn index_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SEGMENT)?;
    let all_digits = digits.len() == DIGITS && digits.bytes().all(|b| b.is_ascii_digit());
    if all_digits { digits.parse().ok() } else { None }
}

/// Returns whether this is the name of a segment whose creation may not have finished.
pub(crate) fn is_unfinished(name: &str) -> bool {
    name.strip_suffix(UNFINISHED)
        .is_some_and(|digits| digits.len() == DIGITS && digits.bytes().all(|b| b.is_ascii_digit()))
}
