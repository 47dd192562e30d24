//! Tests of the whole store, and the parts that they are built from.
//! A build of the models has only the modules that the models use, since it has all optimisations.

#[cfg(not(shuttle))]
mod acknowledged;
#[cfg(not(shuttle))]
mod back_pressure;
#[cfg(not(shuttle))]
mod closing;
#[cfg(not(shuttle))]
mod compression;
#[cfg(not(shuttle))]
mod contract;
#[cfg(not(shuttle))]
mod crash;
#[cfg(not(shuttle))]
mod dranges;
#[cfg(not(shuttle))]
mod durability;
#[cfg(not(shuttle))]
mod hot_spot;
#[cfg(not(shuttle))]
mod idle;
#[cfg(not(shuttle))]
mod ingest;
#[cfg(not(shuttle))]
mod loads;
#[cfg(not(shuttle))]
mod lookups;
#[cfg(not(shuttle))]
mod memory_parts;
#[cfg(not(shuttle))]
mod merges;
#[cfg(shuttle)]
mod models;
#[cfg(not(shuttle))]
mod pair_reads;
#[cfg(not(shuttle))]
mod planted_page;
#[cfg(not(shuttle))]
mod range_deletes;
#[cfg(not(shuttle))]
mod reclaim;
#[cfg(not(shuttle))]
mod salvaged;
#[cfg(not(shuttle))]
mod scan_reads;
#[cfg_attr(shuttle, expect(dead_code, reason = "models use a part of it"))]
pub(crate) mod stores;
#[cfg_attr(shuttle, expect(dead_code, reason = "models use a part of it"))]
#[cfg(not(shuttle))]
mod unjournaled;
#[cfg(not(shuttle))]
mod upkeep;
