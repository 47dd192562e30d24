//! Rounds over engines whose parts are small, so that within a life there are many of them.
//!
//! These are tables that are flushed and compacted down the levels, intervals that are split and
//! rewritten, and segments that are collected. The driver of an engine has the settings, and the
//! names of the figures ([`thermocline::Driver`]).

use thermocline::{EngineKind, EngineSettings, Options};

/// The name of all engines together.
const ALL: &str = "db";

/// Returns the figures of a program's keyspaces, for the work next to its writes.
pub(crate) fn figures() -> impl Iterator<Item = (EngineKind, &'static str)> {
    let of =
        |engine: EngineKind| engine.driver().trials.work.iter().map(move |work| (engine, *work));
    EngineKind::ALL.iter().copied().flat_map(of)
}

/// Returns `name` if it is [`ALL`] or the name of an engine.
pub(crate) fn named(name: &str) -> &'static str {
    let mut names = EngineKind::ALL.iter().map(|engine| engine.name()).chain([ALL]);
    let found = names.find(|known| *known == name);
    found.unwrap_or_else(|| panic!("no engines {name:?}: {ALL:?}, or one of {:?}", EngineKind::ALL))
}

/// Returns the engines that a round may have a keyspace of each of.
pub(crate) fn engines(name: &str) -> &'static [EngineKind] {
    if name == ALL {
        return EngineKind::ALL;
    }
    let mut each = EngineKind::ALL.chunks(1);
    each.find(|one| one[0].name() == name).unwrap_or_default()
}

/// The same with small parts.
pub(crate) fn with_small_parts(options: Options) -> Options {
    let small = EngineKind::ALL.iter().map(|engine| (engine.driver().trials.killed)());
    Options { engines: small.fold(EngineSettings::default(), EngineSettings::with), ..options }
}
