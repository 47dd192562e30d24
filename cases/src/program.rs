//! The program `thermocline`, built with the cases.

use std::process::ExitCode;

fn main() -> ExitCode {
    thermocline_cli::main()
}
