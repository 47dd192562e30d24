//! The figures of a cluster, as a page.
//!
//! `./dev tables nova` runs it with the program in release. Each row starts clusters of its own,
//! whose processes are on loopback and whose files are below DIR, and ends them again. `--help`
//! lists the options.

mod cluster;
mod figures;
mod page;
mod plan;
mod process;
mod redis;
mod rows;
mod work;

use std::error::Error;

use plan::Plan;
use rows::{ROWS, Row};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn say(what: &str) {
    eprintln!("nova_tables: {what}");
}

fn main() -> Outcome<()> {
    let plan = Plan::of(std::env::args().skip(1))?;
    let _lock = process::lock(&plan.dir)?;
    let began = plan.environment.now();
    let (mut sections, mut failed) = (String::new(), Vec::new());
    for Row { name, title, measure } in ROWS.iter().filter(|row| plan.has(row.name)) {
        say(&format!("{name}: {title}"));
        let row_began = plan.environment.now();
        let text = match measure(&plan) {
            Ok(text) => text,
            Err(error) if plan.is_interrupted() => return Err(error),
            Err(error) => {
                say(&format!("{name} failed: {error}"));
                failed.push(*name);
                format!("This row failed: {}.\n", page::one_line(&error.to_string()))
            }
        };
        let took = (plan.environment.now() - row_began).as_secs();
        say(&format!("{name}: took {took} s"));
        sections += &format!("## {title}\n\n{text}\n");
    }
    let took = (plan.environment.now() - began).as_secs();
    let text = format!("{}{}", page::head(&plan, took), sections.trim_end()) + "\n";
    page::write(&plan.dir.join("nova.md"), &text)?;
    let is_whole = plan.has_all() && failed.is_empty();
    match plan.out.as_ref().filter(|_| is_whole) {
        Some(path) => page::write(path, &text)?,
        None => print!("{text}"),
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("not whole: {} failed", failed.join(", ")).into()),
    }
}
