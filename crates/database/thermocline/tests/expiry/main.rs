//! Values that end: what is shown of them on every way, what is stored, and what is removed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod crash;
mod database;
mod edges;
mod model;
#[path = "../planted/expiry.rs"]
mod planted;
mod removal;
mod shown;
