//! The options of the program, and the parts that all rows share: the clock, waits, rounds.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use environment::Environment;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::rows::ROWS;
use crate::{Outcome, say};

/// Time between two looks at something that a thread waits for.
const LOOK: Duration = Duration::from_millis(20);

const HELP: &str = "\
nova_tables PROGRAM DIR [OPTION VALUE]...
  PROGRAM          the program `thermocline`, built with the feature `cluster`
  DIR              where clusters have their files
  --out FILE       where the page goes, if all rows were made; standard output otherwise
  --only NAMES     rows to make, with commas between them: ";
const HELP_END: &str = "
  --seconds COUNT  length of a measured phase (15)
  --rounds COUNT   of which the median is taken (3)
  --moves COUNT    moves of a range (20)
  --log-mib COUNT  log that a range replays (1024)
  --state TEXT     what else the machine did, for the page's text";

/// Sizes and places of the measurements.
pub(crate) struct Plan {
    pub(crate) environment: Environment,
    pub(crate) program: PathBuf,
    pub(crate) dir: PathBuf,
    pub(crate) seconds: u64,
    pub(crate) rounds: usize,
    pub(crate) moves: usize,
    pub(crate) log_mib: u64,
    pub(crate) state: Option<String>,
    pub(crate) out: Option<PathBuf>,
    /// The rows to make; all of them if there is none.
    only: Vec<String>,
    is_interrupted: Arc<AtomicBool>,
}

impl Plan {
    pub(crate) fn of(mut arguments: impl Iterator<Item = String>) -> Outcome<Self> {
        let names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
        let help = || format!("{HELP}{}{HELP_END}", names.join(", "));
        let mut place = || arguments.next().filter(|word| !word.starts_with('-')).ok_or_else(help);
        let (program, dir): (PathBuf, PathBuf) = (place()?.into(), place()?.into());
        std::fs::create_dir_all(&dir)?;
        let mut plan = Self {
            environment: Environment::real(),
            // The processes of a cluster have other working directories.
            program: program.canonicalize()?,
            dir: dir.canonicalize()?,
            seconds: 15,
            rounds: 3,
            moves: 20,
            log_mib: 1024,
            state: None,
            out: None,
            only: Vec::new(),
            is_interrupted: Arc::default(),
        };
        while let Some(option) = arguments.next() {
            let value = arguments.next().ok_or_else(help)?;
            match option.as_str() {
                "--out" => plan.out = Some(value.into()),
                "--only" => plan.only = value.split(',').map(str::to_owned).collect(),
                "--seconds" => plan.seconds = value.parse()?,
                "--rounds" => plan.rounds = value.parse()?,
                "--moves" => plan.moves = value.parse()?,
                "--log-mib" => plan.log_mib = value.parse()?,
                "--state" => plan.state = Some(value),
                _ => return Err(help().into()),
            }
        }
        if let Some(unknown) = plan.only.iter().find(|name| !names.contains(&name.as_str())) {
            return Err(format!("there is no row {unknown}\n{}", help()).into());
        }
        if plan.seconds == 0 || plan.rounds == 0 || plan.moves == 0 || plan.log_mib == 0 {
            return Err("at least one second, one round, one move and one MiB of log".into());
        }
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&plan.is_interrupted))?;
        }
        Ok(plan)
    }

    /// Returns whether a row is to be made.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    /// Returns whether all rows are to be made.
    pub(crate) fn has_all(&self) -> bool {
        ROWS.iter().all(|row| self.has(row.name))
    }

    /// Returns whether a signal wants the program to end.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.is_interrupted.load(SeqCst)
    }

    /// Waits. A signal ends the wait with an error, so that all processes are ended.
    pub(crate) fn sleep(&self, time: Duration) -> Outcome<()> {
        let until = self.environment.now() + time;
        loop {
            if self.is_interrupted() {
                return Err("interrupted".into());
            }
            let left = until - self.environment.now();
            if left.is_zero() {
                return Ok(());
            }
            self.environment.sleep(left.min(LOOK));
        }
    }

    /// Waits until `probe` returns something, but not longer than `limit`.
    pub(crate) fn wait_for<T>(
        &self,
        (what, limit): (&str, Duration),
        mut probe: impl FnMut() -> Outcome<Option<T>>,
    ) -> Outcome<T> {
        let until = self.environment.now() + limit;
        loop {
            if let Some(found) = probe()? {
                return Ok(found);
            }
            if self.environment.now() >= until {
                return Err(format!("{what}: not after {limit:?}").into());
            }
            self.sleep(LOOK)?;
        }
    }

    /// Has variants take turns over all rounds. Returns the results of each variant.
    pub(crate) fn take_turns<V, T>(
        &self,
        variants: &[V],
        name: impl Fn(&V) -> String,
        mut measure: impl FnMut(&V) -> Outcome<T>,
    ) -> Outcome<Vec<Vec<T>>> {
        let mut results: Vec<Vec<T>> = variants.iter().map(|_| Vec::new()).collect();
        for round in 1..=self.rounds {
            for (variant, results) in variants.iter().zip(&mut results) {
                let name = name(variant);
                let result = measure(variant).map_err(|error| format!("{name}: {error}"))?;
                say(&format!("  round {round}, {name}: done"));
                results.push(result);
            }
        }
        Ok(results)
    }
}
