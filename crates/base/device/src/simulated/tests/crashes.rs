//! The bytes and names that a crash may leave, and those it must leave.

use std::collections::BTreeSet;

use super::*;
use crate::{Buffer, Request, SyncKind, Work};

const IMAGES: u64 = 2_000;
const SECTOR: usize = 512;

/// A durable file of `sectors` sectors of zeros.
fn durable(disk: &SimulatedDisk, name: &str, sectors: usize) -> Arc<dyn File> {
    let file = disk.open(name, Mode::CreateNew).unwrap();
    file.write_at(0, &vec![0; sectors * SECTOR]).unwrap();
    file.sync(SyncKind::Data).unwrap();
    disk.sync_dir("").unwrap();
    file
}

/// All that the images of a disk hold, by `look`.
fn outcomes<T: Ord>(disk: &SimulatedDisk, look: impl Fn(&SimulatedDisk) -> T) -> BTreeSet<T> {
    (0..IMAGES).map(|seed| look(&disk.crash(seed))).collect()
}

#[test]
fn unsynced_writes_survive_in_any_subset_of_sectors() {
    let disk = SimulatedDisk::new(1, Faults::none());
    let file = durable(&disk, "a", 3);
    file.write_at(0, &[1; 2 * SECTOR]).unwrap();
    file.write_at(2 * SECTOR as u64, &[2; SECTOR]).unwrap();
    let found = outcomes(&disk, |image| {
        let bytes = content(image, "a").unwrap();
        assert_eq!(bytes.len(), 3 * SECTOR);
        let sectors: Vec<u8> = bytes.chunks(SECTOR).map(|sector| sector[0]).collect();
        for (sector, &first) in bytes.chunks(SECTOR).zip(&sectors) {
            assert!(sector.iter().all(|&byte| byte == first), "a sector tore");
        }
        sectors
    });
    let all: BTreeSet<Vec<u8>> = [0, 1]
        .into_iter()
        .flat_map(|a| [0, 1].map(|b| [0, 2].map(|c| vec![a, b, c])))
        .flatten()
        .collect();
    assert_eq!(found, all);
}

#[test]
fn a_sector_is_as_it_was_at_one_moment() {
    let disk = SimulatedDisk::new(1, Faults::none());
    let file = durable(&disk, "a", 1);
    file.write_at(0, b"first").unwrap();
    file.write_at(5, b"second").unwrap();
    let found = outcomes(&disk, |image| content(image, "a").unwrap()[..11].to_vec());
    let moments: [&[u8]; 3] = [&[0; 11], b"first\0\0\0\0\0\0", b"firstsecond"];
    assert_eq!(found, moments.map(<[u8]>::to_vec).into());
}

#[test]
fn an_overwritten_sector_may_keep_any_version() {
    let disk = SimulatedDisk::new(1, Faults::none());
    let file = durable(&disk, "a", 1);
    for version in 1..=3 {
        file.write_at(0, &[version; SECTOR]).unwrap();
    }
    let found = outcomes(&disk, |image| content(image, "a").unwrap()[0]);
    assert_eq!(found, BTreeSet::from([0, 1, 2, 3]));
}

#[test]
fn an_appended_length_is_pending_apart_from_its_bytes() {
    let disk = SimulatedDisk::new(1, Faults::none());
    let file = durable(&disk, "a", 1);
    file.write_at(SECTOR as u64, &[1; SECTOR]).unwrap();
    let found = outcomes(&disk, |image| {
        let bytes = content(image, "a").unwrap();
        (bytes.len() / SECTOR, bytes.get(SECTOR).copied())
    });
    let all = [(1, None), (2, Some(0)), (2, Some(1))];
    assert_eq!(found, all.into(), "grown or not, and if grown, written or not");
}

#[test]
fn what_was_cut_off_never_comes_back_under_a_later_length() {
    let disk = SimulatedDisk::new(1, Faults::none());
    let file = durable(&disk, "a", 2);
    file.write_at(0, &[1; 2 * SECTOR]).unwrap();
    file.sync(SyncKind::Data).unwrap();
    file.set_len(SECTOR as u64).unwrap();
    file.set_len(4 * SECTOR as u64).unwrap();
    let found = outcomes(&disk, |image| {
        let bytes = content(image, "a").unwrap();
        assert!(bytes[..SECTOR].iter().all(|&byte| byte == 1));
        (bytes.len() / SECTOR, bytes.get(SECTOR).copied())
    });
    assert_eq!(found, [(1, None), (2, Some(1)), (4, Some(0))].into());
}

