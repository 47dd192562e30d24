//! The conformance suite, held against the engine `flexdb`.

use conformance::TrialFixture;
use thermocline_flexdb::DRIVER;

conformance::suite!(TrialFixture::of(&DRIVER));
