//! The configuration: a TOML file, then the environment, then flags, later ones winning.
//!
//! - `settings.rs`: the one table that flags, variables, file keys and `--print-config` come from.
//! - `values.rs`: texts to values, each with a message that names the allowed ones.
//! - `allowed_memory.rs`: the memory that the machine or a control group lets the process use.
//! - `layers.rs`: which layer a value came from; unknown keys are errors.
//! - `flags.rs`: the table as command-line flags.

mod allowed_memory;
mod flags;
mod layers;
mod nearest;
mod settings;
#[cfg(test)]
mod tests;
mod values;

pub(crate) use flags::{LoadFlags, ServerFlags, StoreFlags};
pub use layers::parse_file;
pub(crate) use layers::{Effective, Flags, Origin};
pub(crate) use settings::Scope;
pub(crate) use values::duration;
