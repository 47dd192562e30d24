//! The public count: one JSON line for each run of a crash harness.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;

/// One run, as the ledger keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The commit that was tested, as `git` names it.
    pub commit: String,
    /// The harness and the engine.
    pub harness: String,
    /// The first seed.
    pub first_seed: u64,
    /// How many seeds were run, in order from the first.
    pub seeds: u64,
    /// Power cuts.
    pub crashes: u64,
    /// Time that passed on the simulated clocks.
    pub simulated_seconds: u64,
    /// How long it took.
    pub seconds: u64,
    /// The seeds that failed.
    pub failed_seeds: Vec<u64>,
}

impl Entry {
    /// Returns the entry as one line of JSON, with its end.
    pub fn line(&self) -> String {
        let mut line = String::from("{");
        for (name, text) in [("commit", &self.commit), ("harness", &self.harness)] {
            let text = text.replace(['"', '\\'], "");
            let _ = write!(line, "\"{name}\":\"{}\",", text.escape_default());
        }
        for (name, number) in [
            ("first_seed", self.first_seed),
            ("seeds", self.seeds),
            ("crashes", self.crashes),
            ("simulated_seconds", self.simulated_seconds),
            ("seconds", self.seconds),
            ("failures", self.failed_seeds.len() as u64),
        ] {
            let _ = write!(line, "\"{name}\":{number},");
        }
        let seeds: Vec<String> = self.failed_seeds.iter().map(u64::to_string).collect();
        let _ = writeln!(line, "\"failed_seeds\":[{}]}}", seeds.join(","));
        line
    }
}
