//! A proxy in front of a Redis-protocol server that records the requests as a trace.
//!
//! 1. Two threads a connection pass bytes on as they come, and never wait for the trace.
//! 2. The client's side is parsed into commands, which wait in order. The server's side is parsed
//!    into replies: each is for the command that has waited longest, and shows the size of the
//!    value that it found.
//! 3. The operations of a command on its keys become lines of the trace, once its reply has
//!    arrived.
//!
//! A connection whose protocol cannot be followed (subscriptions, `MONITOR`, garbage) is still
//! passed on, and no longer traced.

mod command;
mod proxy;
mod resp;
#[cfg(test)]
mod tests;

pub use command::trace_lines;
pub use proxy::Recorder;
pub use resp::{Item, Message, Parser, ProtocolError};
