//! Values that expire: how each way of reading shows them, their stored form, and their removal.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod crash;
mod database;
mod edges;
mod model;
mod shown;
mod sweep;
