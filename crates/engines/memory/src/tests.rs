//! Tests of the whole store.

mod concurrency;
mod contract;
mod durability;
mod model;
mod reclaim;
mod salvage;
mod stores;
