//! Runs the crash harnesses in turn until the time is up, and records their counts.
//!
//! 1. Every harness is built first; the clock starts after that.
//! 2. Each harness has turns of half a minute to two minutes. A turn takes two minutes if each kind
//!    of background work must have run next to the kills, which the harness checks after one
//!    minute. The first seed follows from the commit, so that another commit sees other crashes.
//!    Each turn continues with the seed after the last one.
//! 3. The counts of a harness go to `reliability/ledger.jsonl`, one line a harness.
//! 4. A failure is printed with the command that replays it, counted, and ends the soak with 1.

use std::borrow::Cow;
use std::process::{Command, ExitCode};
use std::time::Duration;

use environment::Environment;
use serde_json::json;

const LEDGER: &str = "reliability/ledger.jsonl";

/// A program that crashes something, over and over, from a seed.
struct Harness {
    name: Cow<'static, str>,
    build: &'static str,
    /// A turn; `{seed}` is replaced by its first seed.
    run: Cow<'static, str>,
    /// Reads the figures of a turn from a line that it printed.
    figures: fn(&str) -> Option<Figures>,
}

/// The counts of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Figures {
    seeds: u64,
    crashes: u64,
    simulated_seconds: u64,
}

const BUILD_KILL: &str = "cargo test -q --release --locked -p thermocline-cli --test kill --no-run";

/// The list of engines of the database.
const DRIVERS: &str = include_str!("../../../database/thermocline/src/drivers.rs");

/// Stores of an engine with other settings, by their names in its driver.
const VARIANTS: [&str; 2] = ["f2-adaptive", "f2-single-log"];

/// Returns the names of the engines, which are the names of their crates.
fn engines() -> Vec<&'static str> {
    engines_of(DRIVERS)
}

/// Returns the names in the macro call `engines! { ... }` of a source text. Each entry begins with
/// `Kind => name {`. An entry that only tests have is left out.
fn engines_of(source: &str) -> Vec<&str> {
    let call = source.split_once("\nengines! {").map_or("", |(_, call)| call);
    let call = call.split_once("\n}").map_or(call, |(call, _)| call);
    let mut names = Vec::new();
    let mut is_for_tests = false;
    for line in call.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
        is_for_tests |= line.contains("#[cfg(test)]");
        let Some((_, entry)) = line.split_once(" => ") else { continue };
        let name = entry.split('{').next().unwrap_or(entry).trim();
        if !std::mem::take(&mut is_for_tests) {
            names.push(name);
        }
    }
    names
}

/// Crashes of a store on a simulated disk. The harness writes its own entry, with what its last
/// line leaves out. The entry is read here and is then dropped.
fn on_a_simulated_disk(store: &str) -> Harness {
    Harness {
        name: format!("{store} on a simulated disk").into(),
        build: "cargo build -q --release --locked -p thermocline-conformance \
                --example crash_engine",
        run: format!(
            "rm -f target/soak.jsonl; cargo run -q --release --locked \
             -p thermocline-conformance --example crash_engine -- --engine {store} \
             --seconds 30 --seed {{seed}} --ledger target/soak.jsonl; ended=$?; \
             cat target/soak.jsonl; exit $ended"
        )
        .into(),
        figures: conformance_figures,
    }
}

/// Programs with stores of small parts, killed.
fn of_small_parts(store: &str) -> Harness {
    Harness {
        name: format!("{store} of small parts, kill -9").into(),
        build: BUILD_KILL,
        run: format!(
            "cargo test -q --release --locked -p thermocline-cli --test kill -- --small {store} \
             --seconds 120 --seed {{seed}}"
        )
        .into(),
        figures: kill_figures,
    }
}

/// Processes of a cluster that are killed, paused and cut off.
fn of_a_cluster() -> Harness {
    Harness {
        name: Cow::Borrowed("processes of a cluster, killed, paused and cut off"),
        build: "cargo test -q --release --locked -p thermocline-cli \
                --features thermocline-cli/cluster --test cluster_rounds --no-run",
        run: Cow::Borrowed(
            "cargo test -q --release --locked -p thermocline-cli \
             --features thermocline-cli/cluster --test cluster_rounds -- --rounds 6 --seed {seed}",
        ),
        figures: cluster_figures,
    }
}

/// Returns the harnesses: those of each engine, and those of other parts.
fn harnesses() -> Vec<Harness> {
    let simulated = engines().into_iter().chain(VARIANTS).map(on_a_simulated_disk);
    let killed = ["db"].into_iter().chain(engines()).map(of_small_parts);
    simulated.chain(killed).chain(others()).chain([of_a_cluster()]).collect()
}

