//! The part that an engine's author hands to the suite.

use std::sync::Arc;

use device::Device;
use engine::{Driver, Engine, Error, Host, Result, Trial};

/// Longer ones than an engine keeps in a page of the usual length.
const VALUE_BYTES_MAX: usize = 6000;
const RUN_OPERATIONS: usize = 120;

/// One engine, as the suite needs it.
pub trait Fixture: Send + Sync {
    /// Returns the engine's name, for messages.
    fn name(&self) -> &'static str;

    /// Returns the bytes of the longest key that runs draw: less than [`engine::KEY_BYTES_MAX`]
    /// only if the engine's parts are made so small for the tests that it would not fit.
    fn key_bytes_max(&self) -> usize {
        engine::KEY_BYTES_MAX
    }

    /// Returns the bytes of the longest value that runs draw; less only for the same reason.
    fn value_bytes_max(&self) -> usize {
        VALUE_BYTES_MAX
    }

    /// Returns the number of keys that runs by one thread have in addition to the few that
    /// operations share: for an engine that needs many keys before all its parts have work.
    fn keys_more(&self) -> usize {
        0
    }

    /// Operations of a run by one thread, which is compared with the model after each.
    fn run_operations(&self) -> usize {
        RUN_OPERATIONS
    }

    /// Writes of a long life, in which the power is cut at its end or within: one of four is long,
    /// and none if this is 0. The others have few, in little time.
    fn long_life_writes(&self) -> usize {
        0
    }

    /// Stores of the same engine that share the usual number of cases: each runs this part of it.
    fn variants(&self) -> u64 {
        1
    }

    /// Returns whether the engine's files may hold writes above the number that it reports as
    /// persisted, without others below it: writes of some keys are flushed before those of others.
    /// The journal has them all.
    fn flushes_keys_apart(&self) -> bool {
        false
    }

    /// Returns whether the engine takes its memory in large units, such as the pages of a log, and
    /// grants room within them: then no single write changes what it has charged.
    fn takes_memory_in_units(&self) -> bool {
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

/// A store of an engine's trials ([`engine::Trials`]), opened by its driver.
#[derive(Clone, Copy, Debug)]
pub struct TrialFixture {
    driver: &'static Driver,
    trial: &'static Trial,
}

impl TrialFixture {
    /// Returns the store that has the name of its engine.
    ///
    /// # Panics
    /// If the engine has none.
    pub fn of(driver: &'static Driver) -> Self {
        Self::named(driver, driver.name())
    }

    /// Returns the store of that name.
    ///
    /// # Panics
    /// If the engine has none.
    pub fn named(driver: &'static Driver, name: &str) -> Self {
        let found = Self::all(driver).find(|fixture| fixture.trial.name == name);
        found.unwrap_or_else(|| panic!("{} has no store {name} for tests", driver.name()))
    }

    /// Returns all of an engine.
    pub fn all(driver: &'static Driver) -> impl Iterator<Item = Self> {
        driver.trials.crashed.iter().map(move |trial| Self { driver, trial })
    }
}

impl Fixture for TrialFixture {
    fn name(&self) -> &'static str {
        self.trial.name
    }

    fn key_bytes_max(&self) -> usize {
        self.trial.key_bytes_max
    }

    fn value_bytes_max(&self) -> usize {
        self.trial.value_bytes_max
    }

    fn long_life_writes(&self) -> usize {
        self.trial.long_life_writes
    }

    fn variants(&self) -> u64 {
        self.trial.variants
    }

    fn flushes_keys_apart(&self) -> bool {
        self.trial.flushes_keys_apart
    }

    fn takes_memory_in_units(&self) -> bool {
        self.trial.takes_memory_in_units
    }

    fn open(&self, host: Host) -> Result<Arc<dyn Engine>> {
        Ok(Arc::from((self.driver.open)(host, &(self.trial.settings)(), "")?))
    }

    fn check(&self, device: &Arc<dyn Device>) -> Result<()> {
        let report = (self.driver.check)(device)?;
        report.damage.into_iter().next().map_or(Ok(()), |damage| Err(Error::Corruption(damage)))
    }
}
