//! Backups of databases with keyspaces of every engine: made during writes, restored, shared, cut
//! off, damaged, refused.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod crashes;
mod database;
mod failures;
mod making;
#[path = "../planted/backup.rs"]
mod planted;
