//! Workloads, measurement and reports.
