//! The store as a whole: the results of its calls, its commits, and its openings.
//!
//! The models' modules have only what the models use: they are built with all optimisations.

#[cfg(not(shuttle))]
mod coarsen_index;
#[cfg(not(shuttle))]
mod commit_steps;
#[cfg(not(shuttle))]
pub(crate) mod commits;
#[cfg(not(shuttle))]
mod contract;
#[cfg(not(shuttle))]
mod crash;
#[cfg(not(shuttle))]
mod defects;
#[cfg(not(shuttle))]
mod defragment_idle;
#[cfg(not(shuttle))]
mod every_io;
#[cfg(not(shuttle))]
pub(crate) mod fragmented_queue;
#[cfg(not(shuttle))]
mod lookups;
#[cfg(not(shuttle))]
mod memory_parts;
#[cfg(shuttle)]
mod models;
#[cfg(not(shuttle))]
mod opening;
#[cfg(not(shuttle))]
mod pair_reads;
#[cfg(not(shuttle))]
pub(crate) mod pairs;
#[cfg(not(shuttle))]
mod parts;
#[cfg(not(shuttle))]
mod planted;
#[cfg(not(shuttle))]
mod reclaim;
#[cfg(not(shuttle))]
mod recovery;
#[cfg(not(shuttle))]
mod rounds;
#[cfg_attr(shuttle, expect(dead_code, reason = "models use a part of it"))]
pub(crate) mod stores;
