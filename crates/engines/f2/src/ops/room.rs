//! Room for a write's records if the device has none for the pages that have to leave memory.
//!
//! 0. Room is held on the device for the write's records (`held_room`), or the write is refused.
//! 1. A write is admitted if the page at the tail has room for it, or memory for the page behind; a
//!    write of several steps if its pages can be reserved, which its application does. Otherwise it
//!    waits until a page is flushed, as it would have to when it is applied. So a flush fails for
//!    lack of room here, before the write is journaled.
//! 2. The write is refused then, and so are others, until a flush succeeds. Flushes are tried again
//!    after pauses that grow, by the next writer and by a caller that requests a flush.
//! 3. Writes that were admitted at the same time may still find too little. They wait a while,
//!    since they may be journaled; if that does not help they fail, and the host stops.

use std::sync::Arc;
use std::time::Duration;

use engine::{Error, Result};

use crate::failing_compactions::FLUSH;
use crate::store::Shared;

/// The longest time that an admitted write waits for room, and the time before it looks again.
const WAIT_MOST: Duration = Duration::from_secs(2);
const WAIT_STEP: Duration = Duration::from_millis(10);

impl Shared {
    /// Does steps 0 to 2 for a write of `steps` steps and `bytes` bytes.
    pub(super) fn admit_to_log(&self, steps: usize, bytes: u64) -> Result<()> {
        self.hold_room_for(bytes)?;
        if self.log.has_room_for_steps(steps, bytes) {
            return Ok(());
        }
        let environment = &self.host.environment;
        let flushed = match self.errors.pausing(FLUSH, environment) {
            Some(cause) => return Err(self.refusal_of_log(cause)),
            None => self.log.wait_for_room_for_steps(steps, bytes),
        };
        self.errors.note(FLUSH, &flushed, environment);
        match flushed {
            Err(cause) if cause.may_pass() => Err(self.refusal_of_log(cause)),
            flushed => flushed,
        }
    }

    fn refusal_of_log(&self, cause: Error) -> Error {
        Error::SpaceUsedUp {
            what: "what waits in memory to be flushed",
            bytes: self.log.tail().get().saturating_sub(self.log.flushed().get()),
            limit: self.log.frames() * self.log.geometry.page_bytes(),
            cause: Arc::new(cause),
        }
    }

    /// Does step 3: repeats `work` for a while if it fails for lack of room.
    pub(super) fn until_there_is_room<T>(&self, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        let mut waited = Duration::ZERO;
        loop {
            let done = work();
            if waited >= WAIT_MOST || !done.as_ref().is_err_and(Error::may_pass) {
                if waited > Duration::ZERO {
                    self.errors.note(FLUSH, &done, &self.host.environment);
                }
                return done;
            }
            self.errors.note(FLUSH, &done, &self.host.environment);
            self.pressure.pause(WAIT_STEP);
            waited += WAIT_STEP;
        }
    }
}
