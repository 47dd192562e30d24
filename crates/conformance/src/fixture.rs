//! What an engine's author hands to the suite.

use std::sync::Arc;

use device::Device;
use engine::{Engine, Host, Result};

/// One engine, as the suite needs it.
pub trait Fixture: Send + Sync {
    /// The engine's name, for messages.
    fn name(&self) -> &'static str;

    /// The longest key that runs draw: less than [`engine::KEY_BYTES_MAX`] only where the engine's
    /// parts are made so small for the tests that it would not fit.
    fn key_bytes_max(&self) -> usize {
        engine::KEY_BYTES_MAX
    }

    /// Whether the engine's files may hold writes above what it says is persisted, beside the absence
    /// of others: those of some keys are flushed before those of others. The journal has them all.
    fn flushes_keys_apart(&self) -> bool {
        false
    }

    /// Opens the engine in the directory of `host.device`, which may be empty.
    fn open(&self, host: Host) -> Result<Arc<dyn Engine>>;

    /// Verifies, offline and changing nothing, everything that the engine keeps in `device`.
    ///
    /// # Errors
    /// [`engine::Error::Corruption`] with the place.
    fn check(&self, device: &Arc<dyn Device>) -> Result<()>;
}
