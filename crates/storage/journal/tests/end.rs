//! The loss of a journal's end is reported by opening and by the check, and nothing is altered.

use std::sync::Arc;

use codec::SeqNo;
use device::{Device, Faults, Mode, SimulatedDisk};
use environment::Environment;
use thermocline_journal::{Durability, Journal, OpenError, Options, check};

const DIR: &str = "journal";
const END: &str = "journal/END";

fn options() -> Options {
    Options { segment_bytes: 1024, buffer_bytes: 256, ..Options::default() }
}

fn open_as(device: &Arc<SimulatedDisk>, options: Options) -> Result<(Journal, u64), OpenError> {
    let (device, environment) = (device.clone(), Environment::seeded(3));
    let mut last = 0;
    let mut replay = |seqno: SeqNo, _: &[u8]| {
        last = seqno.get();
        Ok(())
    };
    let (journal, _) = Journal::open(device, DIR, options, &environment, SeqNo::ZERO, &mut replay)?;
    Ok((journal, last))
}

fn open(device: &Arc<SimulatedDisk>) -> Result<(Journal, u64), OpenError> {
    open_as(device, options())
}

fn append(journal: &Journal, count: u64) {
    for _ in 0..count {
        let write = |_: SeqNo, bytes: &mut Vec<u8>| bytes.extend([7; 50]);
        let number = journal.last().next();
        let seqno = journal.append(|| number, write).expect("the disk works");
        journal.wait(seqno, Durability::Synced).expect("the disk works");
    }
}

/// Returns a disk with a journal of several segments, all of whose records were synced.
fn disk(records: u64) -> (Arc<SimulatedDisk>, Journal) {
    let disk = SimulatedDisk::new(1, Faults::none());
    let (journal, _) = open(&disk).expect("an empty disk");
    append(&journal, records);
    (disk, journal)
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
    let entries = device.list(DIR).expect("the disk works");
    let names = entries.into_iter().map(|entry| format!("{DIR}/{}", entry.name));
    names.map(|name| (name.clone(), bytes(device, &name))).collect()
}

fn put(device: &dyn Device, name: &str, content: &[u8]) {
    let file = device.open(name, Mode::Create).expect("the disk works");
    file.set_len(0).expect("the disk works");
    file.write_at(0, content).expect("the disk works");
}

/// Opening and the check report the same, and nothing was altered. Returns the file that is named.
fn refused(disk: &Arc<SimulatedDisk>) -> String {
    let before = everything(&**disk);
    let error = open(disk).expect_err("something is missing");
    assert!(before == everything(&**disk), "a journal that is refused stays as it was");
    let (file, what) = match error {
        OpenError::Missing { file, what } => (file, what),
        OpenError::Damaged(damage) => (damage.file, damage.what),
        other => panic!("{other}"),
    };
    let report = check(&**disk, DIR).expect("the disk works");
    let is_it = |damage: &codec::Corruption| damage.file == file && damage.what == what;
    assert!(report.damage.iter().any(is_it), "{file}: {what} is not in {report:?}");
    file
}

#[test]
fn a_lost_newest_segment_is_reported_after_a_kill() {
    for records in 1..40 {
        let (live, _journal) = disk(records);
        let (names, image) = (segments(&*live), live.crash(records));
        let newest = names.last().expect("there is one");
        image.remove(newest).unwrap();
        assert_eq!(refused(&image), *newest, "after {records} records");
        // All from some segment on.
        for name in names.iter().rev().skip(1) {
            image.remove(name).unwrap();
            assert_eq!(refused(&image), *name, "after {records} records");
        }
    }
}

#[test]
fn a_lost_segment_that_opening_began_is_reported() {
    let (live, journal) = disk(20);
    journal.close().unwrap();
    let before = segments(&*live);
    let (journal, last) = open(&live).unwrap();
    assert_eq!(last, 20);
    append(&journal, 1);
    let newest = segments(&*live).pop().unwrap();
    assert!(!before.contains(&newest), "the opening began a segment");
    let image = live.crash(1);
    image.remove(&newest).unwrap();
    assert_eq!(refused(&image), newest);
}

