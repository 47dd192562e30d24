//! The disk's faults, one by one.

use super::*;
use crate::{Buffer, SyncKind};

const SECTOR: usize = 512;
const ALWAYS: u32 = 1_000_000;

fn file(disk: &SimulatedDisk) -> Arc<dyn File> {
    let file = disk.open("a", Mode::CreateNew).unwrap();
    file.write_at(0, &[1; 8 * SECTOR]).unwrap();
    file.sync(SyncKind::Data).unwrap();
    disk.sync_dir("").unwrap();
    file
}

fn first(disk: &SimulatedDisk) -> u8 {
    content(disk, "a").unwrap()[0]
}

/// A disk whose file had a write and then a failed sync of the kind that is wanted.
fn after_failed_sync(how: SyncFailure) -> (Arc<SimulatedDisk>, Arc<dyn File>) {
    for seed in 0..100 {
        let disk = SimulatedDisk::new(seed, Faults::none());
        disk.keep_history();
        let file = file(&disk);
        file.write_at(0, &[2; SECTOR]).unwrap();
        disk.set_faults(Faults { sync_error_ppm: ALWAYS, ..Faults::none() });
        let error = file.sync(SyncKind::Data).unwrap_err();
        assert!(matches!(error, Error::Io { operation: Operation::Sync, code: 5, .. }));
        disk.set_faults(Faults::none());
        let wanted = |event: &Event| matches!(event, Event::SyncFailed { how: h, .. } if *h == how);
        let history = disk.disk.lock().history.clone().unwrap();
        if history.iter().any(|(_, event)| wanted(event)) {
            return (disk, file);
        }
    }
    panic!("no seed draws {how:?}");
}

#[test]
fn a_failed_sync_may_mark_pages_clean() {
    let (disk, file) = after_failed_sync(SyncFailure::MarkedClean);
    assert_eq!(first(&disk), 2, "readers see it");
    file.write_at(SECTOR as u64, &[3; SECTOR]).unwrap();
    file.sync(SyncKind::Data).unwrap();
    for seed in 0..100 {
        let bytes = content(&*disk.crash(seed), "a").unwrap();
        assert_eq!((bytes[0], bytes[SECTOR]), (1, 3), "only what was dirty later is durable");
    }
    file.write_at(1, &[4]).unwrap();
    file.sync(SyncKind::Data).unwrap();
    assert_eq!(content(&*disk.crash(0), "a").unwrap()[..3], [2, 4, 2], "its sector was written");
}

#[test]
fn a_failed_sync_may_revert_the_bytes() {
    let (disk, file) = after_failed_sync(SyncFailure::Reverted);
    assert_eq!(first(&disk), 1);
    file.sync(SyncKind::Data).unwrap();
    assert_eq!(first(&disk.crash(1)), 1);
}

#[test]
fn a_failed_sync_may_be_reported_once() {
    let (disk, file) = after_failed_sync(SyncFailure::ReportedOnce);
    assert_eq!(first(&disk), 2);
    file.sync(SyncKind::Data).unwrap();
    assert!((0..100).any(|seed| first(&disk.crash(seed)) == 1), "the retried sync did nothing");
    file.sync(SyncKind::Data).unwrap();
    assert!((0..100).all(|seed| first(&disk.crash(seed)) == 2));
}

#[test]
fn a_lying_flush_makes_nothing_durable() {
    let disk = SimulatedDisk::new(1, Faults { lying_flush: true, ..Faults::none() });
    file(&disk);
    let images: Vec<_> = (0..200).map(|seed| content(&*disk.crash(seed), "a")).collect();
    assert!(images.contains(&None) && images.contains(&Some(Vec::new())));
    assert!(images.contains(&Some(vec![1; 8 * SECTOR])));
}

#[test]
fn a_name_that_is_not_synced_is_lost_alone() {
    let faults = Faults { unsynced_name: Some("a"), ..Faults::none() };
    let disk = SimulatedDisk::new(1, faults);
    for name in ["a", "b"] {
        let file = disk.open(name, Mode::CreateNew).unwrap();
        file.write_at(0, &[1; 8 * SECTOR]).unwrap();
        file.sync(SyncKind::All).unwrap();
    }
    disk.sync_dir("").unwrap();
    let images: Vec<_> = (0..100).map(|seed| disk.crash(seed)).collect();
    assert!(images.iter().any(|image| content(&**image, "a") != Some(vec![1; 8 * SECTOR])));
    assert!(images.iter().all(|image| content(&**image, "b") == Some(vec![1; 8 * SECTOR])));
}

