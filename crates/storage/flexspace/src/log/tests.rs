//! Records and frames: written ones are read, and torn ones are distinguished from damage.

use codec::{Corruption, Reader};
use device::{Device, Mode};

use super::format::{Change, LogHead, Piece, Record, encode_frame_head};
use super::{LogEnd, LogWriter, file_name, numbers, replay};
use crate::data::Geometry;
use crate::space::Error;

fn geometry() -> Geometry {
    Geometry::new(16 << 10).expect("a size of segments")
}

fn records() -> Vec<Record> {
    let piece = |address, length| Piece { address, length };
    let pieces = vec![piece(16_384, 300), piece(5 * 16_384 + 7, 1)];
    vec![
        Record::Segment { segment: 1, generation: 1 << 32 | 5 },
        Record::Change(Change::Splice { offset: 1000, removed: 3, tag: 9, pieces }),
        Record::Change(Change::Splice { offset: 0, removed: u64::MAX, tag: 0, pieces: vec![] }),
        Record::Change(Change::Relocate { offset: 1 << 60, piece: piece(3, 16_000) }),
        Record::Change(Change::SetTag { offset: 77, tag: u16::MAX }),
    ]
}

fn encode(records: &[Record]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for record in records {
        match record {
            Record::Change(change) => change.encode(&mut bytes),
            Record::Segment { segment, generation } => {
                Record::encode_segment(*segment, *generation, &mut bytes);
            }
        }
    }
    bytes
}

fn decode(bytes: &[u8]) -> Result<Vec<Record>, Corruption> {
    let mut fields = Reader::new(bytes);
    let mut records = Vec::new();
    while !fields.is_empty() {
        records.push(Record::take(&mut fields, geometry())?);
    }
    Ok(records)
}

#[test]
fn records_come_back_and_what_is_none_is_refused() {
    let bytes = encode(&records());
    assert_eq!(decode(&bytes), Ok(records()));
    assert_eq!(super::check_log(&bytes, 16 << 10), Ok((5, bytes.clone())));
    let last = encode(&records()[4..]).len();
    assert!(decode(&bytes[..bytes.len() - 1]).is_err(), "the last one is cut");
    assert!(decode(&bytes[..bytes.len() - last]).is_ok());
    let hole = Record::Change(Change::Hole { offset: 5, removed: 1 << 40, length: 1 << 48 });
    assert_eq!(decode(&encode(std::slice::from_ref(&hole))), Ok(vec![hole]));
    let refused: [&[u8]; 5] = [
        &[0],
        &[5, 0, 0],
        // A piece behind a segment's payload, one of no byte, and more pieces than there are.
        &[2, 0, 0xf0, 0x7f, 2],
        &[2, 0, 1, 0],
        &[1, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f, 1, 1],
    ];
    for bytes in refused {
        assert!(decode(bytes).is_err(), "{bytes:?}");
    }
}

/// Returns the bytes of lines as the page has them.
fn hex(lines: &[&str]) -> Vec<u8> {
    let bytes = lines.iter().flat_map(|line| line.split(' '));
    bytes.map(|byte| u8::from_str_radix(byte, 16).expect("two digits")).collect()
}

#[test]
fn the_page_s_example_is_what_is_written() {
    let head =
        LogHead { number: 3, life: 1, follows_frames: 0, follows_checksum: 0, unit_bytes: 512 };
    let (bytes, checksum) = head.encode();
    assert_eq!(LogHead::decode(&bytes), Ok((head, checksum)));
    let pieces = vec![Piece { address: 1 << 15 | 4092, length: 4 }];
    let splice = Change::Splice { offset: 13, removed: 5, tag: 0, pieces };
    let records =
        encode(&[Record::Segment { segment: 2, generation: 1 << 32 | 5 }, Record::Change(splice)]);
    let (mut frame, _) = encode_frame_head(head.salt(), 0, checksum, &records);
    frame.extend(records);
    let expected = hex(&[
        "54 43 46 4c 58 4c 4f 47 01 00 00 00 0d 70 bb 81",
        "03 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00",
        "00 00 00 00 00 00 00 00 00 00 00 00 00 02 00 00",
        "00 00 00 00 00 00 00 00 00 00 00 00 46 17 ae 74",
    ]);
    assert_eq!(bytes, expected);
    let expected = hex(&[
        "37 9e cb bc 46 17 ae 74 51 c0 06 a0 98 94 a5 77",
        "00 00 00 00 00 00 00 00 10 00 00 00 00 00 00 00",
        "04 02 85 80 80 80 10 01 0d 05 00 01 fc 9f 02 04",
    ]);
    assert_eq!(frame, expected);
}

fn write(device: &dyn Device) -> LogWriter {
    let mut log =
        LogWriter::create(device, (4, 9), LogEnd::default(), 4096, &encode(&records()[..1]))
            .expect("a device");
    for record in &records()[1..] {
        log.append(&encode(std::slice::from_ref(record))).expect("a device");
    }
    log
}

