//! Lets the suite look for every planted bug and prints the table of `docs/reliability/planted.md`.

use std::process::ExitCode;

use thermocline_conformance::broken::{Flaw, hunt};

const HEAD: &str = "\
# Planted bugs: engines

Each row is the reference engine with one bug, and a check of the conformance suite that must
reject it. *Cases* is how many cases of the check passed before one found it. Written by

    cargo run -p thermocline-conformance --example planted > docs/reliability/planted.md

and held by `crates/tools/conformance/tests/planted.rs`. The journal's mutants are
patches in `reliability/mutants/journal`, and those of models in its `src/planted.rs`.

| bug | what is wrong | check | cases | time | what the check said |
|---|---|---|---:|---:|---|
";

/// A table's cell holds no more of a message than this.
const CELL_CHARS: usize = 110;

fn main() -> ExitCode {
    // The bug that panics would write its backtrace between the rows.
    std::panic::set_hook(Box::new(|_| {}));
    print!("{HEAD}");
    let mut passed = 0;
    for catch in Flaw::ALL.iter().copied().flat_map(hunt) {
        let (name, what, check) = (catch.flaw.name(), catch.flaw.what(), catch.check);
        let Some(found) = catch.found else {
            passed += 1;
            println!("| {name} | {what} | {check} | {} | | **let pass** |", catch.passed);
            continue;
        };
        let found = found.lines().next().unwrap_or_default().replace('|', "\\|");
        let said: String = match found.chars().count() > CELL_CHARS {
            true => found.chars().take(CELL_CHARS).chain("...".chars()).collect(),
            false => found,
        };
        let ms = catch.took.as_secs_f64() * 1000.0;
        println!("| {name} | {what} | {check} | {} | {ms:.1} ms | {said} |", catch.passed);
    }
    if passed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
