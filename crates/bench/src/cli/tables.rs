//! `bench tables`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::compare::tell;
use super::{BenchError, EXIT_WRONG};
use crate::compare::Programs;
use crate::report::write_page;
use crate::stores::is_ours;
use crate::tables::{Found, Suite, write};

/// A page of results.
#[derive(Args, Clone, Debug)]
pub struct TablesArgs {
    /// The suite of comparisons, a TOML file; the page and its plots are written beside it
    pub suite: PathBuf,
    /// How often each store runs each workload [default: the suite's]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: Option<u32>,
    /// An option of `bench run` for every run, in place of the suite's, as --option=--seconds=2
    #[arg(long)]
    pub option: Vec<String>,
    /// Write the page and its plots to this directory instead
    #[arg(long)]
    pub out: Option<PathBuf>,
}

pub(super) fn execute(args: &TablesArgs) -> Result<ExitCode, BenchError> {
    let io = |path: &Path, error| BenchError::Io(path.display().to_string(), error);
    let text = std::fs::read_to_string(&args.suite).map_err(|error| io(&args.suite, error))?;
    let suite = Suite::parse(&text)
        .map_err(|error| BenchError::Usage(format!("{}: {error}", args.suite.display())))?;
    let name = args.suite.file_stem().map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_else(|| "page".to_owned());
    let beside = args.suite.parent().unwrap_or(Path::new("")).to_owned();
    let out = args.out.clone().unwrap_or(beside);
    let programs =
        Programs::find().map_err(|error| BenchError::Io("this program".to_owned(), error))?;
    let stores = suite.comparison.iter().flat_map(|wanted| &wanted.with);
    let has_peers = stores.into_iter().any(|store| !is_ours(store));
    if let Some(missing) = programs.missing_peers().filter(|_| has_peers) {
        return Err(BenchError::Usage(missing));
    }
    std::fs::create_dir_all(&out).map_err(|error| io(&out, error))?;
    let scratch = std::env::temp_dir().join(format!("thermocline-tables-{}", std::process::id()));
    let command = command(&name, args);
    let mut found = Vec::new();
    let mut is_whole = true;
    for (number, wanted) in suite.comparison.iter().enumerate() {
        eprintln!("{} of {}: {}", number + 1, suite.comparison.len(), wanted.title);
        let config = suite.config(wanted, args.rounds, &args.option);
        let result = crate::compare::execute(&config, &programs, &scratch, tell);
        let _ = std::fs::remove_dir_all(&scratch);
        let comparison = result?;
        is_whole &= comparison.is_whole();
        let plots = format!("{name}-{}.html", number + 1);
        let path = out.join(&plots);
        let title = format!("{}: {}", suite.title, wanted.title);
        write_page(&path, &title, &comparison.runs).map_err(|error| io(&path, error))?;
        found.push(Found::of(&comparison, plots));
        let path = out.join(format!("{name}.md"));
        write(&path, &suite, &found, &command).map_err(|error| io(&path, error))?;
    }
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(EXIT_WRONG) })
}

/// What makes the same page again.
fn command(name: &str, args: &TablesArgs) -> String {
    let mut words = vec![format!("./dev tables {name}")];
    words.extend(args.rounds.map(|rounds| format!("--rounds={rounds}")));
    words.extend(args.option.iter().map(|option| format!("--option={option}")));
    words.join(" ")
}