/// The harnesses that name no engine of the list, or a part of one.
fn others() -> [Harness; 8] {
    [
        Harness {
            name: Cow::Borrowed("journal on a simulated disk"),
            build: "cargo build -q --release --locked -p thermocline-journal --features crash \
                --example crash",
            run: Cow::Borrowed(
                "cargo run -q --release --locked -p thermocline-journal --features crash \
              --example crash -- --crashes 40000 --seed {seed}",
            ),
            figures: journal_figures,
        },
        Harness {
            name: Cow::Borrowed("flexspace on a simulated disk"),
            build: "cargo test -q --release --locked -p thermocline-flexspace --lib --no-run",
            run: Cow::Borrowed(
                "THERMOCLINE_SEED={seed} THERMOCLINE_FLEX_SEEDS=100 cargo test -q --release --locked \
              -p thermocline-flexspace --lib a_crash_at_any_operation -- --nocapture",
            ),
            figures: database_figures,
        },
        Harness {
            name: Cow::Borrowed("flexdb with little room on a simulated disk"),
            build: "cargo test -q --release --locked -p thermocline-flexdb --lib --no-run",
            run: Cow::Borrowed(
                "THERMOCLINE_SEED={seed} THERMOCLINE_CASES=10 cargo test -q --release --locked \
              -p thermocline-flexdb --lib tests::crash -- --nocapture",
            ),
            figures: database_figures,
        },
        Harness {
            name: Cow::Borrowed("db of small parts on a simulated disk"),
            build: "cargo test -q --release --locked -p thermocline --lib --no-run",
            run: Cow::Borrowed(
                "THERMOCLINE_SEED={seed} THERMOCLINE_CASES=20 cargo test -q --release --locked \
              -p thermocline --lib tests::crash::power_cuts_beside_work_of_small_parts \
              -- --nocapture",
            ),
            figures: database_figures,
        },
        Harness {
            name: Cow::Borrowed("db of tuned engines on a simulated disk"),
            build: "cargo test -q --release --locked -p thermocline --lib --no-run",
            run: Cow::Borrowed(
                "THERMOCLINE_SEED={seed} THERMOCLINE_CASES=1 THERMOCLINE_CUTS=all \
              cargo test -q --release --locked -p thermocline --lib \
              tests::crash::power_cuts_over_engines_tuned -- --nocapture",
            ),
            figures: database_figures,
        },
        Harness {
            name: Cow::Borrowed("f2 without a journal, kill -9"),
            build: "cargo test -q --release --locked -p thermocline-f2 --test soak --no-run",
            run: Cow::Borrowed(
                "cargo test -q --release --locked -p thermocline-f2 --test soak -- \
              --seconds 120 --seed {seed}",
            ),
            figures: kill_figures,
        },
        Harness {
            name: Cow::Borrowed("cluster in a simulation"),
            build: "cargo test -q --release --locked -p thermocline-ltc --test simulated --no-run",
            run: Cow::Borrowed(
                "cargo test -q --release --locked -p thermocline-ltc --test simulated -- \
              --seeds 60 --first {seed}",
            ),
            figures: simulated_figures,
        },
        Harness {
            name: Cow::Borrowed("kill -9 of server and embedded database"),
            build: BUILD_KILL,
            run: Cow::Borrowed(
                "cargo test -q --release --locked -p thermocline-cli --test kill -- \
              --rounds 20 --seed {seed}",
            ),
            figures: kill_figures,
        },
    ]
}

/// `N crashes of M runs, ...`
fn journal_figures(line: &str) -> Option<Figures> {
    let (crashes, rest) = line.split_once(" crashes of ")?;
    let (seeds, _) = rest.split_once(" runs")?;
    // Each seed is run in two modes.
    let seeds = seeds.parse::<u64>().ok()?.div_ceil(2);
    Some(Figures { seeds, crashes: crashes.parse().ok()?, simulated_seconds: 0 })
}

/// `N power cuts of M runs over small parts`, `of a space` or `with little room`, a seed each; or
/// `over tuned engines`, of which there are several with one seed.
fn database_figures(line: &str) -> Option<Figures> {
    let (crashes, rest) = line.split_once(" power cuts of ")?;
    let seeds = match rest.strip_suffix(" runs over tuned engines") {
        Some(_) => 1,
        None => {
            let of_each = [" runs over small parts", " runs of a space", " runs with little room"];
            of_each.iter().find_map(|suffix| rest.strip_suffix(suffix))?.parse().ok()?
        }
    };
    Some(Figures { seeds, crashes: crashes.parse().ok()?, simulated_seconds: 0 })
}

