//! Fuzzes the reader of dumps: raw bytes, a whole dump with some bytes changed, and frames.
//! The frames have any content behind checksums that would be right. Keyspaces that were read are
//! written again as the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thermocline::{EngineKind, KeyspaceOptions, f2, flexdb, lsm};
use thermocline_cli::dump::{Frame, Reader, Writer};

/// Returns a dump of a keyspace of each engine, with all options.
fn whole() -> Vec<u8> {
    let f2 = f2::Options { chunk_bytes: 128, ..Default::default() };
    let lsm = lsm::Options {
        compression: vec![lsm::Compression::Zstd],
        block_bytes: 8192,
        ..Default::default()
    };
    let flexdb = flexdb::Options { interval_pairs: 7, ..Default::default() };
    let engines = [
        (EngineKind::Memory, None),
        (EngineKind::F2, Some(f2.into())),
        (EngineKind::Lsm, Some(lsm.into())),
        (EngineKind::FlexDb, Some(flexdb.into())),
    ];
    let mut writer = Writer::new(Vec::new()).expect("memory does not fail");
    for (engine, settings) in engines {
        let options = KeyspaceOptions {
            engine,
            journaled: true,
            memory_bytes: Some(7),
            expiring: true,
            merge: Some("add".parse().expect("a name")),
            settings,
        };
        writer.keyspace(engine.name(), &options).expect("memory does not fail");
        for number in 0..4_u8 {
            writer.pair(&[number; 3], &[number; 20]).expect("memory does not fail");
        }
    }
    writer.finish().expect("memory does not fail").0
}

/// Returns a dump of these frames, each of a kind and a payload, in this order.
fn framed(frames: &[(u8, &[u8])]) -> Vec<u8> {
    let mut bytes = whole();
    bytes.truncate(codec::FileHeader::LEN);
    let mut check = bytes.last_chunk().map_or(0, |check| u32::from_le_bytes(*check));
    for (kind, payload) in frames {
        let begin = bytes.len();
        bytes.push(*kind);
        bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        let head = codec::chain(check, &bytes[begin..]);
        bytes.extend_from_slice(payload);
        check = codec::chain(head, payload);
        bytes.extend_from_slice(&check.to_le_bytes());
    }
    bytes
}

/// Reads to the end or to the first damage; whether it was whole.
fn read(bytes: &[u8]) -> bool {
    let Ok(mut reader) = Reader::new(bytes) else { return false };
    loop {
        match reader.next_frame() {
            Ok(Some(Frame::Pairs(pairs))) => {
                for pair in pairs.iter() {
                    let (key, value) = pair.expect("the reader has looked at every pair");
                    assert!(key.len() + value.len() <= bytes.len());
                }
            }
            Ok(Some(Frame::Keyspace {
                name,
                engine,
                journaled,
                expiring,
                memory_bytes,
                settings,
                merge,
            })) => {
                let Ok(engine) = engine.parse::<EngineKind>() else { continue };
                let options = KeyspaceOptions {
                    engine,
                    journaled,
                    memory_bytes,
                    expiring,
                    merge,
                    settings,
                };
                written(name, &options);
            }
            Ok(Some(Frame::End { .. })) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// Writes a keyspace and reads it back.
fn written(called: &str, options: &KeyspaceOptions) {
    let mut writer = Writer::new(Vec::new()).expect("memory does not fail");
    writer.keyspace(called, options).expect("memory does not fail");
    let bytes = writer.finish().expect("memory does not fail").0;
    let mut reader = Reader::new(&bytes[..]).expect("a header was written");
    match reader.next_frame() {
        Ok(Some(Frame::Keyspace { name, engine, settings, merge, memory_bytes, .. })) => {
            assert_eq!((name, engine), (called, options.engine.name()));
            assert_eq!((settings, merge), (options.settings, options.merge));
            assert_eq!(memory_bytes, options.memory_bytes);
        }
        other => panic!("{other:?}"),
    }
}

fuzz_target!(|input: (Vec<(u16, u8)>, Vec<(u8, &[u8])>, &[u8])| {
    let (changes, frames, raw) = input;
    read(raw);
    read(&framed(&frames));
    let whole = whole();
    let mut changed = whole.clone();
    for (position, byte) in changes {
        let position = usize::from(position) % changed.len();
        changed[position] ^= byte;
    }
    assert_eq!(read(&changed), changed == whole, "a changed dump was taken for a whole one");
});
