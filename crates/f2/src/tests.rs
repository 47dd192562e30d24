//! The store as a whole, beyond what the conformance suite holds it to.

mod bad_options;
mod checked;
mod compaction;
mod costs;
mod counters;
mod counts;
mod crowded;
mod defects;
mod directory;
mod durability;
mod fetch;
mod figures;
mod full_device;
mod laws;
mod memory_resize;
mod memory_split;
mod planted;
mod prefix;
mod read_cache;
mod salvage;
mod sessions;
mod stores;
mod trouble;
mod two_logs;
mod typed;
mod walks;
