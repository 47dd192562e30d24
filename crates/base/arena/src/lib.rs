//! Memory for concurrent structures, whose bytes are known.
//!
//! | module | is |
//! |---|---|
//! | [`Arena`] | zeroed words of the system, which are released as a whole |
//! | [`skip_list`] | a concurrent skip list of versions, in arenas |
//! | [`pieces`] | memory for the pieces of a cache, in slabs of equal slots |
//! | [`trim_heaps`], [`allocated_bytes`] | the allocator's memory |
//! | [`resident_bytes`] | the process's memory |
//!
//! The structures are checked by models, like the code of `thermocline-sync`:
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p thermocline-arena --profile models \
//!   --test loom --target-dir target/loom
//! RUSTFLAGS="--cfg shuttle" cargo test -p thermocline-arena --profile models \
//!   --test shuttle --target-dir target/shuttle
//! ```

mod arena;
mod heaps;
pub mod pieces;
mod planted;
pub mod skip_list;

pub use arena::Arena;
pub use heaps::{allocated_bytes, bound_heaps, resident_bytes, trim_heaps};
#[cfg(any(loom, shuttle))]
#[doc(hidden)]
pub use planted::Planted;
