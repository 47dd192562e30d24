//! Long runs, during which memory moves and digests are used in place of chunks.
//!
//! Without them the suite would prove nothing about the adaptive store.

use std::sync::Arc;

use conformance::{Check, Fixture, Suite, TrialFixture};
use device::Device;
use engine::{Engine, Host, Result};
use sync::locks::Mutex;

use thermocline_f2::DRIVER;

/// Keeps the stores that a run has opened, for their figures.
struct Watched {
    fixture: TrialFixture,
    stores: Mutex<Vec<Arc<dyn Engine>>>,
}

impl Watched {
    /// Returns the sum of a figure of all stores until now.
    fn figure(&self, name: &str) -> u64 {
        let figures = self.stores.lock().iter().map(|store| store.stats()).collect::<Vec<_>>();
        let named =
            figures.iter().flat_map(|stats| &stats.detail).filter(|(known, _)| *known == name);
        named.map(|(_, figure)| figure).sum()
    }
}

impl Fixture for Watched {
    fn name(&self) -> &'static str {
        self.fixture.name()
    }

    fn key_bytes_max(&self) -> usize {
        self.fixture.key_bytes_max()
    }

    fn value_bytes_max(&self) -> usize {
        self.fixture.value_bytes_max()
    }

    fn keys_more(&self) -> usize {
        500
    }

    fn run_operations(&self) -> usize {
        3_000
    }

    fn open(&self, host: Host) -> Result<Arc<dyn Engine>> {
        let store = self.fixture.open(host)?;
        self.stores.lock().push(Arc::clone(&store));
        Ok(store)
    }

    fn check(&self, device: &Arc<dyn Device>) -> Result<()> {
        self.fixture.check(device)
    }
}

#[test]
fn long_runs_of_an_adaptive_store_conform_while_its_memory_moves() {
    let watched =
        Watched { fixture: TrialFixture::named(&DRIVER, "f2-adaptive"), stores: Mutex::default() };
    let ended = Suite::new(&watched, env!("CARGO_PKG_NAME"), 1, 3).run(Check::Model);
    if let Err(failure) = ended {
        panic!("\n{failure}\n");
    }
    let moves = ["memory_moves_to_log", "memory_moves_to_read_cache", "memory_moves_to_digests"];
    let moves: u64 = moves.iter().map(|name| watched.figure(name)).sum();
    assert!(moves > 0, "no memory has moved");
    let beside = ["compactions", "cold_compactions", "read_cache_hits", "chunk_digest_hits"];
    for name in beside {
        assert!(watched.figure(name) > 0, "{name}: there were none");
    }
}
