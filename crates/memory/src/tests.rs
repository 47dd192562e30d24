//! Tests of the whole store.

mod contract;
mod model;
mod stores;
