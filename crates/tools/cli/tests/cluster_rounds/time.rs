//! The clock of all recorded operations, and waits.

use std::time::Duration;

use environment::Environment;

/// A limit that only a fault of the cluster reaches.
const LONG: Duration = Duration::from_secs(120);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// Returns the time, in nanoseconds on a clock that all threads share.
pub(crate) fn now() -> u64 {
    Environment::real().now().as_nanos()
}

pub(crate) fn sleep(time: Duration) {
    Environment::real().sleep(time);
}

/// Waits until `is_so` returns true.
///
/// # Errors
/// The error of `is_so`, and the end of [`LONG`].
pub(crate) fn await_that(
    what: &str,
    mut is_so: impl FnMut() -> Result<bool, String>,
) -> Result<(), String> {
    let environment = Environment::real();
    let until = environment.now() + LONG;
    while !is_so()? {
        if environment.now() > until {
            return Err(format!("{what}: not within {LONG:?}"));
        }
        environment.sleep(LOOK);
    }
    Ok(())
}
