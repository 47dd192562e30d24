//! The coordinator's store, as other processes use it.

mod messages;
mod service;
mod store;

pub use messages::{
    StoreReply, StoreRequest, decode_store_reply, decode_store_request, encode_store_reply,
    encode_store_request,
};
pub use service::StoreService;
pub use store::RemoteStore;
