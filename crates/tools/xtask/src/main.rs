//! The small programs behind `./dev`: repository rules, dependency policy, test counting.
//!
//! `./dev` calls this program. Each subcommand is one file:
//!
//! - `style [--write]` (`style.rs`, `test_files.rs`, `exports.rs`, `ratchets.rs`): Checks file
//!   headers, lengths, names and forbidden words. Reports test files that no program compiles,
//!   types that `thermocline` does not export, and counts that have risen.
//! - `style --list CRATE NAME` (`ratchets.rs`): Lists the places that one count is made of.
//! - `style --report` (`report.rs`, `paths.rs`, `similar.rs`): Prints counts that describe the code
//!   base.
//! - `facts BASE` (`facts.rs`): Lists labels and numbers of comments that the change since BASE
//!   loses.
//! - `links` (`links.rs`): Checks that every path and function that a document names exists.
//! - `figures` (`figures.rs`): Checks that README quotes no figure that a page of benchmarks does
//!   not have.
//! - `unsafe [--write]` (`unsafety.rs`): Checks the unsafe blocks of each file against the
//!   committed allowance.
//! - `mutants [--write] | mutants run [WORD] | mutants refresh` (`mutants.rs`): Applies the
//!   patches of `reliability/mutants` to a copy of the tree, shows that the tests find each fault,
//!   or writes the patches again.
//! - `policy` (`policy.rs`): Checks `cargo metadata` against the licences, sources and bans of
//!   `deny.toml`.
//! - `soak MINUTES` (`soak.rs`): Runs crash harnesses in turn, and appends to the ledger.
//! - `suite STEP... [-- STEP... [-- STEP...]]` (`suite.rs`): Runs test commands, and reports the
//!   count and each failed test.

mod built;
mod exports;
mod facts;
mod figures;
mod limited;
mod links;
mod mutants;
mod paths;
mod policy;
mod prose;
mod ratchets;
mod report;
mod similar;
mod soak;
mod sources;
mod structs;
mod style;
mod suite;
mod test_files;
mod unsafety;

use std::process::ExitCode;

/// The result of a subcommand: the broken rules, one line each, or the reason why it could not run.
type Findings = Result<Vec<String>, String>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match arguments.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("", &[][..]),
    };
    if command == "suite" {
        return suite::run(rest);
    }
    if command == "soak" {
        return soak::run(rest);
    }
    let findings = match command {
        "style" => style::run(rest),
        "facts" => facts::run(rest.first().map_or("HEAD", String::as_str)).map(|()| Vec::new()),
        "links" => links::check(),
        "figures" => figures::check(),
        "unsafe" => unsafety::check(rest.iter().any(|argument| argument == "--write")),
        "mutants" => mutants::run(rest),
        "policy" => policy::check(),
        other => {
            let all = "style, facts, links, figures, unsafe, mutants, policy, soak, suite";
            Err(format!("no command {other:?}: one of {all}"))
        }
    };
    match findings {
        Ok(findings) if findings.is_empty() => {
            println!("xtask {command}: ok");
            ExitCode::SUCCESS
        }
        Ok(findings) => {
            for finding in &findings {
                eprintln!("{finding}");
            }
            eprintln!("xtask {command}: {} to mend", findings.len());
            ExitCode::FAILURE
        }
        Err(why) => {
            eprintln!("xtask {command}: {why}");
            ExitCode::from(2)
        }
    }
}
