//! The messages to LTCs. Clients against LTCs are tested in the crate `ltc`.

use proptest::prelude::*;
use stoc::RangeId;
use wire::Kind;

use crate::{
    FailedKind, Pair, RangeReply, RangeRequest, Refused, RequestId, decode_range_reply,
    decode_range_request, encode_range_reply, encode_range_request,
};

fn pair(key: &[u8], value: Option<&[u8]>) -> Pair {
    Pair { key: key.to_vec(), value: value.map(<[u8]>::to_vec) }
}

fn requests() -> Vec<RangeRequest> {
    let id = RequestId { client: 7, number: 300 };
    vec![
        RangeRequest::Get { keys: vec![b"a".to_vec(), Vec::new()] },
        RangeRequest::Scan {
            start: b"a".to_vec(),
            end: Some(b"m".to_vec()),
            is_reverse: true,
            pairs_max: 9,
            bytes_max: 1_000,
        },
        RangeRequest::Scan {
            start: Vec::new(),
            end: None,
            is_reverse: false,
            pairs_max: 1,
            bytes_max: 1,
        },
        RangeRequest::Write {
            id,
            is_repeated: true,
            expects: vec![pair(b"a", Some(b"1")), pair(b"b", None)],
            steps: vec![pair(b"a", None), pair(b"c", Some(b""))],
        },
        RangeRequest::Clear { id },
    ]
}

#[test]
fn requests_and_replies_keep_their_content() {
    for request in requests() {
        let kind = request.kind();
        let body = [&3_u32.to_le_bytes()[..], &encode_range_request(&request)].concat();
        assert_eq!(decode_range_request(kind, &body), Ok((RangeId(3), request.clone())));
        let replies = match request {
            RangeRequest::Get { .. } => {
                vec![RangeReply::Values(vec![None, Some(b"1".to_vec()), Some(Vec::new())])]
            }
            RangeRequest::Scan { .. } => vec![
                RangeReply::Pairs { pairs: Vec::new(), next: None },
                RangeReply::Pairs {
                    pairs: vec![(b"a".to_vec(), b"1".to_vec())],
                    next: Some(b"b".to_vec()),
                },
            ],
            _ => vec![RangeReply::Written, RangeReply::Differs],
        };
        let failed = |kind| Refused::Failed { kind, text: "a text".to_owned() };
        let refusals = [
            Refused::Moved,
            Refused::Busy { pause_ms: 5 },
            Refused::Lost,
            Refused::Forgotten,
            failed(FailedKind::Full),
            failed(FailedKind::Rejected),
        ];
        for reply in replies.into_iter().map(Ok).chain(refusals.map(Err)) {
            assert_eq!(decode_range_reply(kind, &encode_range_reply(&reply)), Ok(reply));
        }
    }
}

/// The bytes of `docs/formats/wire.md`.
#[test]
fn a_write_keeps_its_bytes() {
    let write = requests().swap_remove(3);
    let hex: String =
        encode_range_request(&write).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        hex,
        "07000000000000002c010000000000000102016101013101620002016100016301\
         00"
    );
}

proptest! {
    #[test]
    fn damaged_messages_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for kind in Kind::all() {
            if let Ok((range, request)) = decode_range_request(kind, &bytes) {
                let again = [&range.0.to_le_bytes()[..], &encode_range_request(&request)].concat();
                prop_assert_eq!(decode_range_request(kind, &again), Ok((range, request)));
            }
            if let Ok(reply) = decode_range_reply(kind, &bytes) {
                let again = decode_range_reply(kind, &encode_range_reply(&reply));
                prop_assert_eq!(again, Ok(reply));
            }
        }
    }
}
