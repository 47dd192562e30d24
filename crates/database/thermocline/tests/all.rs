//! The tests that need no process of their own, as one program that is linked once.
//!
//! A new file of tests becomes a module here; `./dev check` fails if one is left out.

#[path = "async_writes/main.rs"]
mod async_writes;
mod belonging;
mod closing;
mod cold_keys;
mod copy_sides;
mod damage_places;
mod damaged;
mod database;
mod discarded_journal;
mod every_kind;
mod examples;
#[path = "expiry/main.rs"]
mod expiry;
mod few_pages;
mod first_changes;
mod full_crash;
mod full_device;
mod held_room;
mod ingestion;
mod ingestion_crash;
mod journal_causes;
mod journal_size;
mod many_keyspaces;
#[path = "memory_balance/main.rs"]
mod memory_balance;
#[path = "merge/main.rs"]
mod merge;
mod newer_versions;
mod numbered;
mod old_values;
mod opening_costs;
mod ordered;
mod other_lengths;
mod panics;
mod range_deletes;
mod read_only;
mod reclaim;
mod replay_checkpoints;
mod salvage;
mod session_crash;
mod session_rmw;
mod sessions;
mod settings;
mod small_parts;
mod smaller_memory;
mod transaction_crash;
mod transaction_ranges;
mod transactions;
mod trimming;
mod tuned;
mod tunings;
mod unordered;
mod waiting_rmw;
mod with_queues;
mod writer_waits;
