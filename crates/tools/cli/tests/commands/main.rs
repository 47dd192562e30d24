//! The binary from outside: its output, and its exit codes.
#![expect(clippy::unwrap_used, reason = "a test: what is missing fails it")]

mod backups;
mod cluster;
#[cfg(feature = "cluster")]
mod components;
mod configuration;
mod data;
mod dumps;
#[cfg(feature = "cluster")]
mod etcd;
#[cfg(feature = "cluster")]
mod figures;
mod flexspace;
mod full_devices;
mod help;
mod mounts;
mod program;
mod salvage;
mod serving;
mod tune;
mod unordered;
mod upkeep;
