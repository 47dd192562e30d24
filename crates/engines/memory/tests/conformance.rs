//! The conformance suite, held against the engine `memory`.

use conformance::TrialFixture;
use thermocline_memory::DRIVER;

conformance::suite!(TrialFixture::of(&DRIVER));
