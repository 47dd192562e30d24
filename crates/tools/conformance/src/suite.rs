//! The checks by name, their default case counts, and how a case is replayed.

use std::fmt;
use std::sync::Arc;

use engine::{Capabilities, Engine, NoJournal};

use crate::crash::{crowd, voyage};
use crate::damage::damage;
use crate::errors::errors;
use crate::failure::{Failure, catch};
use crate::operation::Profile;
use crate::out_of_files::{out_of_files, unavailable};
use crate::reservations::reservations;
use crate::sequential::{Memory, operations, run, shrink};
use crate::waits::waits;
use crate::{Fixture, concurrent, host};

/// One group of laws that an engine is held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Random operations against the model: reads, scans, views, reopening, lost journals.
    Model,
    /// The same with a small memory budget: refusals leave everything unchanged.
    Budget,
    /// Several reservations at a time: none is overspent, and all return.
    Reservations,
    /// No operation of the device ends, and lookups and writes return (laws L8 and L9).
    Waits,
    /// Histories of several threads are linearizable, key by key.
    Registers,
    /// Read-modify-writes of several threads lose nothing.
    Counters,
    /// Views next to writers are snapshots.
    Snapshots,
    /// Power cuts at any moment, also during recovery: a prefix, whole batches, nothing back.
    Crashes,
    /// Power cuts while several threads write and flush.
    Crowd,
    /// Every I/O of a workload fails in turn: nothing acknowledged is lost, writes stop.
    Errors,
    /// Every operation that needs a descriptor finds none in turn: no store stops for good.
    OutOfFiles,
    /// The place of every read cannot be reached in turn: no store stops for good.
    Unavailable,
    /// Every sector of every file is damaged in turn: right data, or an error with the place.
    Damage,
    /// The same seed gives the same trace.
    Determinism,
}

impl Check {
    /// All of them, the quickest to find something first.
    pub const ALL: [Self; 14] = [
        Self::Model,
        Self::Budget,
        Self::Reservations,
        Self::Waits,
        Self::Registers,
        Self::Counters,
        Self::Snapshots,
        Self::Crashes,
        Self::Crowd,
        Self::Errors,
        Self::OutOfFiles,
        Self::Unavailable,
        Self::Damage,
        Self::Determinism,
    ];

