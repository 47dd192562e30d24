//! A dump comes back whole, and nothing that was changed in it passes.

use thermocline::{EngineKind, KeyspaceOptions, MergeName, Settings, f2, flexdb, lsm};

use super::{Error, Frame, Reader, Writer, format};

type Pair = (Vec<u8>, Vec<u8>);

fn written(keyspaces: &[(&str, Vec<Pair>)]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).unwrap();
    for (name, pairs) in keyspaces {
        writer.keyspace(name, &KeyspaceOptions::default()).unwrap();
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
    for (byte, count) in
        [0, 0xa7].into_iter().flat_map(|byte| [1, 17, 512, 4096].map(|n| (byte, n)))
    {
        let longer = [&bytes[..], &vec![byte; count]].concat();
        assert!(matches!(read(&longer), Err(Error::Damaged(_))), "{count} bytes after the end");
    }
}

/// Frames that are each whole, put together in another order.
#[test]
fn frames_of_another_order_or_dump_are_found() {
    let first = written(&[("a", vec![]), ("b", vec![])]);
    let frame = 5 + 2 + 7 + 1 + 8 + 2 + 1 + 4;
    let mut swapped = first.clone();
    swapped[16..16 + frame].copy_from_slice(&first[16 + frame..16 + 2 * frame]);
    swapped[16 + frame..16 + 2 * frame].copy_from_slice(&first[16..16 + frame]);
    assert!(matches!(read(&swapped), Err(Error::Damaged(_))));
    let mut dropped = first.clone();
    dropped.drain(16..16 + frame);
    assert!(matches!(read(&dropped), Err(Error::Damaged(_))));
}

/// The options with which a keyspace was made.
#[test]
fn a_keyspace_keeps_its_options() {
    let name = |name: &str| -> MergeName { name.parse().unwrap() };
    let lsm = lsm::Options {
        compression: vec![lsm::Compression::Zstd],
        level_ratio: 5,
        ..Default::default()
    };
    let f2 = f2::Options { chunk_bytes: 128, ..Default::default() };
    let flexdb = flexdb::Options { interval_bytes: 2048, ..Default::default() };
    let of = |engine| KeyspaceOptions { engine, ..KeyspaceOptions::default() };
    let all = [
        KeyspaceOptions { settings: Some(lsm.into()), ..of(EngineKind::Lsm) },
        KeyspaceOptions { journaled: false, memory_bytes: Some(1 << 40), ..of(EngineKind::F2) },
        KeyspaceOptions {
            journaled: false,
            expiring: true,
            settings: Some(f2.into()),
            ..of(EngineKind::F2)
        },
        KeyspaceOptions {
            merge: Some(name("an-operator_of.32-bytes-aaaaaaaa")),
            settings: Some(flexdb.into()),
            ..of(EngineKind::FlexDb)
        },
        KeyspaceOptions {
            expiring: true,
            memory_bytes: Some(1),
            merge: Some(name("a")),
            ..of(EngineKind::Memory)
        },
    ];
    let mut writer = Writer::new(Vec::new()).unwrap();
    for (number, options) in all.iter().enumerate() {
        writer.keyspace(&number.to_string(), options).unwrap();
    }
    let bytes = writer.finish().unwrap().0;
    let mut reader = Reader::new(&bytes[..]).unwrap();
    for (number, options) in all.iter().enumerate() {
        let name = &*number.to_string();
        let KeyspaceOptions { journaled, expiring, memory_bytes, settings, merge, .. } = *options;
        let engine = options.engine.name();
        let expected =
            Frame::Keyspace { name, engine, journaled, expiring, memory_bytes, settings, merge };
        assert_eq!(reader.next_frame().unwrap(), Some(expected));
    }
}

/// A dump that begins with a keyspace's frame of this payload, with sound checksums.
fn beginning_with(version: u16, payload: &[u8]) -> Vec<u8> {
    let header = codec::FileHeader { version, ..format::FORMAT.header(0) }.encode();
    let head = format::frame_head(1, payload.len() as u32);
    let check = format::frame_check(format::header_check(&header), head, payload);
    [&header[..], &head, payload, &check.to_le_bytes()].concat()
}

/// The first frame's engine, settings and operator of a keyspace.
type Said = (String, Option<Settings>, Option<MergeName>);

fn first_keyspace(dump: &[u8]) -> Result<Said, Error> {
    match Reader::new(dump)?.next_frame()? {
        Some(Frame::Keyspace { engine, settings, merge, .. }) => {
            Ok((engine.to_owned(), settings, merge))
        }
        other => panic!("{other:?}"),
    }
}

/// The payload of the keyspace `a`, with these bytes of settings and this name of an operator.
fn keyspace_payload(engine: &str, settings: &[u8], merge: &str) -> Vec<u8> {
    let mut payload = Vec::new();
    let mut fields = codec::Writer::new(&mut payload);
    fields.put_prefixed(b"a");
    fields.put_prefixed(engine.as_bytes());
    fields.put_u8(1);
    fields.put_u64(0);
    fields.put_prefixed(settings);
    fields.put_prefixed(merge.as_bytes());
    payload
}

#[test]
fn options_that_no_keyspace_could_have_are_damage() {
    let read = |engine: &str, settings: &[u8], merge: &str| {
        let payload = keyspace_payload(engine, settings, merge);
        first_keyspace(&beginning_with(format::FORMAT.version, &payload))
    };
    let intervals = flexdb::Options { interval_pairs: 7, ..Default::default() };
    let add = "add".parse().unwrap();
    let sound = ("flexdb".to_owned(), Some(intervals.into()), Some(add));
    assert_eq!(read("flexdb", &[1, 0, 7], "add").unwrap(), sound);
    // Values that are not allowed, options of another engine, bytes behind them, none at all, and
    // no name.
    let refused: [(&str, &[u8], &str); 6] = [
        ("flexdb", &[1, 0, 1], "add"),
        ("flexdb", &[1, 2, 7], "add"),
        ("memory", &[1, 0, 7], "add"),
        ("flexdb", &[1, 0, 7, 0], "add"),
        ("flexdb", &[], "add"),
        ("flexdb", &[1, 0, 7], "two words"),
    ];
    for (engine, settings, merge) in refused {
        let read = read(engine, settings, merge);
        assert!(matches!(read, Err(Error::Damaged(_))), "{engine} {settings:?} {merge}: {read:?}");
    }
}

/// A user who names an engine of this program can load it.
#[test]
fn options_of_an_engine_that_is_not_known_are_passed_over() {
    let payload = keyspace_payload("abyss", &[9, 9, 9], "");
    let read = first_keyspace(&beginning_with(format::FORMAT.version, &payload));
    assert_eq!(read.unwrap(), ("abyss".to_owned(), None, None));
}

#[test]
fn dumps_of_other_versions_are_refused() {
    let newest = format::FORMAT.version;
    let read =
        |version| first_keyspace(&beginning_with(version, &keyspace_payload("f2", &[0], "")));
    assert!(read(newest).is_ok());
    for found in 1..newest {
        assert!(matches!(read(found), Err(Error::Older { found: told }) if told == found));
    }
    let newer = codec::HeaderError::Version { found: newest + 1, newest };
    assert!(matches!(read(newest + 1), Err(Error::Header(told)) if told == newer));
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
    let page = include_str!("../../../../../docs/formats/dump.md");
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
