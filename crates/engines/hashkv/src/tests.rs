//! Tests of whole stores.

mod barrier;
mod crash;
mod examine;
mod reads;
mod stores;
mod unjournaled;
mod writes;