/// Returns the figures of a line of the ledger.
fn conformance_figures(line: &str) -> Option<Figures> {
    let entry: serde_json::Value = serde_json::from_str(line).ok()?;
    let number = |name: &str| entry[name].as_u64();
    Some(Figures {
        seeds: number("seeds")?,
        crashes: number("crashes")?,
        simulated_seconds: number("simulated_seconds")?,
    })
}

/// `N seeds, N ended processes, N simulated seconds`
fn simulated_figures(line: &str) -> Option<Figures> {
    let (seeds, rest) = line.split_once(" seeds, ")?;
    let (crashes, rest) = rest.split_once(" ended processes, ")?;
    let seconds = rest.strip_suffix(" simulated seconds")?;
    let (seeds, crashes) = (seeds.parse().ok()?, crashes.parse().ok()?);
    Some(Figures { seeds, crashes, simulated_seconds: seconds.parse().ok()? })
}

/// `N passed, N failed`: a round is one kill or more, and all of a turn have one seed.
fn kill_figures(line: &str) -> Option<Figures> {
    let (passed, rest) = line.split_once(" passed, ")?;
    rest.ends_with("failed").then_some(())?;
    Some(Figures { seeds: 1, crashes: passed.parse().ok()?, simulated_seconds: 0 })
}

/// `N killed processes in M rounds`, all of one seed.
fn cluster_figures(line: &str) -> Option<Figures> {
    let (killed, rounds) = line.split_once(" killed processes in ")?;
    rounds.ends_with(" rounds").then_some(())?;
    Some(Figures { seeds: 1, crashes: killed.parse().ok()?, simulated_seconds: 0 })
}

/// The counts of one harness.
#[derive(Default)]
struct Seen {
    figures: Figures,
    time: Duration,
    failed_seeds: Vec<u64>,
}

/// Soaks for some minutes, with every harness or with those whose name has a word in it.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let Some(minutes) = arguments.first().and_then(|text| text.parse::<u64>().ok()) else {
        eprintln!("xtask soak: for how many MINUTES?");
        return ExitCode::from(2);
    };
    let word = arguments.get(1).map_or("", String::as_str);
    let mut harnesses = harnesses();
    harnesses.retain(|harness| harness.name.contains(word));
    if harnesses.is_empty() {
        eprintln!("xtask soak: no harness has {word:?} in its name");
        return ExitCode::from(2);
    }
    match soak(&harnesses, Duration::from_secs(minutes * 60)) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("xtask soak: {why}");
            ExitCode::from(2)
        }
    }
}

fn soak(harnesses: &[Harness], length: Duration) -> Result<usize, String> {
    let environment = Environment::real();
    let commit = git(&["describe", "--always", "--dirty"])?;
    // The first eight digits: room above them for the seeds that follow.
    let digits = git(&["rev-parse", "HEAD"])?;
    let first_seed = digits.get(..8).and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let first_seed = first_seed.ok_or("the commit has no digits")?;
    for harness in harnesses {
        let (built, output) = shell(harness.build)?;
        if !built {
            return Err(format!("cannot build {}:\n{output}", harness.name));
        }
    }
    let mut seen: Vec<Seen> = harnesses.iter().map(|_| Seen::default()).collect();
    let began = environment.now();
    while environment.now() - began < length {
        for (harness, seen) in harnesses.iter().zip(&mut seen) {
            let turn_began = environment.now();
            take_turn(harness, seen, first_seed + seen.figures.seeds)?;
            seen.time += environment.now() - turn_began;
        }
    }
    let mut failures = 0;
    for (harness, Seen { figures, time, failed_seeds }) in harnesses.iter().zip(&seen) {
        failures += failed_seeds.len();
        let Figures { seeds, crashes, simulated_seconds } = figures;
        let line = json!({
            "commit": commit,
            "harness": &harness.name,
            "first_seed": first_seed,
            "seeds": seeds,
            "crashes": crashes,
            "simulated_seconds": simulated_seconds,
            "seconds": time.as_secs(),
            "failures": failed_seeds.len(),
            "failed_seeds": failed_seeds,
        });
        append(&line.to_string())?;
        println!("{}: {crashes} crashes, {} failures", harness.name, failed_seeds.len());
    }
    Ok(failures)
}

