//! The conformance suite, held against the engine `lsm`.

mod fixture;

/// The crates by the names under which `fixture` knows them.
mod crates {
    pub(crate) use conformance as suite;
    pub(crate) use thermocline_lsm as lsm_store;
}

use fixture::LsmFixture;

conformance::suite!(LsmFixture);
