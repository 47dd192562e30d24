//! Files of recorded histories, for checkers in other languages.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use crate::clients::Keys;
use crate::history::Event;

/// Histories that some order explains.
const HISTORIES: &str = "histories.jsonl";
/// Histories that none explains.
const PLANTED: &str = "planted.jsonl";

/// The files of a directory: each line is an operation, with its key.
pub(crate) struct Export {
    histories: File,
    planted: File,
}

impl Export {
    pub(crate) fn new(dir: &Path) -> Self {
        fs::create_dir_all(dir).unwrap();
        let [histories, planted] =
            [HISTORIES, PLANTED].map(|name| File::create(dir.join(name)).unwrap());
        Self { histories, planted }
    }

    /// Adds the events of a round.
    pub(crate) fn add(&mut self, keys: &Keys, events: &[Event]) {
        self.histories.write_all(lines(keys, events).as_bytes()).unwrap();
    }

    /// Adds events that a checker must reject.
    pub(crate) fn add_planted(&mut self, keys: &Keys, events: &[Event]) {
        self.planted.write_all(lines(keys, events).as_bytes()).unwrap();
    }
}

fn lines(keys: &Keys, events: &[Event]) -> String {
    events.iter().map(|event| event.line(keys.name(event.key))).collect()
}
