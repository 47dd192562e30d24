//! Backups of databases with keyspaces of every engine: made during writes, restored, shared, cut
//! off, damaged, refused.

mod crashes;
mod database;
mod failures;
mod making;
