//! Tests of whole stores.

#[cfg(not(shuttle))]
mod barrier;
#[cfg(not(shuttle))]
mod bound;
#[cfg(not(shuttle))]
mod collect;
#[cfg(not(shuttle))]
mod crash;
#[cfg(not(shuttle))]
mod examine;
#[cfg(not(shuttle))]
mod failures;
#[cfg(not(shuttle))]
mod group_size;
#[cfg(not(shuttle))]
mod idle;
#[cfg(not(shuttle))]
mod key_filters;
#[cfg(shuttle)]
mod models;
#[cfg(not(shuttle))]
mod moved;
#[cfg(not(shuttle))]
mod reads;
#[cfg(not(shuttle))]
mod replacement;
#[cfg_attr(shuttle, expect(dead_code, reason = "models use a part of it"))]
mod stores;
#[cfg(not(shuttle))]
mod unjournaled;
#[cfg(not(shuttle))]
mod unknown_places;
#[cfg(not(shuttle))]
mod value_cache;
#[cfg(not(shuttle))]
mod writes;
