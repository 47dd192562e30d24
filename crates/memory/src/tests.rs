//! Tests of the whole store.

mod concurrency;
mod contract;
mod durability;
mod model;
mod salvage;
mod stores;
