//! Waiting until a store is at rest: the end of a load, and of other work before a run.
//!
//! 1. The store's own call, if it has one, blocks until its background work has ended.
//! 2. A store that then reports that it is at rest is at rest. Any other one is at rest once it has
//!    reported no work and written next to nothing for a while. The while is longer than a store
//!    that looks at itself every second takes to find that it is idle.
//!
//! There is no limit: the background work of a load is part of the load, and a run that begins
//! earlier measures compactions. The progress line names the reason of the wait, and the user may
//! interrupt it.

use std::time::Duration;

use environment::{Environment, Monotonic};

use super::phase::Progress;
use crate::measure::{ProcessCounts, megabytes_per_s};
use crate::stores::{Background, Store, StoreError};

/// Bytes a second that a store at rest may write: its journal's marks, its manifest.
const QUIET_BYTES_PER_S: f64 = 640.0 * 1024.0;
/// Time between two looks at the store. Some stores visit all of their memory for their statistics.
const LOOK: Duration = Duration::from_millis(500);
/// Time without work or writes after which a store that reports no rest is at rest.
pub(crate) const QUIET: Duration = Duration::from_secs(4);

/// Waits until `store` is at rest; returns for how long it was not, in seconds.
pub(super) fn wait(
    env: &Environment,
    store: &dyn Store,
    quiet: Duration,
    progress: &dyn Progress,
) -> Result<f64, StoreError> {
    progress.begin("until at rest", None);
    progress.waits("the store's background work");
    let waited = wait_for(env, store, quiet, progress);
    progress.end();
    waited
}

fn wait_for(
    env: &Environment,
    store: &dyn Store,
    quiet: Duration,
    progress: &dyn Progress,
) -> Result<f64, StoreError> {
    let begun = env.now();
    store.finish_background_work()?;
    let mut looks = Looks::new(env.now(), written(store));
    loop {
        let background = store.background();
        if background == Background::AtRest {
            return Ok((env.now() - begun).as_secs_f64());
        }
        let (now, bytes_per_s) = looks.look(env.now(), written(store), &background);
        if now - looks.busy_until >= quiet {
            return Ok((looks.busy_until - begun).as_secs_f64());
        }
        let written = megabytes_per_s(bytes_per_s);
        progress.waits(&match background {
            Background::UnderWay(work) => format!("{work}, {written} written"),
            _ => format!("{written} written"),
        });
        env.sleep(LOOK.min(quiet));
    }
}

/// Bytes that the store has written, by its own count or by the operating system's.
fn written(store: &dyn Store) -> u64 {
    store.device().unwrap_or_else(|| ProcessCounts::now().io).write_bytes
}

/// The last look at the store.
struct Looks {
    at: Monotonic,
    written: u64,
    /// The last time at which the store was known to work.
    busy_until: Monotonic,
}

impl Looks {
    fn new(at: Monotonic, written: u64) -> Self {
        Self { at, written, busy_until: at }
    }

    /// Takes in a look; returns its time and the bytes a second written since the one before.
    fn look(&mut self, now: Monotonic, written: u64, background: &Background) -> (Monotonic, f64) {
        let seconds = (now - self.at).as_secs_f64();
        let bytes = written.saturating_sub(self.written) as f64;
        // The first look comes in the same moment as `new`.
        let bytes_per_s = if seconds > 0.0 { bytes / seconds } else { 0.0 };
        if bytes_per_s > QUIET_BYTES_PER_S || matches!(background, Background::UnderWay(_)) {
            self.busy_until = now;
        }
        (self.at, self.written) = (now, written);
        (now, bytes_per_s)
    }
}
