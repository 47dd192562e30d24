//! The conformance suite, held against the engine `lsm`.

mod scattered;
mod variants;

use conformance::TrialFixture;
use thermocline_lsm::DRIVER;

conformance::suite!(TrialFixture::of(&DRIVER));

/// The same with tables in pieces, in several places.
mod in_pieces {
    use crate::scattered::ScatteredFixture;

    conformance::suite!(ScatteredFixture);
}