fn take_turn(harness: &Harness, seen: &mut Seen, seed: u64) -> Result<(), String> {
    let command = harness.run.replace("{seed}", &seed.to_string());
    let (passed, output) = shell(&command)?;
    let figures = output.lines().rev().find_map(harness.figures);
    let Figures { seeds, crashes, simulated_seconds } = figures.unwrap_or_default();
    // A turn that reported nothing used up its seed, too.
    seen.figures.seeds += seeds.max(1);
    seen.figures.crashes += crashes;
    seen.figures.simulated_seconds += simulated_seconds;
    if !passed || figures.is_none() {
        seen.failed_seeds.push(seed);
        println!("FAILED: {command}\n{output}");
    }
    Ok(())
}

fn shell(command: &str) -> Result<(bool, String), String> {
    let output = Command::new("sh")
        .args(["-c", &format!("exec 2>&1; {command}")])
        .output()
        .map_err(|error| format!("{command}: {error}"))?;
    Ok((output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned()))
}

fn git(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("git").args(arguments).output();
    let output = output.map_err(|error| format!("git: {error}"))?;
    if !output.status.success() {
        return Err(format!("git: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[expect(clippy::disallowed_methods, reason = "appends to a file of the repository")]
fn append(line: &str) -> Result<(), String> {
    use std::io::Write;
    let opened = std::fs::OpenOptions::new().create(true).append(true).open(LEDGER);
    let written = opened.and_then(|mut file| writeln!(file, "{line}"));
    written.map_err(|error| format!("{LEDGER}: {error}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_engine_of_the_list_is_crashed_and_killed() {
        let engines = engines();
        // A test of the database compares the sections of this page with `EngineKind::ALL`.
        let page = include_str!("../../../../docs/settings.md");
        let sections = page.lines().filter_map(|line| line.strip_prefix("## `")?.strip_suffix('`'));
        assert_eq!(engines, sections.collect::<Vec<_>>());
        let harnesses = harnesses();
        let is_run = |name: &str| harnesses.iter().any(|harness| harness.name == name);
        for engine in engines {
            assert!(is_run(&format!("{engine} on a simulated disk")));
            assert!(is_run(&format!("{engine} of small parts, kill -9")));
        }
        let names: BTreeSet<&str> = harnesses.iter().map(|harness| &*harness.name).collect();
        assert_eq!(names.len(), harnesses.len(), "{names:?}");
    }

    #[test]
    fn an_entry_of_an_engine_may_have_any_layout() {
        let source = "
macro_rules! engines { ($kind:ident => $name:ident {}) => {}; }

engines! {
    /// `Doc => comment { of },` an engine.
    A => a { Options },
    B => b {},
    C => c {
        Options,
    },
    #[cfg(test)] D => d {},
    #[cfg(test)]
    /// For tests.
    E => e { Options },
    F => f{ Options },
}

fn kind() { match kind { A => g { } } }
";
        assert_eq!(engines_of(source), ["a", "b", "c", "f"]);
    }

    #[test]
    fn what_the_harnesses_print_is_understood() {
        let journal = journal_figures("40012 crashes of 98 runs, none lost anything: 7 torn tails");
        assert_eq!(journal, Some(Figures { seeds: 49, crashes: 40012, simulated_seconds: 0 }));
        let database = database_figures("4000 power cuts of 20 runs over small parts");
        assert_eq!(database, Some(Figures { seeds: 20, crashes: 4000, simulated_seconds: 0 }));
        let tuned = database_figures("9000 power cuts of 10 runs over tuned engines");
        assert_eq!(tuned, Some(Figures { seeds: 1, crashes: 9000, simulated_seconds: 0 }));
        for line in ["9 power cuts of 2 runs of a space", "9 power cuts of 2 runs with little room"]
        {
            let figures = database_figures(line).map(|figures| (figures.seeds, figures.crashes));
            assert_eq!(figures, Some((2, 9)));
        }
        assert_eq!(database_figures("200 power cuts, each followed by two more"), None);
        let entry = r#"{"commit":"a","seeds":5,"crashes":900,"simulated_seconds":60}"#;
        let memory = Figures { seeds: 5, crashes: 900, simulated_seconds: 60 };
        assert_eq!(conformance_figures(entry), Some(memory));
        assert_eq!(kill_figures("21 passed, 0 failed").map(|figures| figures.crashes), Some(21));
        assert_eq!(kill_figures("round 3: 7 writes verified"), None);
        let cluster = cluster_figures("4 killed processes in 6 rounds");
        assert_eq!(cluster.map(|figures| (figures.seeds, figures.crashes)), Some((1, 4)));
    }
}
