//! The bytes of frames and of hellos.

use proptest::prelude::*;

use super::*;
use crate::{Decoder, Frame, Hello, Refused, Welcome, hosts_and_ports};

fn hex(bytes: &[u8]) -> String {
    let groups = bytes
        .chunks(4)
        .map(|group| group.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    groups.collect::<Vec<_>>().join(" ")
}

#[test]
fn addresses_have_a_host_and_a_port() {
    let good = hosts_and_ports("10.0.0.7:7400,db1:7401,[::1]:7402").expect("three addresses");
    assert_eq!(good, ["10.0.0.7:7400", "db1:7401", "[::1]:7402"]);
    for text in ["", "db1", ":7400", "db1:", "db1:70000", "db1:7400,"] {
        let refused = hosts_and_ports(text).expect_err(text);
        assert!(refused.contains("is no host with a port"), "{refused}");
    }
}

/// `docs/formats/wire.md` has these bytes.
#[test]
fn golden_bytes() {
    let from = identity(Role::Ltc, 1, 9);
    let (class, process) = (Class::Log, 8);
    let hello = Hello { oldest: 1, newest: 1, from, process, class, channel: 1, dial: 2 };
    let frame = |kind: Kind, version, flags, request, body| {
        hex(&Frame { kind: kind.code(), version, flags, request, body }.encode())
    };
    let welcome = Welcome { version: 1, from: identity(Role::Stoc, 3, 5), credit: 1 << 24 };
    let refused = Refused(Refusal::OldStart { newest: 10 });
    let golden = [
        frame(Kind::Hello, 0, 0, 0, hello.encode()),
        frame(Kind::Welcome, 0, 0, 0, welcome.encode()),
        frame(Kind::Refused, 0, 0, 0, refused.encode()),
        frame(Kind::Ping, 1, 0, 0, Vec::new()),
        frame(Kind::Stats, 1, 0, 7, vec![0, 0, 0, 0, 0, 16, 0, 0]),
        frame(Kind::Stats, 1, 1, 7, vec![1, 8]),
    ];
    let page = include_str!("../../../../../docs/formats/wire.md");
    for bytes in golden {
        assert!(page.contains(&bytes), "docs/formats/wire.md has not {bytes}");
    }
}

#[test]
fn each_refusal_and_each_identity_comes_back() {
    let refusals = [
        Refusal::Version { oldest: 1, newest: 2 },
        Refusal::Cluster { cluster: 3 },
        Refusal::Certificate,
        Refusal::OldStart { newest: 4 },
        Refusal::OldConnection,
        Refusal::Connections,
        Refusal::Role,
        Refusal::Late,
        Refusal::NoReply,
        Refusal::TooLong,
        Refusal::NoStart,
        Refusal::Full,
    ];
    for refusal in refusals {
        let refused = Refused(refusal);
        assert_eq!(Refused::decode(&refused.encode()), Ok(refused));
    }
    for role in Role::ALL {
        for node in [None, Some(0), Some(u32::MAX)] {
            let certified = Certified { cluster: 0xfeed, role, node };
            assert_eq!(Certified::parse(&certified.uri()), Some(certified));
        }
        let from = Identity { cluster: 1, role, node: 2, cookie: 3, incarnation: 4 };
        let welcome = Welcome { version: 1, from, credit: 5 };
        assert_eq!(Welcome::decode(&welcome.encode()), Ok(welcome));
        for class in [Class::Control, Class::Log, Class::Bulk, Class::Read] {
            let hello =
                Hello { oldest: 0, newest: 9, from, process: 7, class, channel: 8, dial: 6 };
            assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
            // Later releases may add fields.
            let longer = [hello.encode(), vec![1, 2, 3]].concat();
            assert_eq!(Hello::decode(&longer), Ok(hello));
        }
    }
    let others = [
        "thermocline://00000000000000c1/ltc/01",
        "thermocline://c1/ltc/1",
        "thermocline://00000000000000c1/ltc/1/2",
        "thermocline://00000000000000c1/rtc/1",
        "https://00000000000000c1/ltc/1",
        "",
    ];
    assert!(others.iter().all(|uri| Certified::parse(uri).is_none()));
    assert!(Kind::all().all(|kind| Kind::of_code(kind.code()) == Some(kind)));
}

fn any_frame() -> impl Strategy<Value = Frame> {
    let body = prop::collection::vec(any::<u8>(), 0..200);
    (any::<u16>(), any::<u8>(), 0..4_u8, any::<u64>(), body).prop_map(
        |(kind, version, flags, request, body)| Frame { kind, version, flags, request, body },
    )
}

proptest! {
    /// Frames come back, however their bytes are cut.
    #[test]
    fn frames_come_back(frames in prop::collection::vec(any_frame(), 1..5), piece in 1..100_usize) {
        let bytes: Vec<u8> = frames.iter().flat_map(Frame::encode).collect();
        let mut decoder = Decoder::default();
        let mut taken = Vec::new();
        for piece in bytes.chunks(piece) {
            decoder.push(piece);
            while let Some(frame) = decoder.take().expect("they are frames") {
                taken.push(frame);
            }
        }
        prop_assert_eq!(taken, frames);
    }

    /// One changed bit is found, or the frame is not whole.
    #[test]
    fn damage_is_found(frame in any_frame(), at in any::<prop::sample::Index>(), bit in 0..8_u8) {
        let mut bytes = frame.encode();
        let at = at.index(bytes.len());
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= 1 << bit;
        }
        let mut decoder = Decoder::default();
        decoder.push(&bytes);
        prop_assert!(!matches!(decoder.take(), Ok(Some(_))));
    }
}
