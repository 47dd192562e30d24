//! Tests of whole stores.

mod barrier;
mod bound;
mod collect;
mod crash;
mod examine;
mod failures;
mod idle;
mod reads;
mod stores;
mod unjournaled;
mod writes;
