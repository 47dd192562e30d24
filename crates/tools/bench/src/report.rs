//! A run's report: one object, as JSON, as a table on the terminal and as a page with plots.

mod elsewhere;
mod html;
mod json;
mod marks;
mod plot;
mod separation;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use html::setting;
pub use html::{page, write_page};
pub(crate) use json::write_whole;
pub use json::{
    Cpu, Device, LatencyUs, LoadReport, Report, Traffic, WriterWait, read_reports, write_json,
};
pub use marks::{Mark, RESIDENT_SHARE_MIN, fills_budget};
pub use separation::write_separation_page;
pub use table::{builds_table, comparison_table, run_table};
pub(crate) use table::{bytes, count, micros, spread};
