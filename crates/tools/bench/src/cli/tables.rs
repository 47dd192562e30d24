//! `bench tables`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::compare::tell;
use super::{BenchError, EXIT_WRONG};
use crate::compare::{Kept, KeptError, Place, Programs};
use crate::report::write_page;
use crate::stores::is_ours;
use crate::tables::{Found, Origin, Suite, Wanted, estimate, in_words, write};

/// A page of results.
#[derive(Args, Clone, Debug)]
pub struct TablesArgs {
    /// The suite of comparisons, a TOML file; the page and its figures are written next to it
    pub suite: PathBuf,
    /// How often each store runs each workload [default: the suite's]
    #[arg(long)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: Option<u32>,
    /// Another build of ours, which takes turns with this one, in place of the suite's
    #[arg(long, value_name = "PROGRAM")]
    pub baseline: Option<PathBuf>,
    /// An option of `bench run` for every run, in place of the suite's, as --option=--seconds=2
    #[arg(long)]
    pub option: Vec<String>,
    /// Write the page and its figures to this directory instead
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// The directory for loads and finished runs, with a folder for each page, until the page is
    /// whole. A suite that was interrupted continues from there, if it is the same build. The data
    /// of the runs are there, too
    #[arg(long, default_value = "target/tables")]
    pub keep: PathBuf,
    /// Write plots of each comparison to this directory
    #[arg(long)]
    pub plots: Option<PathBuf>,
    /// Print how long the suite takes, and end
    #[arg(long)]
    pub dry_run: bool,
}

pub(super) fn execute(args: &TablesArgs) -> Result<ExitCode, BenchError> {
    let text = std::fs::read_to_string(&args.suite).map_err(io(&args.suite))?;
    let mut suite = Suite::parse(&text)
        .map_err(|error| BenchError::Usage(format!("{}: {error}", args.suite.display())))?;
    suite.baseline = args.baseline.clone().or(suite.baseline);
    let name = args.suite.file_stem().map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_else(|| "page".to_owned());
    let time = in_words(estimate(&suite, args.rounds, &args.option));
    eprintln!("{name}: {} comparisons, about {time}", suite.comparison.len());
    if args.dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    let sources = args.suite.parent().unwrap_or(Path::new("")).to_owned();
    let out = args.out.clone().unwrap_or_else(|| sources.clone());
    let programs =
        Programs::find().map_err(|error| BenchError::Io("this program".to_owned(), error))?;
    let programs = Programs { baseline: suite.baseline.clone(), ..programs };
    let stores = suite.comparison.iter().filter(|wanted| wanted.from.is_none());
    let has_peers = stores.flat_map(|wanted| &wanted.with).any(|store| !is_ours(store));
    if let Some(missing) = programs.missing_peers().filter(|_| has_peers) {
        return Err(BenchError::Usage(missing));
    }
    if let Some(missing) = programs.baseline.as_ref().filter(|program| !program.is_file()) {
        return Err(BenchError::Usage(format!(
            "the baseline, another build of ours, is not at {}",
            missing.display()
        )));
    }
    for dir in std::iter::once(&out).chain(&args.plots) {
        std::fs::create_dir_all(dir).map_err(io(dir))?;
    }
    let peers = has_peers.then_some(programs.peers.as_path());
    let baseline = programs.baseline.as_deref();
    let ours = programs.ours.as_path();
    let used: Vec<&Path> = std::iter::once(ours).chain(peers).chain(baseline).collect();
    let kept = Kept::open(&args.keep.join(&name), &used)?;
    let command = command(&name, args);
    // It may have comparisons of other pages.
    let before = std::fs::read_to_string(sources.join(format!("{name}.md"))).unwrap_or_default();
    // Before the first run: later the working directory may differ from the build.
    let origin = Origin::here();
    let mut found = Vec::new();
    let mut is_whole = true;
    for (number, wanted) in suite.comparison.iter().enumerate() {
        if let Some(page) = &wanted.from {
            found.extend(taken(&sources, page, wanted));
        } else {
            eprintln!("{} of {}: {}", number + 1, suite.comparison.len(), wanted.title);
            let data = format!("--dir={}", kept.data().display());
            let more: Vec<String> = std::iter::once(data).chain(args.option.clone()).collect();
            let config = suite.config(wanted, args.rounds, &more);
            let (scratch, section) = (kept.scratch(), kept.section(number + 1));
            let place = Place { scratch: &scratch, kept: Some(section) };
            let comparison = crate::compare::execute(&config, &programs, place, tell)?;
            is_whole &= comparison.is_whole();
            if let Some(plots) = &args.plots {
                let path = plots.join(format!("{name}-{}.html", number + 1));
                let title = format!("{}: {}", suite.title, wanted.title);
                write_page(&path, &title, &comparison.runs).map_err(io(&path))?;
            }
            found.push(Found::of(&wanted.title, &comparison, origin.clone()));
        }
        write(&out, &name, &suite, &found, (&command, &before)).map_err(io(&out.join(&name)))?;
    }
    if is_whole {
        kept.discard().map_err(io(&args.keep))?;
    }
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(EXIT_WRONG) })
}

/// The comparison that `wanted` takes from the figures of another page, if that page was made.
fn taken(dir: &Path, page: &str, wanted: &Wanted) -> Option<Found> {
    let text = std::fs::read_to_string(dir.join(format!("{page}.json"))).ok()?;
    let figures: Vec<Found> = serde_json::from_str(&text).ok()?;
    let figures = figures.into_iter().find(|found| found.title == wanted.title)?;
    Some(figures.beside(&wanted.engine, &wanted.with))
}

fn io(path: &Path) -> impl Fn(std::io::Error) -> BenchError + use<> {
    let path = path.display().to_string();
    move |error| BenchError::Io(path.clone(), error)
}

impl From<KeptError> for BenchError {
    fn from(error: KeptError) -> Self {
        match error {
            KeptError::Io(path, error) => Self::Io(path.display().to_string(), error),
            in_use @ KeptError::InUse(_) => Self::Usage(in_use.to_string()),
        }
    }
}

/// Returns the command that makes the same page again.
fn command(name: &str, args: &TablesArgs) -> String {
    let mut words = vec![format!("./dev tables {name}")];
    words.extend(args.rounds.map(|rounds| format!("--rounds={rounds}")));
    let baseline = args.baseline.as_ref();
    words.extend(baseline.map(|program| format!("--baseline={}", program.display())));
    words.extend(args.option.iter().map(|option| format!("--option={option}")));
    words.join(" ")
}
