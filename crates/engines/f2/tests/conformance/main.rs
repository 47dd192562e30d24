//! The conformance suite, run against the engine `f2`.

use conformance::TrialFixture;
use thermocline_f2::DRIVER;

conformance::suite!(TrialFixture::of(&DRIVER));

mod adaptive {
    mod watched;

    use super::{DRIVER, TrialFixture};

    conformance::suite!(TrialFixture::named(&DRIVER, "f2-adaptive"));
}

mod single_log {
    use super::{DRIVER, TrialFixture};

    conformance::suite!(TrialFixture::named(&DRIVER, "f2-single-log"));
}

mod scanned {
    use super::{DRIVER, TrialFixture};

    conformance::suite!(TrialFixture::named(&DRIVER, "f2-scanned"));
}
