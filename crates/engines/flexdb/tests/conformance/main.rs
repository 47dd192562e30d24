//! The conformance suite, held against the engine `flexdb`.

mod fixture;

/// The crates by the names under which `fixture` knows them.
mod crates {
    pub(crate) use conformance as suite;
    pub(crate) use thermocline_flexdb as flexdb_store;
}

use fixture::FlexDbFixture;

conformance::suite!(FlexDbFixture);
