//! The list of engines. `docs/new-engine.md` has the other lines that a new engine adds.

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use engine::{Driver, Setting, Settings};

use crate::error::Error;

#[cfg(test)]
use conformance::reference;

/// Declares [`EngineKind`] and [`exports`]. Each engine has a line with its crate and the types
/// that users of its options need. The crate has the name of the engine, and its driver.
macro_rules! engines {
    ($(
        $(#[doc = $doc:literal])* $(#[cfg($only:meta)])?
        $kind:ident => $name:ident { $($export:ident),* },
    )*) => {
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
                    $($(#[cfg($only)])? Self::$kind => &$name::DRIVER,)*
                }
            }
        }

        /// A module for each engine, with its options.
        pub(crate) mod exports {
            $(
                #[doc = concat!("The options of the engine `", stringify!($name), "`.")]
                $(#[cfg($only)])?
                pub mod $name {
                    $(pub use $name::$export;)*
                }
            )*
        }
    };
}

engines! {
    /// An ordered map in memory, journaled and snapshotted. For data that fits. Nothing is evicted:
    /// if the memory is used up, puts get `error::Engine::OutOfMemory`, and deletes still work.
    Memory => memory { Options },
    /// A hash store over two hybrid logs: reads, writes and read-modify-writes of single keys, over
    /// data larger than memory. It keeps no order: no scans, no snapshots, no count of keys; pairs
    /// are walked over in an order of its own.
    F2 => f2 { Options },
    /// A log-structured merge-tree: ordered, journaled, over data larger than memory.
    Lsm => lsm { Compression, FilterKind, Options, Routing, UnknownCompression },
    /// All pairs sorted in one file, in place: ordered, journaled, over data larger than memory,
    /// for reads and scans of small pairs.
    FlexDb => flexdb { Options },
    /// Keys in an ordered index, and values in segments by the hashes of their keys: ordered,
    /// journaled, for updates of values from 200 bytes to some megabytes, within bytes of disk that
    /// one can set.
    HashKv => hashkv { Options, Policy },
    /// The reference engine of the conformance suite.
    #[cfg(test)] Reference => reference {},
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
        Self::names_of(|_| true)
    }

    /// Returns the names of the engines whose drivers pass, for messages.
    pub(crate) fn names_of(passes: impl Fn(&Driver) -> bool) -> String {
        let kinds = Self::ALL.iter().filter(|kind| passes(kind.driver()));
        kinds.map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
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
