//! Workloads, measurement and reports.

pub mod cli;
pub mod compare;
pub mod distribution;
pub mod measure;
pub mod memory;
pub mod progress;
pub mod record;
pub mod report;
pub mod run;
pub mod shape;
pub mod stores;
pub mod tables;
pub mod tune;
pub mod value;
pub mod workload;
