//! Damage is refused with its place, never skipped; refused files stay unchanged.

use std::sync::Arc;

use codec::SeqNo;
use device::{Device, Faults, Mode, SimulatedDisk};
use environment::Environment;
use thermocline_journal::{Durability, Journal, OpenError, Options, check, decode_segment, read};

const DIR: &str = "journal";
const RECORDS: u64 = 48;

fn open(device: Arc<dyn Device>, after: u64) -> Result<(Journal, Vec<u64>), OpenError> {
    let mut found = Vec::new();
    let options = Options { segment_bytes: 1024, buffer_bytes: 256, ..Options::default() };
    let environment = Environment::seeded(3);
    let (journal, _) = Journal::open(
        device,
        DIR,
        options,
        &environment,
        SeqNo::new(after),
        &mut |seqno, bytes| {
            assert_eq!(bytes, vec![seqno.get() as u8; 50], "record {seqno}");
            found.push(seqno.get());
            Ok(())
        },
    )?;
    Ok((journal, found))
}

/// Returns a disk with a journal of several segments. Every fourth record was synced; nothing was
/// closed.
fn disk() -> Arc<SimulatedDisk> {
    let disk = SimulatedDisk::new(1, Faults::none());
    let (journal, _) = open(disk.clone(), 0).expect("an empty disk");
    for seqno in 1..=RECORDS {
        let write = |seqno: SeqNo, bytes: &mut Vec<u8>| bytes.extend([seqno.get() as u8; 50]);
        journal.append(|| SeqNo::new(seqno), write).expect("the disk works");
        let durability = if seqno % 4 == 0 { Durability::Synced } else { Durability::Flushed };
        journal.wait(SeqNo::new(seqno), durability).expect("the disk works");
    }
    disk
}

fn segments(device: &dyn Device) -> Vec<String> {
    let entries = device.list(DIR).expect("the disk works");
    let names = entries.into_iter().map(|entry| entry.name);
    names.filter(|name| name.ends_with(".journal")).map(|name| format!("{DIR}/{name}")).collect()
}

fn bytes(device: &dyn Device, name: &str) -> Vec<u8> {
    let file = device.open(name, Mode::Read).expect("the file is there");
    let mut bytes = vec![0; file.len().expect("it has a length") as usize];
    file.read_at(0, &mut bytes).expect("it can be read");
    bytes
}

fn everything(device: &dyn Device) -> Vec<(String, Vec<u8>)> {
    segments(device).into_iter().map(|name| (name.clone(), bytes(device, &name))).collect()
}

/// Opening is refused, by the check too, and nothing was altered. Returns the damage's place.
fn refused(disk: &Arc<SimulatedDisk>) -> (String, u64) {
    let before = everything(&**disk);
    let error = open(disk.clone(), 0).expect_err("the journal is damaged");
    let OpenError::Damaged(corruption) = error else { panic!("{error}") };
    assert!(before == everything(&**disk), "what is refused must be left as it was");
    let report = check(&**disk, DIR).expect("the disk works");
    assert!(report.damage.contains(&corruption), "{corruption} is not in {report:?}");
    (corruption.file, corruption.offset)
}

#[test]
fn every_flipped_bit_is_noticed_or_in_the_tail() {
    let intact = disk();
    let names = segments(&*intact);
    assert!(names.len() > 3, "{names:?}");
    for name in &names {
        let newest = Some(name) == names.last();
        let content = bytes(&*intact, name);
        // The last mark in the newest segment: below its watermark nothing may be cut.
        let marked = if newest { last_watermark(&*intact) } else { content.len() as u64 };
        for offset in 0..content.len() as u64 {
            let disk = intact.crash(0);
            disk.flip_bit(name, offset, (offset % 8) as u8).unwrap();
            if offset < marked {
                let (file, place) = refused(&disk);
                assert_eq!(&file, name);
                assert!(
                    place <= offset && offset - place < 80,
                    "byte {offset} damaged, {place} named"
                );
            } else {
                let (_, found) = open(disk.clone(), 0).unwrap();
                let expected: Vec<u64> = (1..=RECORDS).collect();
                assert!(expected.starts_with(&found), "byte {offset}: {found:?}");
                assert!(found.len() as u64 >= RECORDS - 4, "byte {offset}: {found:?}");
            }
        }
    }
}

