//! The bytes of records.

use logc::{LogRecord, Member, Mode, Part, Segment};
use proptest::prelude::*;
use stoc::{Epoch, RangeId};

use crate::records::{decode_term, encode_term};
use crate::{
    ClusterRecord, Descriptor, KeyspaceRecord, LogMode, LtcRecord, Owner, RangeState, StocRecord,
};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn descriptor() -> Descriptor {
    let member = |node| Member { node, cookie: 0xfeed, incarnation: 9 };
    let segment = Segment {
        index: 6,
        nonce: 0x1122_3344_5566_7788,
        mode: Mode::Durable,
        ensemble: vec![member(1), member(2)],
        part: Some(Part { file: 3, offset: 1_000 }),
        sealed: Some(1_052),
    };
    Descriptor {
        id: RangeId(7),
        keyspace: "users".to_owned(),
        start: b"g".to_vec(),
        end: Some(b"p".to_vec()),
        epoch: Epoch(5),
        owner: Some(Owner { ltc: 2, start: 300 }),
        state: RangeState::Leaving { target: 4 },
        clients: 900,
        gives_up_log: false,
        log: LogRecord { segments: vec![segment] },
        manifest: LogRecord::default(),
    }
}

/// The bytes of `docs/formats/coordinator.md`.
#[test]
fn records_keep_their_bytes() {
    let cluster = ClusterRecord { id: 0xc1, next_range: 7, next_client: 300 };
    assert_eq!(hex(&cluster.encode()), "01c100000000000000070000002c010000000000004161cb57");
    let stoc = StocRecord {
        cookie: Some(0xfeed),
        given: 4,
        completed: Some(3),
        place: Some("db4:7401".to_owned()),
        domain: Some("rack-1".to_owned()),
    };
    assert_eq!(
        hex(&stoc.encode()),
        "01040000000000000001edfe00000000000001030000000000000001086462343a3734303101067261636b2d31ce23a806"
    );
    let place = Some("db2:7400".to_owned());
    let ltc = LtcRecord { given: 4, place, is_draining: true };
    assert_eq!(hex(&ltc.encode()), "01040000000000000001086462323a3734303001a80c5200");
    assert_eq!(hex(&encode_term(3)), "01030000000000000082399f94");
    assert_eq!(LtcRecord::decode(&ltc.encode()), Ok(ltc));
    assert_eq!(decode_term(&encode_term(3)), Ok(3));
    let ranges = vec![RangeId(1), RangeId(7)];
    let options = LogMode::Memory.to_options();
    let keyspace = KeyspaceRecord { name: "users".to_owned(), options, ranges };
    assert_eq!(hex(&keyspace.encode()), "0105757365727302010102010000000700000011f0bc8f");
    assert_eq!(
        hex(&descriptor().encode()),
        "01070000000575736572730167010170050102000000ac020304000000840700260101030688776655443322110201edfe0000000000000902edfe0000000000000903e8079c08020100b1c04318"
    );
    assert_eq!(ClusterRecord::decode(&cluster.encode()), Ok(cluster));
    assert_eq!(StocRecord::decode(&stoc.encode()), Ok(stoc));
    assert_eq!(KeyspaceRecord::decode(&keyspace.encode()), Ok(keyspace));
    for state in [
        RangeState::Free,
        RangeState::Opening,
        RangeState::Serving,
        RangeState::Leaving { target: 9 },
        RangeState::Moving { target: 9 },
        RangeState::Dropped,
    ] {
        let gives_up_log = state == RangeState::Opening;
        let other = Descriptor { state, end: None, owner: None, gives_up_log, ..descriptor() };
        assert_eq!(Descriptor::decode(&other.encode()), Ok(other));
    }
}

#[test]
fn a_flipped_bit_is_found() {
    let bytes = descriptor().encode();
    for bit in 0..bytes.len() * 8 {
        let mut bytes = bytes.clone();
        if let Some(byte) = bytes.get_mut(bit / 8) {
            *byte ^= 1 << (bit % 8);
        }
        assert!(Descriptor::decode(&bytes).is_err(), "bit {bit}");
    }
}

proptest! {
    #[test]
    fn damaged_records_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let versioned = [&[1][..], &bytes].concat();
        for bytes in [bytes, versioned] {
            let _is_damaged = ClusterRecord::decode(&bytes);
            let _is_damaged = StocRecord::decode(&bytes);
            let _is_damaged = LtcRecord::decode(&bytes);
            let _is_damaged = decode_term(&bytes);
            let _is_damaged = KeyspaceRecord::decode(&bytes);
            let _is_damaged = Descriptor::decode(&bytes);
        }
    }
}
