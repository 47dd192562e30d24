//! Workloads, measurement and reports.

pub mod distribution;
pub mod measure;
pub mod memory;
pub mod shape;
pub mod stores;
pub mod value;
pub mod workload;
