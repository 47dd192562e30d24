//! Ends a process by SIGKILL.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Child;

const SIGKILL: i32 = 9;

/// Kills it, and it must end by that: a process that finds an error, and ends, is none that was
/// well until it was killed.
pub(crate) fn kill(child: &mut Child) {
    child.kill().unwrap();
    let ended = child.wait().unwrap();
    assert_eq!(ended.signal(), Some(SIGKILL), "it has ended before it was killed");
}