#[test]
fn refused_reads_and_writes_say_so() {
    let disk = SimulatedDisk::new(1, Faults::none());
    let file = file(&disk);
    disk.set_faults(Faults { read_error_ppm: ALWAYS, ..Faults::none() });
    let mut bytes = [0; 4];
    let error = file.read_at(0, &mut bytes).unwrap_err();
    assert!(matches!(error, Error::Io { operation: Operation::Read, code: 5, .. }));
    assert_eq!(bytes, [disk::POISON; 4]);

    disk.set_faults(Faults { no_space_ppm: ALWAYS, ..Faults::none() });
    let full = Error::NoSpace { name: "a".to_owned() };
    assert_eq!(file.write_at(0, &[2; SECTOR]).unwrap_err(), full);
    assert_eq!(file.set_len(9).unwrap_err(), full);
    assert!(disk.open("b", Mode::CreateNew).is_err());

    disk.set_faults(Faults { write_error_ppm: ALWAYS, ..Faults::none() });
    let mut parts = std::collections::BTreeSet::new();
    for fill in 3..100 {
        file.write_at(0, &[fill; 8 * SECTOR]).unwrap_err();
        disk.set_faults(Faults::none());
        let done = content(&*disk, "a").unwrap().iter().filter(|&&byte| byte == fill).count();
        assert_eq!(done % SECTOR, 0);
        parts.insert(done / SECTOR);
        disk.set_faults(Faults { write_error_ppm: ALWAYS, ..Faults::none() });
    }
    assert_eq!(parts, (0..=8).collect(), "a failed write may have been done in part");
}

#[test]
fn lost_and_misdirected_writes_are_acknowledged() {
    let disk = SimulatedDisk::new(1, Faults::none());
    let file = file(&disk);
    disk.set_faults(Faults { lost_write_ppm: ALWAYS, ..Faults::none() });
    file.write_at(0, &[2; SECTOR]).unwrap();
    file.write_at(8 * SECTOR as u64, &[2; SECTOR]).unwrap();
    let mut expected = vec![1; 8 * SECTOR];
    expected.extend([0; SECTOR]);
    assert_eq!(content(&*disk, "a").unwrap(), expected, "longer, and nothing written");

    disk.set_faults(Faults { misdirected_write_ppm: ALWAYS, ..Faults::none() });
    let mut places = std::collections::BTreeSet::new();
    for fill in 10..60 {
        file.write_at(4 * SECTOR as u64, &[fill; SECTOR]).unwrap();
        let bytes = content(&*disk, "a").unwrap();
        assert_eq!(bytes.len(), 9 * SECTOR);
        places.insert(bytes.iter().position(|&byte| byte == fill).unwrap() / SECTOR);
    }
    assert_eq!(places, (0..5).collect(), "anywhere up to where it was to go");
}

#[test]
fn rot_and_zeroed_sectors_are_silent_and_for_good() {
    let disk = SimulatedDisk::new(1, Faults::none());
    let file = file(&disk);
    disk.set_faults(Faults { bit_rot_ppm: ALWAYS, ..Faults::none() });
    let mut bytes = Buffer::zeroed(8 * SECTOR);
    file.read_at(0, &mut bytes).unwrap();
    let flipped: u32 = bytes.iter().map(|byte| (byte ^ 1).count_ones()).sum();
    assert_eq!(flipped, 1);

    disk.set_faults(Faults { zeroed_sector_ppm: ALWAYS, ..Faults::none() });
    file.read_at(0, &mut bytes).unwrap();
    disk.set_faults(Faults::none());
    let zeroed = bytes.chunks(SECTOR).filter(|sector| sector.iter().all(|&b| b == 0)).count();
    assert_eq!(zeroed, 1);
    assert_eq!(content(&*disk.crash(0), "a").unwrap(), bytes.to_vec());

    disk.flip_bit("a", 0, 3).unwrap();
    disk.zero_sector("a", 7 * SECTOR as u64 + 5).unwrap();
    let after = content(&*disk, "a").unwrap();
    assert_eq!(after[0], bytes[0] ^ 8);
    assert_eq!(after[7 * SECTOR..], [0; SECTOR]);
}

#[test]
fn latency_reorders_completions() {
    let disk = SimulatedDisk::new(1, Faults { latency_polls_max: 20, ..Faults::none() });
    let file = file(&disk);
    let mut queue = disk.queue(8).unwrap();
    for tag in 0..8 {
        let work =
            crate::Work::Read { offset: tag * SECTOR as u64, buffer: Buffer::zeroed(SECTOR) };
        queue.submit(crate::Request { tag, file: file.clone(), work }).unwrap();
    }
    let (mut done, mut polls) = (Vec::new(), 0);
    while queue.in_flight() > 0 {
        queue.poll(&mut done).unwrap();
        polls += 1;
    }
    let tags: Vec<u64> = done.iter().map(|completion| completion.tag).collect();
    assert!(!tags.is_sorted(), "{tags:?}");
    assert!((2..=21).contains(&polls), "{polls}");
}

#[test]
fn drawn_faults_are_often_off_and_never_a_lying_flush() {
    let drawn: Vec<Faults> = (0..400).map(Faults::drawn).collect();
    let knobs: [fn(&Faults) -> u32; 9] = [
        |f| f.read_error_ppm,
        |f| f.write_error_ppm,
        |f| f.no_space_ppm,
        |f| f.sync_error_ppm,
        |f| f.bit_rot_ppm,
        |f| f.zeroed_sector_ppm,
        |f| f.misdirected_write_ppm,
        |f| f.lost_write_ppm,
        |f| f.latency_polls_max,
    ];
    for knob in knobs {
        let on = drawn.iter().filter(|faults| knob(faults) > 0).count();
        assert!((40..360).contains(&on), "{on} of 400");
    }
    assert!(drawn.iter().all(|faults| !faults.lying_flush));
    assert_eq!(Faults::drawn(7), Faults::drawn(7));
    let loud = Faults::loud(7);
    assert_eq!(loud.bit_rot_ppm + loud.lost_write_ppm + loud.misdirected_write_ppm, 0);
}
