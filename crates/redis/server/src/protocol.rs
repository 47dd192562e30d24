//! The Redis wire protocol: requests in, replies out, and the numbers written in both.

pub(crate) mod args;
pub(crate) mod decimal;
pub(crate) mod inline;
pub(crate) mod number;
pub(crate) mod parser;
pub(crate) mod reply;

pub(crate) use args::Args;
pub(crate) use parser::{Bounds, Parser, Step};
pub(crate) use reply::{Extent, Reply};
