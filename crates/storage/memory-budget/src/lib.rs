//! How much memory a store may use, which of its parts uses it, and what more memory would be
//! worth.
//!
//! | type | is |
//! |---|---|
//! | [`MemoryBudget`] | the bytes that one store may use, and the bytes that it uses |
//! | [`Account`] | the bytes of one consumer of a budget |
//! | [`Charge`] | the bytes of one object of a consumer, counted as long as it lives |
//! | [`HighWater`] | the most that writers recently took, which a cache leaves to them |
//! | [`GhostTable`] | recently evicted keys; they count the reads that a larger cache would save |
//! | [`MemoryNeeds`], [`MemoryGain`] | figures with which a host moves memory between stores |
//! | [`plan_move`] | the decision which store gets memory from which |

mod account;
mod budget;
mod ghost_table;
mod high_water;
mod needs;
mod plan_move;

pub use account::{Account, Charge};
pub use budget::{MemoryBudget, OutOfMemory};
pub use ghost_table::{GHOST_PAGE_BYTES, GhostTable};
pub use high_water::HighWater;
pub use needs::{MemoryGain, MemoryNeeds};
pub use plan_move::{Decision, Figures, STEP_BYTES_MIN, ShareFigures, Step, plan_move};
