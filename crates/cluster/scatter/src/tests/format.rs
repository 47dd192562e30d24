//! The format of the manifest log's files.

use logc::Member;

use crate::{
    Change, CopyPlace, NodeId, Placement, Stripes, decode_file, encode_first, encode_frame,
};

fn all() -> Vec<Change> {
    let first = Member { node: 1, cookie: 0xfeed, incarnation: 9 };
    let second = Member { node: 2, cookie: 0xbeef, incarnation: 1 };
    let copy = |member, nonce| CopyPlace { member, nonce };
    let fragments = vec![vec![copy(first, 0x1122), copy(second, 0x3344)], vec![copy(first, 0x55)]];
    let stripes = Stripes { rho: 3, bytes: 64_000 };
    let placement = Placement { number: 3, length: 100_000, stripes, fragments };
    let small = NodeId(2);
    vec![
        Change::CreateDir { path: "dir".into() },
        Change::RemoveDir { path: "dir".into() },
        Change::Name { path: "small".into(), node: small },
        Change::Rename { from: "small".into(), to: "new".into() },
        Change::Remove { path: "old".into() },
        Change::Bytes { node: small, offset: 1_000, bytes: b"bytes".to_vec() },
        Change::Length { node: small, length: 2_000 },
        Change::Journal { node: NodeId(1), file: 7 },
        Change::Table { node: NodeId(3), placement },
    ]
}

/// The bytes of the page docs/formats/scatter.md.
#[test]
fn the_bytes_are_those_of_the_page() {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let page = include_str!("../../../../../docs/formats/scatter.md");
    let stated = page.split("```text\n").nth(1).and_then(|rest| rest.split("```").next());
    let stated: String = stated.unwrap_or_default().split_whitespace().collect();
    assert_eq!(stated, hex(&encode_first(&all())));
}

#[test]
fn each_frame_counts_as_a_whole() {
    let mut bytes = encode_first(&all());
    let first = bytes.len();
    let more = [Change::Remove { path: "new".into() }];
    bytes.extend(encode_frame(&more));
    for length in 0..=bytes.len() {
        let frames = decode_file(bytes.get(..length).unwrap_or_default());
        let expected = match length {
            _ if length == bytes.len() => vec![all(), more.to_vec()],
            _ if length >= first => vec![all()],
            _ => Vec::new(),
        };
        assert_eq!(frames, Ok(expected), "{length}");
    }
}

/// A damaged byte is found, unless it is in a length: then frames behind it may be missing.
#[test]
fn damage_is_found() {
    let bytes = encode_first(&all());
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        if let Some(byte) = damaged.get_mut(at) {
            *byte ^= 0x10;
        }
        let decoded = decode_file(&damaged);
        if (16..20).contains(&at) {
            assert_ne!(decoded, Ok(vec![all()]), "{at}");
        } else {
            assert!(decoded.is_err(), "{at}");
        }
    }
}
