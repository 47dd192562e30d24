//! The conformance suite, held against the engine `hashkv`.

mod fixture;
mod variants;

/// The crates by the names under which `fixture` knows them.
mod crates {
    pub(crate) use conformance as suite;
    pub(crate) use thermocline_hashkv as hashkv_store;
}

use fixture::HashKvFixture;

conformance::suite!(HashKvFixture);