/// Returns the end of the newest segment's records that a mark in it shows to be synced: records of
/// 70 bytes and marks of 20, a mark in the group after each sync.
fn last_watermark(device: &dyn Device) -> u64 {
    let newest = segments(device).pop().expect("there are segments");
    let content = bytes(device, &newest);
    let marks = content.windows(12).enumerate().filter_map(|(at, window)| {
        let kind_and_length = u32::from_le_bytes(*window.first_chunk()?);
        let number = u64::from_le_bytes(*window.last_chunk()?);
        (kind_and_length == 1 << 30 && number <= at as u64).then_some(number)
    });
    marks.max().expect("the newest segment holds a mark")
}

/// Returns a disk with a journal that was closed in order: its newest segment holds records that
/// were synced, of which the last sector with records holds several.
fn closed_disk() -> Arc<SimulatedDisk> {
    let disk = SimulatedDisk::new(1, Faults::none());
    let (journal, _) = open(disk.clone(), 0).expect("an empty disk");
    for seqno in 1..=RECORDS {
        let write = |seqno: SeqNo, bytes: &mut Vec<u8>| bytes.extend([seqno.get() as u8; 50]);
        journal.append(|| SeqNo::new(seqno), write).expect("the disk works");
    }
    journal.close().expect("the disk works");
    disk
}

#[test]
fn after_an_orderly_close_no_rotten_sector_takes_a_record_with_it() {
    let intact = closed_disk();
    let names = segments(&*intact);
    let newest = names.last().expect("there are segments");
    let content = bytes(&*intact, newest);
    assert_eq!(content.len() % 512, 0, "the close fills a sector");
    let close = content.len() as u64 - 512;
    for offset in (0..close).step_by(512) {
        let disk = intact.crash(0);
        disk.zero_sector(newest, offset).unwrap();
        let (file, place) = refused(&disk);
        assert_eq!(&file, newest);
        assert!(place < offset + 512, "sector at {offset} zeroed, {place} named");
    }
    for offset in 0..content.len() as u64 {
        let disk = intact.crash(0);
        disk.flip_bit(newest, offset, (offset % 8) as u8).unwrap();
        let (file, place) = refused(&disk);
        assert_eq!(&file, newest);
        assert!(place <= offset, "byte {offset} damaged, {place} named");
    }
}

#[test]
fn a_close_that_never_reached_the_disk_loses_nothing() {
    let intact = closed_disk();
    let newest = segments(&*intact).pop().expect("there are segments");
    let close = bytes(&*intact, &newest).len() as u64 - 512;
    for zeros in [true, false] {
        let disk = intact.crash(0);
        match zeros {
            true => disk.zero_sector(&newest, close).unwrap(),
            false => disk.open(&newest, Mode::Write).unwrap().set_len(close).unwrap(),
        }
        assert!(check(&*disk, DIR).unwrap().is_whole());
        let (_, found) = open(disk, 0).unwrap();
        assert_eq!(found, (1..=RECORDS).collect::<Vec<_>>());
    }
}

#[test]
fn a_missing_segment_is_noticed() {
    let intact = disk();
    let names = segments(&*intact);
    for gap in 0..names.len() - 1 {
        let disk = intact.crash(0);
        disk.remove(&names[gap]).unwrap();
        let error = open(disk.clone(), 0).unwrap_err();
        let OpenError::Missing { file, .. } = error else { panic!("{error}") };
        assert_eq!(file, names[gap + 1]);
        if gap > 0 {
            assert!(!check(&*disk, DIR).unwrap().is_whole());
        }
    }
    // A caller that needs nothing of the oldest does not miss it.
    let disk = intact.crash(0);
    disk.remove(&names[0]).unwrap();
    let (_, found) = open(disk, 20).unwrap();
    assert_eq!(found, (21..=RECORDS).collect::<Vec<_>>());
}

