//! Tests without a kernel: files, names and what is asked for by attributes.

mod closing;
mod files;
mod listed;
mod shifts;
