//! Fuzzes the decoders of requests and replies between the processes of a cluster.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::Kind;

fuzz_target!(|input: &[u8]| {
    let Some((first, body)) = input.split_first() else { return };
    let kinds = Kind::all().filter(|kind| kind.is_request()).collect::<Vec<_>>();
    let kind = kinds[usize::from(*first) % kinds.len()];
    if let Ok(request) = stoc::decode_request(kind, body) {
        let (kind, body) = stoc::encode_request(&request);
        let tail = body.tail.as_deref().unwrap_or_default();
        assert_eq!(stoc::decode_request(kind, &[&body.head, tail].concat()), Ok(request));
    }
    if let Ok(response) = stoc::decode_response(kind, body) {
        let again = stoc::decode_response(kind, &stoc::encode_response(&response));
        assert_eq!(again, Ok(response));
    }
    if let Ok(request) = coordinator::decode_store_request(kind, body) {
        let (kind, body) = coordinator::encode_store_request(&request);
        assert_eq!(coordinator::decode_store_request(kind, &body), Ok(request));
    }
    if let Ok(reply) = coordinator::decode_leader_reply(kind, body) {
        let again =
            coordinator::decode_leader_reply(kind, &coordinator::encode_leader_reply(&reply));
        assert_eq!(again, Ok(reply));
    }
    if let Ok(beat) = coordinator::decode_beat(body) {
        assert_eq!(coordinator::decode_beat(&coordinator::encode_beat(&beat)), Ok(beat));
    }
    if let Ok(made) = coordinator::decode_keyspace(body) {
        assert_eq!(coordinator::decode_keyspace(&coordinator::encode_keyspace(&made)), Ok(made));
    }
    if let Ok((range, request)) = client::decode_range_request(kind, body) {
        let body = [&range.0.to_le_bytes()[..], &client::encode_range_request(&request)].concat();
        assert_eq!(client::decode_range_request(kind, &body), Ok((range, request)));
    }
    if let Ok(reply) = client::decode_range_reply(kind, body) {
        let again = client::decode_range_reply(kind, &client::encode_range_reply(&reply));
        assert_eq!(again, Ok(reply));
    }
    if let Ok(reply) = coordinator::decode_store_reply(kind, body) {
        let again = coordinator::decode_store_reply(kind, &coordinator::encode_store_reply(&reply));
        assert_eq!(again, Ok(reply));
    }
});
