//! StoCs of other processes: their requests as messages, the side that sends them, and the side
//! that serves them.

mod link;
mod messages;
mod service;

pub use link::RemoteLink;
pub use messages::{decode_request, decode_response, encode_request, encode_response};
pub use service::StocService;
