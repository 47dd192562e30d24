//! The reference engine passes its own suite.

use thermocline_conformance::reference::ReferenceFixture;

thermocline_conformance::suite!(ReferenceFixture);
