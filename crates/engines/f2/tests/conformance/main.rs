//! The conformance suite, run against the engine `f2`.

mod fixture;

/// The crates by the names under which `fixture` knows them.
mod crates {
    pub(crate) use conformance as suite;
    pub(crate) use thermocline_f2 as store;
}

use fixture::F2Fixture;

conformance::suite!(F2Fixture::Fixed);

mod adaptive {
    mod watched;

    use crate::fixture::F2Fixture;

    conformance::suite!(F2Fixture::Adaptive);
}

mod single_log {
    use crate::fixture::F2Fixture;

    conformance::suite!(F2Fixture::SingleLog);
}

mod scanned {
    use crate::fixture::F2Fixture;

    conformance::suite!(F2Fixture::Scanned);
}
