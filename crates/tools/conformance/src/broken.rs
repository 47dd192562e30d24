//! Engines with one planted bug each, which the suite must reject.
//!
//! Each is the reference engine with something between it and its caller (`engine.rs`, `scans.rs`)
//! or between it and its disk (`disk.rs`). A check that passes one of them is
//! broken itself.

mod disk;
mod engine;
mod flaws;
mod scans;

use std::sync::Arc;
use std::time::Duration;

use ::engine::{Engine, Error, Host, NoJournal, Result};
use device::{Device, Mode, SyncKind};
use environment::Environment;
use sync::locks::Mutex;

use crate::model::Pair;
use crate::reference::{self, Reference};
use crate::{Check, Fixture, Suite};

pub use flaws::Flaw;

/// Cases of one check in which a bug must show; more than an engine's own tests run, since a bug
/// that shows seldom must still show.
const CASES_MAX: u64 = 400;

type Graveyard = Arc<Mutex<Vec<Pair>>>;

/// The reference engine with one bug.
#[derive(Debug)]
pub struct BrokenFixture {
    flaw: Flaw,
    /// Pairs that were deleted, for the bug that brings them back.
    graveyard: Graveyard,
}

impl BrokenFixture {
    /// Returns the engine with this bug.
    pub fn new(flaw: Flaw) -> Self {
        Self { flaw, graveyard: Arc::default() }
    }
}

impl Fixture for BrokenFixture {
    fn name(&self) -> &'static str {
        self.flaw.name()
    }

    fn open(&self, host: Host) -> Result<Arc<dyn Engine>> {
        let mut host = host;
        match self.flaw {
            Flaw::IgnoresTheBarrier => host.barrier = Arc::new(NoJournal),
            Flaw::RewritesTheSuperblockOnOpening => rewrite_superblock(&host.device)?,
            flaw if flaw.is_of_the_disk() => host.device = disk::flawed(&host.device, flaw),
            _ => {}
        }
        let opened = match Reference::open(host.clone()) {
            Err(Error::Corruption(_)) if self.flaw == Flaw::StartsAnewOnDamage => {
                for entry in host.device.list("")? {
                    host.device.remove(&entry.name)?;
                }
                Reference::open(host.clone())
            }
            opened => opened,
        };
        let graveyard = Arc::clone(&self.graveyard);
        Ok(Arc::new(engine::Broken::new(opened?, self.flaw, host, graveyard)?))
    }

    fn check(&self, device: &Arc<dyn Device>) -> Result<()> {
        reference::check(device)
    }
}

/// Recovery that is not safe to be cut off: the old superblock is removed before the new one is
/// there.
fn rewrite_superblock(device: &Arc<dyn Device>) -> Result<()> {
    const NAME: &str = "superblock";
    if !device.exists(NAME)? {
        return Ok(());
    }
    let file = device.open(NAME, Mode::Read)?;
    let mut bytes = vec![0; file.len()? as usize];
    file.read_at(0, &mut bytes)?;
    device.remove(NAME)?;
    let file = device.open(NAME, Mode::CreateNew)?;
    file.write_at(0, &bytes)?;
    file.sync(SyncKind::All)?;
    Ok(device.sync_dir("")?)
}

/// How a planted bug was found.
#[derive(Clone, Debug)]
pub struct Catch {
    /// The bug.
    pub flaw: Flaw,
    /// The check that had to find it.
    pub check: Check,
    /// The check's complaint; `None` if it let the bug pass.
    pub found: Option<String>,
    /// Cases that had passed before.
    pub passed: u64,
    /// How long it took.
    pub took: Duration,
}

/// Lets every check that must find `flaw` look for it.
pub fn hunt(flaw: Flaw) -> Vec<Catch> {
    let environment = Environment::real();
    let hunt_with = |check: &Check| {
        let fixture = BrokenFixture::new(flaw);
        let began = environment.now();
        let suite = Suite::new(&fixture, "thermocline-conformance", 1, CASES_MAX);
        let failure = suite.run(*check).err();
        let took = environment.now() - began;
        let passed = failure.as_ref().map_or(CASES_MAX, |failure| failure.passed);
        let found = failure.map(|failure| failure.what);
        Catch { flaw, check: *check, found, passed, took }
    };
    flaw.caught_by().iter().map(hunt_with).collect()
}
