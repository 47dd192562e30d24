//! Compactions without a store.

mod compaction;
