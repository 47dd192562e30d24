//! The worked example of docs/formats/journal.md has the bytes that the journal writes.

use std::fmt::Write;
use std::sync::Arc;

use codec::SeqNo;
use device::{Device, Mode};
use environment::Environment;
use thermocline_journal::{Durability, Journal, Options};

const PAGE: &str = include_str!("../../../../docs/formats/journal.md");

/// Returns the segment of a journal with two records, both synced, that was closed, and the file
/// `END`.
fn files() -> [Vec<u8>; 2] {
    let device: Arc<dyn Device> = device::memory();
    let environment = Environment::seeded(1);
    let opened = Journal::open(
        device.clone(),
        "journal",
        Options::default(),
        &environment,
        SeqNo::ZERO,
        &mut |_, _| Ok(()),
    );
    let journal = opened.expect("an empty directory").0;
    for (seqno, payload) in [(1, b"a".as_slice()), (3, b"bc")] {
        let write = |_, bytes: &mut Vec<u8>| bytes.extend_from_slice(payload);
        let seqno = journal.append(|| SeqNo::new(seqno), write).expect("memory does not fail");
        journal.wait(seqno, Durability::Synced).expect("memory does not fail");
    }
    journal.close().expect("memory does not fail");
    ["00000000000000000001.journal", "END"].map(|name| {
        let file = device.open(&format!("journal/{name}"), Mode::Read).expect("it was made");
        let mut bytes = vec![0; file.len().expect("it has a length") as usize];
        file.read_at(0, &mut bytes).expect("it can be read");
        bytes
    })
}

/// Returns the bytes of the segment, a field a line.
fn dump_segment(bytes: &[u8]) -> String {
    let fields = [
        (8, "header: magic TCJOURNL"),
        (2, "format version 1"),
        (2, "flags"),
        (4, "CRC32C of bytes 0 to 12"),
        (8, "the journal's id"),
        (8, "index 1"),
        (8, "salt"),
        (8, "the segment before ended at 0: there is none"),
        (8, "its last checksum"),
        (8, "its last record"),
        (8, "checksum of bytes 0 to 64: seed and beginning of the chain"),
        (4, "frame: record, 1 byte"),
        (8, "sequence number 1"),
        (1, "payload"),
        (8, "checksum of bytes 64 to 85"),
        (4, "frame: record, 2 bytes"),
        (8, "sequence number 3"),
        (2, "payload"),
        (8, "checksum of bytes 85 to 107"),
        (4, "frame: seal, no padding"),
        (8, "watermark: below byte 93 all was synced"),
        (8, "checksum of bytes 107 to 127"),
        (4, "frame: last seal, 357 bytes of padding"),
        (8, "watermark: below byte 135 all was synced"),
        (357, "padding to the sector's end"),
        (8, "checksum of bytes 127 to 504"),
        (4, "frame: last seal, no padding"),
        (8, "watermark: below byte 512 all was synced"),
        (8, "checksum of bytes 504 to 524"),
        (4, "frame: close, 472 bytes of padding"),
        (8, "watermark: below byte 512 all was synced"),
        (472, "padding to the sector's end"),
        (8, "checksum of bytes 524 to 1016"),
    ];
    dump(bytes, &fields)
}

/// Returns the bytes of the file `END`, a field a line.
fn dump_end(bytes: &[u8]) -> String {
    let fields = [
        (8, "END: magic TCJOUEND"),
        (2, "format version 1"),
        (2, "flags"),
        (4, "CRC32C of bytes 0 to 12"),
        (8, "the journal's id"),
        (8, "segment 1 exists"),
        (8, "the journal has had record 3"),
        (8, "checksum of bytes 0 to 40"),
        (464, "zeros to the sector's end"),
    ];
    dump(bytes, &fields)
}

fn dump(bytes: &[u8], fields: &[(usize, &str)]) -> String {
    let mut lines = String::new();
    let mut at = 0;
    for (len, meaning) in fields.iter().copied() {
        let field = &bytes[at..at + len];
        let hex: Vec<String> = field.iter().map(|b| format!("{b:02x}")).collect();
        let zeros = len > 8 && field.iter().all(|b| *b == 0);
        let hex = if zeros { "00 ...".to_owned() } else { hex.join(" ") };
        writeln!(lines, "{at:4}  {hex:23}  {meaning}").expect("a string takes all");
        at += len;
    }
    assert_eq!(at, bytes.len(), "the example has as many bytes as are explained");
    lines
}

#[test]
fn the_worked_example_is_what_is_written() {
    let [segment, end] = files();
    for written in [dump_segment(&segment), dump_end(&end)] {
        assert!(PAGE.contains(&written), "docs/formats/journal.md should hold:\n\n{written}");
    }
}
