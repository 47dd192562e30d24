//! Tests of the whole store, and what tests of its parts build them from.

mod acknowledged;
mod closing;
mod compression;
mod contract;
mod crash;
mod dranges;
mod durability;
mod hot_spot;
mod idle;
mod ingest;
mod loads;
mod memory_resize;
#[cfg(shuttle)]
mod models;
mod pair_reads;
mod planted_page;
mod range_deletes;
mod scan_reads;
mod seats;
pub(crate) mod stores;
pub(crate) mod tables;
mod upkeep;
