//! The FlexSpace paper's tables 1 and 2, its collector's cost, and recovery, as a page.
//!
//! `./dev tables flexspace` runs it at full size. It makes a space, and a file of the file system
//! next to it, in folders of DIR, and removes them. `--help` lists the sizes that can be made
//! smaller.

mod collection;
mod page;
mod recovery;
mod spaces;
mod trees;

use std::error::Error;
use std::path::PathBuf;

use environment::Environment;

type Outcome<T> = Result<T, Box<dyn Error>>;

const HELP: &str = "\
flexspace_tables DIR [OPTION VALUE]...
  --out FILE       where the page goes; standard output unless given
  --extents LIST   sizes of table 1 (100000,1000000,10000000,100000000; the last takes 3 GB of memory)
  --mib COUNT      bytes of a space of table 2 (1024)
  --file-mib COUNT bytes of the file whose inserts shift (1024; hours where that is slow)
  --rounds COUNT   of which the median is taken (3)
  --state TEXT     what else the machine did, for the page's text";

/// Sizes and places of the measurements.
pub(crate) struct Plan {
    pub(crate) environment: Environment,
    pub(crate) dir: PathBuf,
    pub(crate) extents: Vec<u64>,
    pub(crate) mib: u64,
    pub(crate) file_mib: u64,
    pub(crate) rounds: u64,
    state: Option<String>,
    out: Option<PathBuf>,
}

impl Plan {
    fn of(mut arguments: impl Iterator<Item = String>) -> Outcome<Self> {
        let dir = arguments.next().filter(|dir| !dir.starts_with('-')).ok_or(HELP)?;
        let mut plan = Self {
            environment: Environment::seeded(1),
            dir: dir.into(),
            extents: vec![100_000, 1_000_000, 10_000_000, 100_000_000],
            mib: 1024,
            file_mib: 1024,
            rounds: 3,
            state: None,
            out: None,
        };
        while let Some(option) = arguments.next() {
            let value = arguments.next().ok_or(HELP)?;
            match option.as_str() {
                "--out" => plan.out = Some(value.into()),
                "--extents" => {
                    let numbers = value.split(',').map(|number| number.trim().parse());
                    plan.extents = numbers.collect::<Result<_, _>>()?;
                }
                "--mib" => plan.mib = value.parse()?,
                "--file-mib" => plan.file_mib = value.parse()?,
                "--rounds" => plan.rounds = value.parse()?,
                "--state" => plan.state = Some(value),
                _ => return Err(HELP.into()),
            }
        }
        if plan.rounds == 0 || plan.mib < 64 || plan.file_mib == 0 {
            return Err("one round at least, of 64 MiB at least".into());
        }
        Ok(plan)
    }

    /// Returns how long something takes, in seconds.
    pub(crate) fn seconds<T>(&self, work: impl FnOnce() -> Outcome<T>) -> Outcome<(f64, T)> {
        let began = self.environment.now();
        let done = work()?;
        Ok(((self.environment.now() - began).as_secs_f64(), done))
    }
}

/// Returns the one in the middle.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn say(what: &str) {
    eprintln!("flexspace_tables: {what}");
}

fn main() -> Outcome<()> {
    let plan = Plan::of(std::env::args().skip(1))?;
    std::fs::create_dir_all(&plan.dir)?;
    let began = plan.environment.now();
    say("table 1: trees");
    let trees = trees::measure(&plan)?;
    say("table 2: spaces and files");
    let spaces = spaces::measure(&plan)?;
    say("the collector");
    let collection = collection::measure(&plan)?;
    say("recovery");
    let recovery = recovery::measure(&plan)?;
    let took = (plan.environment.now() - began).as_secs();
    let head = page::head(plan.state.as_deref(), took);
    let goals = page::goals(&plan, &trees, &spaces);
    let text = [
        head,
        trees::table(&trees),
        spaces::table(&plan, &spaces),
        collection::table(&collection),
        recovery::table(&recovery),
        goals,
    ]
    .concat();
    match &plan.out {
        Some(path) => page::write(path, &text)?,
        None => print!("{text}"),
    }
    Ok(())
}
