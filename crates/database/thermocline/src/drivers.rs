//! The list of engines. `docs/new-engine.md` has the other lines that a new engine adds.

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use engine::{Driver, Setting, Settings};

use crate::error::Error;

/// Declares [`EngineKind`]: a line for each engine, with its driver.
macro_rules! engines {
    ($($(#[doc = $doc:literal])* $(#[cfg($only:meta)])? $kind:ident => $driver:path,)*) => {
        /// The engines that a keyspace can be stored by.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum EngineKind {
            $($(#[doc = $doc])* $(#[cfg($only)])? $kind,)*
        }

        impl EngineKind {
            /// Every engine.
            pub const ALL: &[Self] = &[$($(#[cfg($only)])? Self::$kind),*];

            /// Returns the engine's driver: its settings, its capabilities and its use of memory.
            #[doc(hidden)]
            pub const fn driver(self) -> &'static Driver {
                match self {
                    $($(#[cfg($only)])? Self::$kind => &$driver,)*
                }
            }
        }
    };
}

engines! {
    /// An ordered map in memory, journaled and snapshotted. For data that fits.
    Memory => memory::DRIVER,
    /// A hash store over two hybrid logs: reads, writes and read-modify-writes of single keys, over
    /// data larger than memory. It keeps no order: no scans, no snapshots, no count of keys; pairs
    /// are walked over in an order of its own.
    F2 => f2::DRIVER,
    /// A log-structured merge-tree: ordered, journaled, over data larger than memory.
    Lsm => lsm::DRIVER,
    /// All pairs sorted in one file, in place: ordered, journaled, over data larger than memory,
    /// for reads and scans of small pairs.
    FlexDb => flexdb::DRIVER,
    /// The reference engine of the conformance suite.
    #[cfg(test)] Reference => conformance::reference::DRIVER,
}

impl EngineKind {
    /// Returns its name, as users write it and as the catalog stores it.
    pub const fn name(self) -> &'static str {
        self.driver().name()
    }

    /// Returns settings of the engine without any value, to be filled by name
    /// ([`Settings::with`]).
    pub const fn settings(self) -> Settings {
        Settings::new(self.driver())
    }

    /// Returns the settings that the engine has (`docs/settings.md`).
    pub const fn known_settings(self) -> &'static [Setting] {
        self.driver().settings
    }

    /// Returns whether it keeps keys in order. Only then can a keyspace be scanned
    /// ([`crate::Keyspace::scan`]) and is part of snapshots ([`crate::Db::snapshot`]); any can be
    /// walked over ([`crate::Keyspace::walk`]).
    pub const fn is_ordered(self) -> bool {
        self.driver().capabilities.ordered
    }

    /// Returns the names of all engines, for messages.
    pub(crate) fn names() -> String {
        let names: Vec<&str> = Self::ALL.iter().map(|kind| kind.name()).collect();
        names.join(", ")
    }

    /// Returns the settings that a keyspace of it can have, with the allowed values, for messages.
    pub(crate) fn keyspace_settings(self) -> String {
        let of_keyspaces = self.known_settings().iter().filter(|known| known.number().is_some());
        let shown: Vec<String> =
            of_keyspaces.map(|known| format!("{} ({})", known.name, known.allowed)).collect();
        if shown.is_empty() { "none".to_owned() } else { shown.join(", ") }
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for EngineKind {
    type Err = Error;

    /// # Errors
    /// [`Error::UnknownEngine`].
    fn from_str(name: &str) -> Result<Self, Error> {
        let known = Self::ALL.iter().find(|kind| kind.name() == name);
        known.copied().ok_or_else(|| Error::UnknownEngine { name: name.to_owned() })
    }
}
