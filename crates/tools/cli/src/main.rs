//! The binary `thermocline`; everything is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    thermocline_cli::main()
}
