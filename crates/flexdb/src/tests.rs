//! The store as a whole: what it answers, what its commits do, and what it finds when it is opened.

pub(crate) mod commits;
mod contract;
mod crash;
mod defects;
mod every_io;
pub(crate) mod fragmented;
mod memory_resize;
mod opening;
pub(crate) mod pace;
mod pair_reads;
pub(crate) mod pairs;
mod parts;
mod planted;
mod recovery;
mod rounds;
mod seats;
pub(crate) mod stores;
mod thinning;
mod tidying;