    /// Returns its name, which is also the name of its test.
    pub fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Budget => "budget",
            Self::Reservations => "reservations",
            Self::Waits => "waits",
            Self::Registers => "registers",
            Self::Counters => "counters",
            Self::Snapshots => "snapshots",
            Self::Crashes => "crashes",
            Self::Crowd => "crowd",
            Self::Errors => "errors",
            Self::OutOfFiles => "out_of_files",
            Self::Unavailable => "unavailable",
            Self::Damage => "damage",
            Self::Determinism => "determinism",
        }
    }

    /// Returns the number of cases that are run by default.
    fn default_cases(self) -> u64 {
        match self {
            Self::Model => 150,
            Self::Budget | Self::Reservations => 60,
            Self::Waits => 6,
            Self::Registers => 25,
            Self::Crowd => 12,
            Self::Counters => 10,
            Self::Snapshots => 15,
            Self::Crashes => 40,
            Self::Errors | Self::Damage => 4,
            Self::OutOfFiles | Self::Unavailable => 2,
            Self::Determinism => 10,
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The suite for one engine.
pub struct Suite<'a> {
    fixture: &'a dyn Fixture,
    package: &'a str,
    seed: u64,
    cases: Option<u64>,
}

impl<'a> Suite<'a> {
    /// Returns the suite for an engine whose tests are in `package`, with the seed and the number
    /// of cases in `THERMOCLINE_SEED` and `THERMOCLINE_CASES`.
    ///
    /// # Panics
    /// If one of them is set and no number.
    pub fn from_environment(fixture: &'a dyn Fixture, package: &'a str) -> Self {
        let variable = |name: &str| {
            let text = std::env::var(name).ok()?;
            Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
        };
        let seed = variable("THERMOCLINE_SEED").unwrap_or(1);
        Self { fixture, package, seed, cases: variable("THERMOCLINE_CASES") }
    }

    /// Returns the suite with this seed and this many cases of each check.
    pub fn new(fixture: &'a dyn Fixture, package: &'a str, seed: u64, cases: u64) -> Self {
        Self { fixture, package, seed, cases: Some(cases) }
    }

    /// Runs the cases of one check, up to the first that fails. Returns the number of passed ones.
    pub fn run(&self, check: Check) -> Result<u64, Box<Failure>> {
        let usual = check.default_cases().div_ceil(self.fixture.variants());
        let cases = self.cases.unwrap_or(usual);
        for case in 0..cases {
            let seed = self.seed.wrapping_add(case);
            let found = self.case(check, seed);
            found.map_err(|finding| self.failure(check, seed, case, finding))?;
        }
        Ok(cases)
    }

    fn failure(&self, check: Check, seed: u64, passed: u64, finding: Finding) -> Box<Failure> {
        let package = self.package;
        let replay = format!(
            "THERMOCLINE_SEED={seed} THERMOCLINE_CASES=1 cargo test -p {package} \
             conforms_{check} -- --nocapture"
        );
        let engine = self.fixture.name().to_owned();
        let Finding { what, story } = finding;
        Box::new(Failure { engine, check: check.name(), seed, passed, what, story, replay })
    }

    fn case(&self, check: Check, seed: u64) -> Result<(), Finding> {
        let case: fn(&dyn Fixture, u64) -> Result<(), String> = match check {
            Check::Model => return self.model(seed, Memory::Ample),
            Check::Budget => return self.model(seed, Memory::Small),
            Check::Determinism => return self.determinism(seed),
            Check::Crashes => |fixture, seed| voyage(fixture, seed).map(drop),
            Check::Crowd => crowd,
            Check::Errors => |fixture, seed| errors(fixture, seed).map(drop),
            Check::OutOfFiles => |fixture, seed| out_of_files(fixture, seed).map(drop),
            Check::Unavailable => |fixture, seed| unavailable(fixture, seed).map(drop),
            Check::Damage => |fixture, seed| damage(fixture, seed).map(drop),
            Check::Reservations => reservations,
            Check::Waits => waits,
            Check::Registers => concurrent::registers,
            Check::Counters => concurrent::counters,
            Check::Snapshots => concurrent::snapshots,
        };
        Ok(catch(|| case(self.fixture, seed))?)
    }

    fn capabilities(&self) -> Result<Capabilities, String> {
        self.ask(|engine| engine.capabilities())
    }

    /// Returns a property of an engine that was just opened.
    fn ask<T>(&self, question: impl Fn(&dyn Engine) -> T) -> Result<T, String> {
        catch(|| {
            let device = device::memory();
            let opened = host::open(self.fixture, &device, Arc::new(NoJournal), 0);
            let opened = opened.map_err(|error| error.to_string())?;
            let answer = question(&*opened.engine);
            opened.engine.close().map_err(|error| error.to_string())?;
            Ok(answer)
        })
    }

    fn profile(&self) -> Result<Profile, String> {
        let key_bytes_max = self.fixture.key_bytes_max();
        let value_bytes_max = self.fixture.value_bytes_max();
        let keys_more = self.fixture.keys_more();
        let Capabilities { ordered, deletes_ranges, .. } = self.capabilities()?;
        let ingests = self.ask(|engine| engine.ingestion().is_ok())?;
        Ok(Profile {
            keys_more,
            key_bytes_max,
            value_bytes_max,
            deletes_ranges,
            ingests,
            ..Profile::all(ordered)
        })
    }

    fn model(&self, seed: u64, memory: Memory) -> Result<(), Finding> {
        let long = operations(seed, self.profile()?, self.fixture.run_operations());
        let Err(_) = run(self.fixture, &long, memory) else { return Ok(()) };
        let fails_at = |run_of: &[_]| run(self.fixture, run_of, memory).err().map(|found| found.at);
        let story = shrink(long, fails_at);
        let what = match run(self.fixture, &story, memory) {
            Err(violation) => violation.what,
            Ok(_) => "a run failed once and then passed: the engine is not deterministic".into(),
        };
        Err(Finding { what, story: story.iter().map(ToString::to_string).collect() })
    }

    fn determinism(&self, seed: u64) -> Result<(), Finding> {
        let operations = operations(seed, self.profile()?, self.fixture.run_operations());
        let once = || {
            let run = run(self.fixture, &operations, Memory::Ample);
            let run = run.map_err(|violation| violation.what)?.hash();
            Ok::<_, String>((run, voyage(self.fixture, seed)?.trace.hash()))
        };
        let (first, second) = (once()?, once()?);
        if first == second {
            return Ok(());
        }
        Err(format!("one seed, two traces: {first:016x?} and {second:016x?}").into())
    }
}

/// The finding of a case.
struct Finding {
    what: String,
    story: Vec<String>,
}

impl From<String> for Finding {
    fn from(what: String) -> Self {
        Self { what, story: Vec::new() }
    }
}

/// Runs one check and panics with the failure's text; [`crate::suite!`] expands to it.
///
/// # Panics
/// If the engine breaks a law.
pub fn assert_conforms(fixture: &dyn Fixture, package: &str, check: Check) {
    match Suite::from_environment(fixture, package).run(check) {
        Ok(cases) => println!("{} {check}: {cases} cases passed", fixture.name()),
        Err(failure) => panic!("\n{failure}\n"),
    }
}

/// Makes one test for each check, `conforms_model` and so on. The crate's documentation has an
/// example.
#[macro_export]
macro_rules! suite {
    ($fixture:expr) => {
        $crate::suite!(@tests $fixture,
            conforms_model Model, conforms_budget Budget, conforms_reservations Reservations, conforms_waits Waits, conforms_registers Registers,
            conforms_counters Counters, conforms_snapshots Snapshots, conforms_crashes Crashes,
            conforms_crowd Crowd, conforms_errors Errors, conforms_out_of_files OutOfFiles, conforms_unavailable Unavailable, conforms_damage Damage, conforms_determinism Determinism);
    };
    (@tests $fixture:expr, $($name:ident $check:ident),*) => {
        $(
            #[test]
            fn $name() {
                let check = $crate::Check::$check;
                $crate::assert_conforms(&$fixture, env!("CARGO_PKG_NAME"), check);
            }
        )*
    };
}
