//! `thermocline completions`: the completion script of a shell, on standard output.

use clap::CommandFactory;

use crate::arguments::{Arguments, Completions};
use crate::failure::Outcome;
use crate::output;

pub(super) fn run(arguments: &Completions) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "thermocline", &mut script);
    output::bytes(&script)
}