#[test]
fn what_was_synced_survives_and_what_came_later_may_not() {
    let disk = SimulatedDisk::new(1, Faults::none());
    let file = durable(&disk, "a", 2);
    file.write_at(0, &[1; SECTOR]).unwrap();
    file.sync(SyncKind::All).unwrap();
    file.write_at(SECTOR as u64, &[2; SECTOR]).unwrap();
    let found = outcomes(&disk, |image| {
        let bytes = content(image, "a").unwrap();
        (bytes[0], bytes[SECTOR])
    });
    assert_eq!(found, [(1, 0), (1, 2)].into());
}

#[test]
fn a_name_is_pending_until_its_directory_is_synced() {
    let disk = SimulatedDisk::new(1, Faults::none());
    let file = disk.open("a", Mode::CreateNew).unwrap();
    file.write_at(0, b"bytes").unwrap();
    file.sync(SyncKind::All).unwrap();
    let found = outcomes(&disk, |image| content(image, "a"));
    assert_eq!(found, [None, Some(b"bytes".to_vec())].into());
    disk.sync_dir("").unwrap();
    let found = outcomes(&disk, |image| content(image, "a"));
    assert_eq!(found, [Some(b"bytes".to_vec())].into());
}

#[test]
fn a_directory_is_pending_until_its_parent_is_synced() {
    let disk = SimulatedDisk::new(1, Faults::none());
    disk.create_dir("d/e").unwrap();
    disk.open("d/e/a", Mode::CreateNew).unwrap();
    disk.sync_dir("d/e").unwrap();
    disk.sync_dir("d").unwrap();
    let names = |image: &SimulatedDisk| {
        everything(image).into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    let all = ["d", "d/e", "d/e/a"].map(str::to_owned).to_vec();
    assert_eq!(outcomes(&disk, names), [vec![], all.clone()].into());
    disk.sync_dir("").unwrap();
    assert_eq!(outcomes(&disk, names), [all].into());
}

#[test]
fn a_rename_is_whole_or_not_at_all() {
    let disk = SimulatedDisk::new(1, Faults::none());
    durable(&disk, "old", 1);
    durable(&disk, "new", 2);
    disk.rename("new", "old").unwrap();
    let found = outcomes(&disk, |image| {
        let sectors = |name| content(image, name).map(|bytes| bytes.len() / SECTOR);
        (sectors("old"), sectors("new"))
    });
    assert_eq!(found, [(Some(1), Some(2)), (Some(2), None)].into());
}

#[test]
fn a_move_between_directories_never_loses_the_file() {
    let disk = SimulatedDisk::new(1, Faults::none());
    disk.create_dir("d").unwrap();
    durable(&disk, "a", 1);
    disk.rename("a", "d/b").unwrap();
    let both =
        |image: &SimulatedDisk| (content(image, "a").is_some(), content(image, "d/b").is_some());
    let found = outcomes(&disk, both);
    assert_eq!(found, [(true, false), (true, true), (false, true)].into());
    disk.sync_dir("").unwrap();
    assert_eq!(outcomes(&disk, both), [(false, true)].into(), "gone from here, so it is there");
}

#[test]
fn an_unsynced_removal_may_be_undone() {
    let disk = SimulatedDisk::new(1, Faults::none());
    durable(&disk, "a", 1);
    disk.remove("a").unwrap();
    let there = |image: &SimulatedDisk| content(image, "a").is_some();
    assert_eq!(outcomes(&disk, there), [false, true].into());
    disk.sync_dir("").unwrap();
    assert_eq!(outcomes(&disk, there), [false].into());
}

#[test]
fn a_renamed_file_without_a_sync_may_be_empty() {
    let disk = SimulatedDisk::new(1, Faults::none());
    durable(&disk, "a", 1);
    disk.open("a.new", Mode::CreateNew).unwrap().write_at(0, b"new").unwrap();
    disk.rename("a.new", "a").unwrap();
    disk.sync_dir("").unwrap();
    let found = outcomes(&disk, |image| content(image, "a").unwrap());
    assert!(found.contains(&Vec::new()), "the classic mistake shows");
    assert!(found.contains(b"new".as_slice()));
}

#[test]
fn a_write_under_way_may_be_found_done_or_not() {
    let faults = Faults { latency_polls_max: 1_000, ..Faults::none() };
    let disk = SimulatedDisk::new(1, faults);
    let file = durable(&disk, "a", 2);
    let mut queue = disk.queue(4).unwrap();
    let work = Work::Write { offset: 0, buffer: Buffer::copy_of(&[1; 2 * SECTOR]) };
    queue.submit(Request { tag: 0, file: file.clone(), work }).unwrap();
    assert_eq!(content(&*disk, "a").unwrap()[0], 0, "it has not happened yet");
    file.sync(SyncKind::Data).unwrap();
    let look = |image: &SimulatedDisk| {
        let bytes = content(image, "a").unwrap();
        (bytes[0], bytes[SECTOR])
    };
    let all = BTreeSet::from([(0, 0), (0, 1), (1, 0), (1, 1)]);
    assert_eq!(outcomes(&disk, look), all, "that sync did not cover it");

    let mut done = Vec::new();
    queue.wait(1, &mut done).unwrap();
    assert_eq!(outcomes(&disk, look), all, "it is done, and not durable");
    file.sync(SyncKind::Data).unwrap();
    assert_eq!(outcomes(&disk, look), [(1, 1)].into());
}

#[test]
fn a_sync_under_way_covers_what_completed_before_it_was_submitted() {
    // The write draws a latency that lets it complete before the sync for some seeds.
    let mut lost = 0;
    for seed in 0..50 {
        let faults = Faults { latency_polls_max: 10, ..Faults::none() };
        let disk = SimulatedDisk::new(seed, faults);
        let file = durable(&disk, "a", 1);
        let mut queue = disk.queue(4).unwrap();
        let work = Work::Write { offset: 0, buffer: Buffer::copy_of(&[1; SECTOR]) };
        queue.submit(Request { tag: 0, file: file.clone(), work }).unwrap();
        let work = Work::Sync(SyncKind::Data);
        queue.submit(Request { tag: 1, file: file.clone(), work }).unwrap();
        queue.wait(2, &mut Vec::new()).unwrap();
        lost += u32::from((0..50).any(|image| content(&*disk.crash(image), "a").unwrap()[0] == 0));
    }
    assert_eq!(lost, 50, "submitted together, they are in no order");
}

#[test]
fn a_crash_disturbs_nothing_and_images_crash_in_turn() {
    let disk = SimulatedDisk::new(1, Faults::none());
    let file = durable(&disk, "a", 1);
    file.write_at(0, &[1; SECTOR]).unwrap();
    let held = disk.lock("LOCK").unwrap();
    let (trace, operations) = (disk.trace(), disk.operations());
    let image = (0..).map(|seed| disk.crash(seed)).find(|i| content(&**i, "a").unwrap()[0] == 1);
    let image = image.unwrap();
    assert_eq!((disk.trace(), disk.operations()), (trace, operations));
    assert_eq!(image.operations(), 0);
    image.lock("LOCK").unwrap();
    drop(held);

    let again = image.open("a", Mode::Write).unwrap();
    again.write_at(0, &[2; SECTOR]).unwrap();
    let found = outcomes(&image, |image| content(image, "a").unwrap()[0]);
    assert_eq!(found, [1, 2].into(), "what the first crash left is durable");
    assert_eq!(content(&*disk, "a").unwrap()[0], 1, "the first disk does not see it");
}

#[test]
fn all_that_was_not_synced_is_lost_or_nothing_is() {
    let disk = SimulatedDisk::new(1, Faults::none());
    disk.keep_history();
    let file = durable(&disk, "a", 1);
    let synced = disk.operations();
    file.write_at(0, &[1; 2 * SECTOR]).unwrap();
    disk.open("b", Mode::CreateNew).unwrap();
    let (all, history) = (disk.operations(), disk.history());
    let mut replay = history.replay();
    for (operation, sectors, names) in [(synced, 1, 1), (synced + 1, 2, 1), (all, 2, 2)] {
        replay.advance_to(operation);
        let (lost, kept) = (replay.crash_losing_all(), replay.crash_losing_nothing());
        assert_eq!(content(&*lost, "a"), Some(vec![0; SECTOR]));
        assert_eq!(lost.list("").unwrap().len(), 1);
        let written = u8::from(operation > synced);
        assert_eq!(content(&*kept, "a"), Some(vec![written; sectors * SECTOR]));
        assert_eq!(kept.list("").unwrap().len(), names);
    }
}
