//! One round: a fresh directory, some lives, a kill after each, and the checks then.

use std::fmt;
use std::ops::RangeInclusive;
use std::process::Command;
use std::time::Duration;

use environment::{Random, Seed};
use rand::RngExt;
use thermocline::EngineKind;

use crate::embedded::Beside;
use crate::{embedded, served};

/// How the database is driven.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    Served,
    Embedded,
    /// A cluster in one process, which serves.
    Cluster,
}

/// A bug that a round has, so that it must fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    None,
    /// Writes are given a lower durability than the verification expects.
    Durability,
    /// One thread of a program takes what it reads for something else.
    Reads,
}

impl Bug {
    pub(crate) const PLANTED: [Self; 2] = [Self::Durability, Self::Reads];
}

/// The parameters of a round, all of them drawn from the seed and the round's number.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    pub(crate) seed: Seed,
    pub(crate) way: Way,
    /// The engine of the databases that are served.
    pub(crate) engine: &'static str,
    /// For the databases inside a program, which have a keyspace of each: a name of
    /// `small::named`.
    pub(crate) engines: &'static str,
    /// Whether these engines have small parts.
    pub(crate) is_small: bool,
    pub(crate) durability: &'static str,
    /// Small, so that engines flush and the journal is trimmed while the kill comes.
    pub(crate) journal_max: &'static str,
    pub(crate) clients: usize,
    /// Commands that a client sends before it reads the replies.
    pub(crate) pipeline: usize,
    pub(crate) keys_per_client: u64,
    pub(crate) value_bytes_max: usize,
    /// From the start, or from the first acknowledgement if `acknowledged_first`.
    pub(crate) lives_ms: Vec<u64>,
    pub(crate) acknowledged_first: bool,
    pub(crate) bug: Bug,
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { way, durability, journal_max, clients, pipeline, .. } = self;
        let engine = match way {
            Way::Served => self.engine,
            Way::Cluster => "lsm",
            Way::Embedded => self.engines,
        };
        let parts = if self.is_small { " of small parts" } else { "" };
        let Self { keys_per_client: keys, value_bytes_max: bytes, lives_ms, .. } = self;
        write!(
            f,
            "{way:?} {engine}{parts} {durability}, journal {journal_max}, {clients} clients, pipeline {pipeline}, \
             {keys} keys, values to {bytes} B, killed after {lives_ms:?} ms"
        )
    }
}

fn one_of<T: Copy>(random: &mut Random, from: &[T]) -> T {
    from[random.random_range(0..from.len())]
}

/// How long one lives: its logarithm is uniform, so that most are short and some are long.
fn life_ms(random: &mut Random, range: RangeInclusive<u32>) -> u64 {
    let [least, most] = [range.start(), range.end()].map(|ms| f64::from(*ms).ln());
    random.random_range(least..=most).exp() as u64
}

impl Round {
    pub(crate) fn draw(seed: u64, index: u64) -> Self {
        let seed = Seed::from(seed).child(index);
        let random = &mut seed.stream("round");
        let lives = random.random_range(1..=3);
        Self {
            seed,
            way: match index % 5 {
                0 | 2 => Way::Served,
                1 | 3 => Way::Embedded,
                _ => Way::Cluster,
            },
            durability: one_of(random, &["flushed", "flushed", "synced"]),
            journal_max: one_of(random, &["256kb", "2mb", "256mb"]),
            clients: random.random_range(1..=4),
            pipeline: one_of(random, &[1, 8, 64]),
            keys_per_client: one_of(random, &[3, 50, 400]),
            value_bytes_max: one_of(random, &[16, 200, 5000]),
            lives_ms: (0..lives).map(|_| life_ms(random, 5..=2_000)).collect(),
            acknowledged_first: random.random_range(0..3) > 0,
            bug: Bug::None,
            engine: one_of(random, EngineKind::ALL).name(),
            engines: "db",
            is_small: false,
        }
        .with_small_parts(index % 4 == 3)
    }

    /// A round over `engines` of small parts, with lives so long that these have much to do.
    pub(crate) fn draw_small(engines: &'static str, seed: u64, index: u64) -> Self {
        let round = Self::draw(seed, index).with_small_parts(true);
        let random = &mut round.seed.stream("small");
        let lives = random.random_range(1..=3);
        let lives_ms = (0..lives).map(|_| life_ms(random, 50..=8_000)).collect();
        Self { way: Way::Embedded, engines, lives_ms, ..round }
    }

    /// With keys and values that such parts can hold, and enough of them.
    fn with_small_parts(self, is_small: bool) -> Self {
        if !is_small {
            return self;
        }
        let random = &mut self.seed.stream("parts");
        let keys_per_client = one_of(random, &[50, 500, 3_000]);
        Self {
            is_small,
            keys_per_client,
            value_bytes_max: one_of(random, &[16, 200, 1_500]),
            ..self
        }
    }

    /// Returns the requested durability.
    pub(crate) fn asked_durability(&self) -> &'static str {
        if self.bug == Bug::Durability { "buffered" } else { self.durability }
    }

    /// Runs it and says how much was written.
    pub(crate) fn run(&self, beside: &mut Beside) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        match self.way {
            Way::Served | Way::Cluster => served::run(self, &path),
            Way::Embedded => embedded::run(self, &path, beside),
        }
    }

    pub(crate) fn life(&self, index: usize) -> Duration {
        Duration::from_millis(self.lives_ms[index])
    }
}

/// The binary under test.
pub(crate) fn thermocline() -> Command {
    Command::new(env!("CARGO_BIN_EXE_thermocline"))
}

/// The files must be whole after a kill, before anything repairs or cuts them.
pub(crate) fn check_offline(path: &std::path::Path) {
    let output = thermocline().arg("check").arg(path).output().unwrap();
    // Killed before the database was made: there is none yet.
    let none_yet = output.status.code() == Some(4);
    assert!(
        output.status.success() || none_yet,
        "check: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
