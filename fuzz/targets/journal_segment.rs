//! Fuzzes the decoder of journal segments: raw bytes, and a whole segment with some bytes changed.
//!
//! For a changed segment only records of the whole one may be shown, in order, from the first on.
//! Damage may cut its end, or be reported, but never change or skip a record. The raw bytes are
//! also read as the file `END`, behind a header and a checksum that are right.
#![no_main]

use std::sync::OnceLock;

use codec::SeqNo;
use device::{Device, Mode};
use environment::Environment;
use journal::{Durability, Journal, Options};
use libfuzzer_sys::fuzz_target;

/// The bytes of a segment's file, its number, and its records.
struct Whole {
    index: u64,
    bytes: Vec<u8>,
    records: Vec<(SeqNo, Vec<u8>)>,
}

fn records(index: u64, bytes: &[u8]) -> Vec<(SeqNo, Vec<u8>)> {
    let mut found = Vec::new();
    let mut visit = |seqno, payload: &[u8]| found.push((seqno, payload.to_vec()));
    // The caller judges whether it ends with an error; here only the shown records count.
    let _ = journal::decode_segment(index, bytes, &mut visit);
    found
}

fn whole() -> &'static Whole {
    static WHOLE: OnceLock<Whole> = OnceLock::new();
    WHOLE.get_or_init(|| {
        let device = device::memory();
        let (environment, _clock) = Environment::simulated(1);
        let mut nothing = |_: SeqNo, _: &[u8]| Ok(());
        let (journal, _) = Journal::open(
            device.clone(),
            "journal",
            Options::default(),
            &environment,
            SeqNo::ZERO,
            &mut nothing,
        )
        .expect("a memory device does not fail");
        for number in 1..=8 {
            let seqno = SeqNo::new(number);
            let fill = |_: SeqNo, record: &mut Vec<u8>| record.extend([number as u8; 11]);
            journal.append(|| seqno, fill).expect("a memory device does not fail");
            let durability = if number % 3 == 0 { Durability::Synced } else { Durability::Flushed };
            journal.wait(seqno, durability).expect("a memory device does not fail");
        }
        journal.close().expect("a memory device does not fail");
        read_segment(&*device)
    })
}

fn read_segment(device: &dyn Device) -> Whole {
    let entries = device.list("journal").expect("the directory was made");
    for entry in entries {
        let file = device
            .open(&format!("journal/{}", entry.name), Mode::Read)
            .expect("the file was listed");
        let mut bytes = vec![0; file.len().expect("a memory device does not fail") as usize];
        file.read_at(0, &mut bytes).expect("within the file");
        for index in 0..4 {
            let records = records(index, &bytes);
            if records.len() == 8 {
                // The room that is reserved behind the frames is zeros, and would only slow the
                // fuzzer.
                let used = bytes.len() - bytes.iter().rev().take_while(|byte| **byte == 0).count();
                bytes.truncate(used + 16);
                return Whole { index, bytes, records };
            }
        }
    }
    panic!("no segment holds the eight records");
}

/// Reads bytes as the fields of a file `END`.
fn read_end(raw: &[u8]) {
    let mut bytes = vec![0; 16];
    bytes.extend(raw.iter().copied().chain([0; 24]).take(24));
    let checksum = codec::hash64(0, &bytes);
    bytes.extend(checksum.to_le_bytes());
    journal::decode_end(&bytes).expect("the checksum is right");
    bytes.extend(raw);
    assert_eq!(journal::decode_end(&bytes).is_ok(), raw.iter().all(|byte| *byte == 0));
    let _ = journal::decode_end(raw);
}

fuzz_target!(|input: (Vec<(u16, u8)>, &[u8])| {
    let (changes, raw) = input;
    let whole = whole();
    records(0, raw);
    read_end(raw);
    let mut changed = whole.bytes.clone();
    for (position, byte) in changes {
        let position = usize::from(position) % changed.len();
        changed[position] ^= byte;
    }
    let found = records(whole.index, &changed);
    assert!(whole.records.starts_with(&found), "a record was changed, skipped or made up");
});