#[test]
fn every_lost_record_is_reported_after_a_close() {
    let (live, journal) = disk(40);
    journal.close().unwrap();
    let names = segments(&*live);
    assert!(names.len() > 3, "{names:?}");
    for name in &names {
        let image = live.crash(1);
        image.remove(name).unwrap();
        refused_unless_oldest(&image, name == &names[0]);
    }
    // The newest one, cut anywhere: it is reported, or all records are there.
    let newest = names.last().unwrap();
    let content = bytes(&*live, newest);
    let mut reported = 0;
    for len in 0..content.len() {
        let image = live.crash(1);
        put(&*image, newest, &content[..len]);
        match open(&image) {
            Ok((_, last)) => assert_eq!(last, 40, "cut at {len}"),
            Err(_) => {
                reported += 1;
                assert_eq!(refused(&live_with(&live, newest, &content[..len])), *newest);
            }
        }
    }
    assert!(reported > 50, "{reported}");
}

fn live_with(live: &Arc<SimulatedDisk>, name: &str, content: &[u8]) -> Arc<SimulatedDisk> {
    let image = live.crash(1);
    put(&*image, name, content);
    image
}

fn refused_unless_oldest(image: &Arc<SimulatedDisk>, is_oldest: bool) {
    if is_oldest {
        assert!(matches!(open(image), Err(OpenError::Missing { .. })));
    } else {
        refused(image);
    }
}

#[test]
fn the_file_of_the_end_is_verified_and_missed() {
    let (live, _journal) = disk(20);
    let content = bytes(&*live, END);
    for offset in 0..content.len() as u64 {
        let image = live.crash(1);
        image.flip_bit(END, offset, (offset % 8) as u8).unwrap();
        assert_eq!(refused(&image), END, "byte {offset}");
    }
    for len in 0..48 {
        assert_eq!(refused(&live_with(&live, END, &content[..len])), END, "cut at {len}");
    }
    let image = live.crash(1);
    image.remove(END).unwrap();
    assert_eq!(refused(&image), END);
}

#[test]
fn a_journal_of_another_release_or_of_other_segments_is_refused_by_its_end() {
    let (live, _journal) = disk(20);
    let mut content = bytes(&*live, END);
    content[8] = 2;
    let checksum = codec::crc32c(&content[..12]);
    content[12..16].copy_from_slice(&checksum.to_le_bytes());
    let error = open(&live_with(&live, END, &content)).unwrap_err();
    assert!(matches!(&error, OpenError::Unsupported { file, .. } if file == END), "{error}");

    let other = SimulatedDisk::new(1, Faults::none());
    let environment = Environment::seeded(99);
    let mut nothing = |_: SeqNo, _: &[u8]| Ok(());
    Journal::open(other.clone(), DIR, options(), &environment, SeqNo::ZERO, &mut nothing).unwrap();
    assert_eq!(refused(&live_with(&live, END, &bytes(&*other, END))), END);
}

#[test]
fn an_older_file_of_the_end_is_no_error() {
    let disk = SimulatedDisk::new(1, Faults::none());
    let mut ends: Vec<Vec<u8>> = Vec::new();
    for _ in 0..4 {
        let (journal, _) = open(&disk).unwrap();
        ends.push(bytes(&*disk, END));
        append(&journal, 9);
        ends.push(bytes(&*disk, END));
        journal.close().unwrap();
        ends.push(bytes(&*disk, END));
    }
    ends.dedup();
    assert!(ends.len() > 7, "{}", ends.len());
    for end in ends {
        assert_eq!(open(&live_with(&disk, END, &end)).unwrap().1, 36);
    }
}

#[test]
fn a_journal_that_ends_before_what_the_caller_knows_is_refused() {
    let (live, _journal) = disk(5);
    let reaching = |reached| Options { reached: SeqNo::new(reached), ..options() };
    assert_eq!(open_as(&live.crash(1), reaching(5)).unwrap().1, 5);
    let image = live.crash(1);
    let before = everything(&*image);
    let error = open_as(&image, reaching(6)).unwrap_err();
    assert!(matches!(&error, OpenError::Missing { file, .. } if file.ends_with("1.journal")));
    assert!(before == everything(&*image), "a journal that is refused stays as it was");
    let empty = SimulatedDisk::new(1, Faults::none());
    assert!(matches!(open_as(&empty, reaching(1)), Err(OpenError::Missing { .. })));
}
