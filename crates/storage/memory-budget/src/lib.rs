//! How much memory a store may use, which of its parts uses it, and what more memory would be
//! worth.
//!
//! | type | is |
//! |---|---|
//! | [`MemoryBudget`] | the bytes that one store may use, and the bytes that it uses |
//! | [`Account`] | the bytes of one consumer of a budget |
//! | [`Charge`] | the bytes of one object of a consumer, counted as long as it lives |
//! | [`GhostTable`] | recently evicted keys of a cache, which count the reads that a larger one would save |
//! | [`MemoryNeeds`], [`MemoryGain`] | figures with which a host moves memory between stores |

mod account;
mod budget;
mod ghost_table;
mod needs;

pub use account::{Account, Charge};
pub use budget::{MemoryBudget, OutOfMemory};
pub use ghost_table::GhostTable;
pub use needs::{MemoryGain, MemoryNeeds};
