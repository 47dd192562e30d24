//! A dump comes back whole, and nothing that was changed in it passes.

use super::{Error, Frame, Reader, Writer};

type Pair = (Vec<u8>, Vec<u8>);

fn written(keyspaces: &[(&str, Vec<Pair>)]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).unwrap();
    for (name, pairs) in keyspaces {
        writer.keyspace(name, "memory", (true, false), None).unwrap();
        for (key, value) in pairs {
            writer.pair(key, value).unwrap();
        }
    }
    writer.finish().unwrap().0
}

fn read(bytes: &[u8]) -> Result<Vec<(String, Vec<Pair>)>, Error> {
    let mut reader = Reader::new(bytes)?;
    let mut keyspaces: Vec<(String, Vec<Pair>)> = Vec::new();
    while let Some(frame) = reader.next_frame()? {
        match frame {
            Frame::Keyspace { name, .. } => keyspaces.push((name.to_owned(), Vec::new())),
            Frame::Pairs(pairs) => {
                let (_, into) = keyspaces.last_mut().expect("a keyspace comes first");
                for pair in pairs.iter() {
                    let (key, value) = pair.map_err(Error::Damaged)?;
                    into.push((key.to_vec(), value.to_vec()));
                }
            }
            Frame::End { .. } => {}
        }
    }
    Ok(keyspaces)
}

fn sample() -> Vec<(&'static str, Vec<Pair>)> {
    let pair = |number: u32| (number.to_be_bytes().to_vec(), vec![number as u8; 40]);
    vec![
        ("empty", vec![]),
        ("small", vec![(vec![], vec![]), (vec![0xff], vec![0; 3])]),
        ("many", (0..20).map(pair).collect()),
    ]
}

#[test]
fn a_dump_comes_back_whole() {
    let expected: Vec<_> =
        sample().into_iter().map(|(name, pairs)| (name.to_owned(), pairs)).collect();
    assert_eq!(read(&written(&sample())).unwrap(), expected);
    assert_eq!(read(&written(&[])).unwrap(), vec![]);
}

#[test]
fn values_larger_than_a_frame_come_back() {
    let large = vec![("large", vec![(b"k".to_vec(), vec![7; 3 << 20]), (b"l".to_vec(), vec![])])];
    assert_eq!(read(&written(&large)).unwrap()[0].1, large[0].1);
}

#[test]
fn every_flipped_bit_is_found() {
    let bytes = written(&sample());
    for position in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[position / 8] ^= 1 << (position % 8);
        assert!(read(&flipped).is_err(), "bit {position} was flipped and nobody noticed");
    }
}

#[test]
fn a_dump_cut_anywhere_is_no_dump() {
    let bytes = written(&sample());
    for length in 0..bytes.len() {
        assert!(read(&bytes[..length]).is_err(), "cut to {length} bytes");
    }
    let longer = [&bytes[..], b"x"].concat();
    assert!(matches!(read(&longer), Err(Error::Damaged(_))), "bytes after the end");
}

/// Frames that are each whole, put together in another order.
#[test]
fn frames_of_another_order_or_dump_are_found() {
    let first = written(&[("a", vec![]), ("b", vec![])]);
    let frame = 5 + 2 + 7 + 1 + 8 + 4;
    let mut swapped = first.clone();
    swapped[16..16 + frame].copy_from_slice(&first[16 + frame..16 + 2 * frame]);
    swapped[16 + frame..16 + 2 * frame].copy_from_slice(&first[16..16 + frame]);
    assert!(matches!(read(&swapped), Err(Error::Damaged(_))));
    let mut dropped = first.clone();
    dropped.drain(16..16 + frame);
    assert!(matches!(read(&dropped), Err(Error::Damaged(_))));
}

/// What a keyspace was made with.
#[test]
fn a_keyspace_keeps_its_options() {
    let mut writer = Writer::new(Vec::new()).unwrap();
    let all = [
        ("a", "lsm", (true, false), None),
        ("b", "f2", (false, false), Some(1 << 40)),
        ("c", "f2", (false, true), None),
        ("d", "memory", (true, true), Some(1)),
    ];
    for (name, engine, flags, memory_bytes) in all {
        writer.keyspace(name, engine, flags, memory_bytes).unwrap();
    }
    let bytes = writer.finish().unwrap().0;
    let mut reader = Reader::new(&bytes[..]).unwrap();
    for (name, engine, (journaled, values_end), memory_bytes) in all {
        let expected = Frame::Keyspace { name, engine, journaled, values_end, memory_bytes };
        assert_eq!(reader.next_frame().unwrap(), Some(expected));
    }
}

#[test]
fn a_declared_length_allocates_nothing() {
    let mut bytes = written(&[])[..16].to_vec();
    bytes.extend_from_slice(&[2, 0, 0, 0, 0x20]);
    match read(&bytes) {
        Err(Error::Damaged(damage)) => assert_eq!(damage.offset, 16),
        other => panic!("{other:?}"),
    }
}

/// The worked example of docs/formats/dump.md.
#[test]
fn the_documented_example_is_what_is_written() {
    let bytes = written(&[("a", vec![(b"k".to_vec(), b"v".to_vec())])]);
    let page = include_str!("../../../../docs/formats/dump.md");
    let hex: String = page
        .lines()
        .skip_while(|line| !line.starts_with("```hex"))
        .skip(1)
        .take_while(|line| !line.starts_with("```"))
        .flat_map(|line| line.split("  ").next().unwrap_or_default().split_whitespace())
        .collect();
    let documented: Vec<u8> = (0..hex.len())
        .step_by(2)
        .map(|start| u8::from_str_radix(&hex[start..start + 2], 16).expect("hexadecimal"))
        .collect();
    assert_eq!(documented, bytes, "the page shows other bytes: {bytes:02x?}");
}
