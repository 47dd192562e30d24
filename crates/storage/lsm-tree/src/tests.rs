//! Compactions without a store.

mod compaction;
mod planted;
mod planted_page;
