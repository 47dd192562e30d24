//! The conformance suite, held against the engine `lsm`.

mod fixture;
mod scattered;
mod variants;

/// The crates by the names under which `fixture` knows them.
mod crates {
    pub(crate) use conformance as suite;
    pub(crate) use thermocline_lsm as lsm_store;
}

use fixture::LsmFixture;

conformance::suite!(LsmFixture);

/// The same with tables in pieces, in several places.
mod in_pieces {
    use crate::scattered::ScatteredFixture;

    conformance::suite!(ScatteredFixture);
}
