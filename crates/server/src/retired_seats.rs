//! Drops the seats that event loops have given up, outside of the gate and of all locks: the last one that
//! lets go of an engine closes it, which may take its time.

use std::io;
use std::time::Duration;

use crate::shared::Shared;

/// How often it looks.
const INTERVAL: Duration = Duration::from_millis(100);

/// Drops them until the server stops.
pub(crate) fn drop_them(shared: &Shared) -> io::Result<()> {
    while !shared.stop.wait_for(INTERVAL) {
        let retired = std::mem::take(&mut *shared.retired.lock());
        drop(retired);
    }
    Ok(())
}
