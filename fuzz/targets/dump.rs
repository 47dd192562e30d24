//! Fuzzes the reader of dumps: raw bytes, and a whole dump with some bytes changed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thermocline_cli::dump::{Frame, Reader, Writer};

/// A dump of two keyspaces.
fn whole() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).expect("memory does not fail");
    for keyspace in ["first", "second"] {
        writer.keyspace(keyspace, "memory", (true, true), Some(7)).expect("memory does not fail");
        for number in 0..4_u8 {
            writer.pair(&[number; 3], &[number; 20]).expect("memory does not fail");
        }
    }
    writer.finish().expect("memory does not fail").0
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
            Ok(Some(_)) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

fuzz_target!(|input: (Vec<(u16, u8)>, &[u8])| {
    let (changes, raw) = input;
    read(raw);
    let whole = whole();
    let mut changed = whole.clone();
    for (position, byte) in changes {
        let position = usize::from(position) % changed.len();
        changed[position] ^= byte;
    }
    assert_eq!(read(&changed), changed == whole, "a changed dump was taken for a whole one");
});
