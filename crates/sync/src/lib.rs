//! Atomics and cells switchable between std, loom and shuttle, and the epoch framework.
