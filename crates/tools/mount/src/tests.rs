//! Tests without a kernel: files, names and the requests that attributes make.

mod closing;
mod files;
mod listed;
mod shifts;
