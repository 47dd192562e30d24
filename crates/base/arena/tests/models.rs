//! Models of the skip list and of the pool of pieces, each a few threads and a few steps, for both
//! checkers.

pub mod pieces;
pub mod skip_list;