fn read(device: &dyn Device) -> Result<Vec<Record>, Error> {
    let mut found = Vec::new();
    let mut see = |record| {
        found.push(record);
        Ok(())
    };
    replay(device, (4, 9), geometry(), &mut see)?;
    Ok(found)
}

#[test]
fn a_torn_end_is_an_end_and_anything_before_it_is_damage() {
    let device = device::memory();
    write(&*device);
    assert_eq!(read(&*device).as_ref(), Ok(&records()));
    let file = device.open(&file_name(9), Mode::Write).expect("a device");
    // A head, then five frames, in units of 512.
    assert_eq!(file.len(), Ok(6 * 512));
    for unit in 0..6 {
        let mut byte = [0];
        let at = unit * 512 + 20;
        file.read_at(at, &mut byte).expect("a device");
        file.write_at(at, &[byte[0] ^ 4]).expect("a device");
        let found = read(&*device);
        match unit {
            5 => assert_eq!(found.as_deref(), Ok(&records()[..4]), "the last frame may be torn"),
            _ => assert!(matches!(found, Err(Error::Corruption(_))), "unit {unit}: {found:?}"),
        }
        file.write_at(at, &byte).expect("a device");
    }
    file.write_at(6 * 512, &[0x5a; 700]).expect("a device");
    assert_eq!(read(&*device).as_ref(), Ok(&records()), "what is behind the end is nothing");
}

/// A frame is written in pieces, and none of its records is lost where one ends.
#[test]
fn a_long_frame_is_written_in_pieces() {
    let device = device::memory();
    let mut log = write(&*device);
    let (bytes, writes) = (log.bytes(), device.accounting().counts().write_ops);
    let many: Vec<Record> = records()[1..].iter().cycle().take(60_000).cloned().collect();
    let frame = encode(&many);
    log.append(&frame).expect("a device");
    log.append(&encode(&records()[..1])).expect("a device");
    let pieces = device.accounting().counts().write_ops - writes - 1;
    assert_eq!(pieces, (frame.len() as u64).div_ceil(256 << 10), "of {} bytes", frame.len());
    assert_eq!(log.bytes() - bytes, (frame.len() + 32).next_multiple_of(512) as u64 + 512);
    let all = [&records()[..], &many[..], &records()[..1]].concat();
    assert!(read(&*device) == Ok(all), "as they were written");
}

#[test]
fn a_log_is_followed_by_one_of_its_life_that_knows_its_end() {
    let device = device::memory();
    let log = write(&*device);
    let more = encode(&records()[1..2]);
    let follow = |number, life, end: LogEnd| {
        let name = file_name(number);
        if device.exists(&name).expect("a device") {
            device.remove(&name).expect("a device");
        }
        LogWriter::create(&*device, (life, number), end, 4096, &more).expect("a device")
    };
    follow(10, 4, log.end());
    assert_eq!(read(&*device).expect("sound").len(), 6);
    follow(10, 5, log.end());
    assert_eq!(read(&*device).expect("sound").len(), 5, "it belongs to an opening that failed");
    follow(10, 4, LogEnd { frames: 6, ..log.end() });
    assert!(matches!(read(&*device), Err(Error::Corruption(_))), "a frame is missing");
    let file = device.open(&file_name(10), Mode::Write).expect("a device");
    file.set_len(40).expect("a device");
    assert_eq!(read(&*device).expect("sound").len(), 5, "its making was cut short");
    let entries = device.list("").expect("a device");
    assert_eq!(numbers(&entries), [9, 10]);
    device.remove(&file_name(9)).expect("a device");
    assert!(read(&*device).is_err(), "the log that is named is missing");
}

#[test]
fn a_log_that_follows_may_lack_its_head_only_if_nothing_was_added_to_it() {
    let device = device::memory();
    let log = write(&*device);
    let more = encode(&records()[1..2]);
    let mut next = LogWriter::create(&*device, (4, 10), log.end(), 4096, &more).expect("a device");
    let file = device.open(&file_name(10), Mode::Write).expect("a device");
    let mut head = [0; 512];
    file.read_at(0, &mut head).expect("a device");
    let mut flipped = head;
    flipped[9] ^= 4;
    let damaged = [[0; 512], flipped];
    for bytes in &damaged {
        file.write_at(0, bytes).expect("a device");
        assert_eq!(read(&*device).expect("sound").len(), 5, "its making was cut short");
    }
    file.write_at(0, &head).expect("a device");
    next.append(&more).expect("a device");
    assert_eq!(read(&*device).expect("sound").len(), 7);
    for bytes in &damaged {
        file.write_at(0, bytes).expect("a device");
        let found = read(&*device);
        let Err(Error::Corruption(damage)) = found else { panic!("a commit is lost: {found:?}") };
        assert_eq!(damage.file, file_name(10));
    }
}
