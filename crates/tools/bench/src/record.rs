//! A proxy in front of a Redis-protocol server that writes down what it is asked, as a trace.
//!
//! 1. Two threads a connection pass bytes on as they come, and never wait for the trace.
//! 2. The client's side is parsed into commands, which wait in order; the server's side into
//!    replies, each of which answers the command that has waited longest and tells how large what
//!    it found was.
//! 3. What a command means for its keys becomes lines of the trace, once its reply has come.
//!
//! A connection whose protocol cannot be followed (subscriptions, `MONITOR`, garbage) is passed on
//! all the same, and no longer traced.

mod command;
mod proxy;
mod resp;
#[cfg(test)]
mod tests;

pub use command::trace_lines;
pub use proxy::Recorder;
pub use resp::{Item, Message, Parser, ProtocolError};
