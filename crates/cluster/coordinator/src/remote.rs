//! The coordinator's store, as other processes use it.

mod messages;
mod service;
mod store;

pub use messages::{
    LeaderReply, MakeKeyspace, StoreReply, StoreRequest, decode_beat, decode_clients,
    decode_keyspace, decode_leader_reply, decode_store_reply, decode_store_request, encode_beat,
    encode_clients, encode_keyspace, encode_leader_reply, encode_store_reply, encode_store_request,
};
pub use service::StoreService;
pub use store::RemoteStore;
