//! The configuration: a TOML file, then the environment, then flags, later ones winning.
//!
//! - `settings.rs`: The one table that flags, variables, file keys and `--print-config` come from.
//! - `values.rs`: Conversion of texts to values, each with a message that names the allowed ones.
//! - `engines.rs`: The names of engines in help texts, from the list of engines.
//! - `allowed_memory.rs`: The memory that the machine or a control group lets the process use.
//! - `layers.rs`: The layers, and which one each value came from. Unknown keys are errors.
//! - `flags.rs`: The table as command-line flags.

mod allowed_memory;
mod engines;
mod flags;
mod layers;
mod nearest;
mod settings;
#[cfg(test)]
mod tests;
mod values;

pub(crate) use flags::{LoadFlags, LtcFlags, MemberFlags, ServerFlags, StocFlags, StoreFlags};
#[cfg(feature = "cluster")]
pub(crate) use layers::Member;
pub use layers::parse_file;
pub(crate) use layers::{Effective, Flags, Origin};
pub(crate) use settings::Scope;
pub(crate) use values::duration;
#[cfg(feature = "cluster")]
pub(crate) use values::hosts_and_ports;
