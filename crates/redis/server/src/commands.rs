//! The commands: one table, one dispatcher, one file per group.
//!
//! To follow a command: [`dispatch::dispatch`] finds it in [`table::COMMANDS`], checks arity,
//! authentication and memory, queues it if a MULTI is open, enters the gate as its flags ask, and
//! calls its handler.

pub(crate) mod access;
mod apart;
pub(crate) mod call;
pub(crate) mod client;
pub(crate) mod command;
pub(crate) mod config;
pub(crate) mod connection;
pub(crate) mod counters;
pub(crate) mod dispatch;
pub(crate) mod expiry;
pub(crate) mod failure;
pub(crate) mod flags;
pub(crate) mod info;
pub(crate) mod keys;
pub(crate) mod object;
pub(crate) mod plan;
pub(crate) mod room;
pub(crate) mod scan;
pub(crate) mod server;
pub(crate) mod set;
pub(crate) mod strings;
pub(crate) mod table;
pub(crate) mod transactions;
pub(crate) mod walk;

pub(crate) use call::{Alone, Call, ReadMode};
pub(crate) use dispatch::{Dispatched, Parked, dispatch};
pub(crate) use failure::{Failure, Outcome};
pub(crate) use room::Room;
pub(crate) use table::COMMANDS;