#[test]
fn a_segment_cannot_stand_in_for_another() {
    let intact = disk();
    let names = segments(&*intact);
    let other = {
        let disk = SimulatedDisk::new(1, Faults::none());
        let environment = Environment::seeded(99);
        let opened = Journal::open(
            disk.clone(),
            DIR,
            Options::default(),
            &environment,
            SeqNo::ZERO,
            &mut |_, _| Ok(()),
        );
        opened.unwrap().0.close().unwrap();
        everything(&*disk).pop().unwrap().1
    };
    let cases = [(names[2].clone(), bytes(&*intact, &names[1])), (names[0].clone(), other)];
    for (name, content) in cases {
        let disk = intact.crash(0);
        let file = disk.open(&name, Mode::Write).unwrap();
        file.set_len(0).unwrap();
        file.write_at(0, &content).unwrap();
        refused(&disk);
    }
}

#[test]
fn a_release_to_come_is_refused_and_named() {
    let disk = disk();
    let name = segments(&*disk).remove(1);
    let mut header = bytes(&*disk, &name)[..16].to_vec();
    header[8] = 2;
    let checksum = codec::crc32c(&header[..12]);
    header[12..].copy_from_slice(&checksum.to_le_bytes());
    disk.open(&name, Mode::Write).unwrap().write_at(0, &header).unwrap();
    let error = open(disk, 0).unwrap_err();
    assert!(matches!(&error, OpenError::Unsupported { file, .. } if *file == name), "{error}");
    assert!(error.to_string().contains("format version 2"), "{error}");
}

#[test]
fn a_refusing_consumer_stops_the_replay_with_the_place() {
    let disk = disk();
    let mut visit = |seqno: SeqNo, _: &[u8]| {
        if seqno.get() == 30 { Err("no keyspace 7".into()) } else { Ok(()) }
    };
    let error = read(&*disk, DIR, SeqNo::ZERO, &mut visit).unwrap_err();
    assert!(matches!(error, OpenError::Replay { seqno, .. } if seqno.get() == 30), "{error}");
    assert!(error.to_string().contains("no keyspace 7"), "{error}");
}

#[test]
fn decoding_takes_any_bytes() {
    let disk = disk();
    let name = segments(&*disk).remove(0);
    let content = bytes(&*disk, &name);
    let mut whole = 0;
    decode_segment(1, &content, &mut |_, _| whole += 1).unwrap();
    assert!(whole > 3);
    for len in 0..content.len() {
        let mut records = 0;
        let outcome = decode_segment(1, &content[..len], &mut |_, _| records += 1);
        assert!(records <= whole);
        assert!(outcome.map_or(len < 72, |end| end as usize <= len), "cut to {len} bytes");
    }
}

#[test]
fn what_reads_on_has_all_before_the_damage_and_all_behind_a_missing_beginning() {
    let disk = disk();
    let names = segments(&*disk);
    assert!(names.len() > 3, "{names:?}");
    let read_from = |from: u64| {
        let mut found = Vec::new();
        let outcome = read(&*disk, DIR, SeqNo::new(from), &mut |seqno, _| {
            found.push(seqno.get());
            Ok(())
        });
        (found, outcome)
    };
    let (all, outcome) = read_from(1);
    assert_eq!((all.len() as u64, outcome.is_ok()), (RECORDS, true));

    let last = names.last().expect("there are some");
    let header = bytes(&*disk, last)[8];
    let file = disk.open(last, Mode::Write).expect("the file is there");
    file.write_at(8, &[header ^ 1]).expect("the disk works");
    let (found, outcome) = read_from(1);
    assert!(outcome.is_err());
    assert!(found.len() > all.len() / 2, "the segments before were read: {found:?}");
    assert_eq!(found, all[..found.len()]);
    file.write_at(8, &[header]).expect("the disk works");

    disk.remove(&names[0]).expect("the disk works");
    let (found, outcome) = read_from(1);
    assert!(matches!(outcome, Err(OpenError::Missing { .. })), "{outcome:?}");
    assert!(!found.is_empty());
    assert_eq!(found, all[all.len() - found.len()..]);
    let (same, outcome) = read_from(found[0]);
    assert_eq!((same, outcome.is_ok()), (found, true), "what is missing is not wanted");
}
