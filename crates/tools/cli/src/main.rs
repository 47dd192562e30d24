//! The binary `thermocline`; everything is in the library next to it.

use std::process::ExitCode;

fn main() -> ExitCode {
    thermocline_cli::main()
}
