//! What a run reports: one object, as JSON, as a table on the terminal and as a page with plots.

mod html;
mod json;
mod plot;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use html::setting;
pub use html::{page, write_page};
pub use json::{Cpu, Device, LatencyUs, LoadReport, Report, Traffic, read_json, write_json};
pub(crate) use table::{bytes, count, micros};
pub use table::{comparison_table, run_table};
