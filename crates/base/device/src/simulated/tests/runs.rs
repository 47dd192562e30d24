//! Whole runs of random operations: the same seed, the same trace; every image allowed.

use std::collections::BTreeMap;

use super::*;
use crate::simulated::dice::Dice;
use crate::{Buffer, Request, SyncKind, Work};

const RUNS: u64 = 200;
const OPERATIONS: u64 = 120;
const NAMES: [&str; 4] = ["a", "b", "d/a", "d/b"];

/// Does one random operation; errors are part of the run.
fn operate(disk: &SimulatedDisk, dice: &mut Dice) {
    let name = dice.pick(&NAMES);
    let other = dice.pick(&NAMES);
    let fill = vec![dice.below(256) as u8; dice.below(3_000) as usize];
    let (offset, choice) = (dice.below(10_000), dice.below(20));
    let file = disk.open(name, Mode::Create);
    match (choice, file) {
        (0..=6, Ok(file)) => drop(file.write_at(offset, &fill)),
        (7 | 8, Ok(file)) => drop(file.sync(SyncKind::Data)),
        (9, Ok(file)) => drop(file.set_len(offset)),
        (10, Ok(file)) => drop(file.punch(offset, 5_000)),
        (11, Ok(file)) => drop(file.allocate(offset, 5_000)),
        (12, _) => drop(disk.rename(name, other)),
        (13, _) => drop(disk.remove(name)),
        (14, _) => drop(disk.link(name, other)),
        (15, _) => drop(disk.sync_dir("")),
        (16, _) => drop(disk.sync_dir("d")),
        (17, Ok(file)) => drop(file.read_at(0, &mut [0; 100])),
        (_, Ok(file)) => {
            let mut queue = disk.queue(4).unwrap();
            for tag in 0..4 {
                let buffer = Buffer::copy_of(&fill);
                let work = Work::Write { offset: offset + tag * 3_000, buffer };
                queue.submit(Request { tag, file: file.clone(), work }).unwrap();
            }
            queue.wait(2, &mut Vec::new()).unwrap();
        }
        (_, Err(_)) => {}
    }
}

fn run(disk: &SimulatedDisk, seed: u64) {
    let mut dice = Dice::new(seed, "operations");
    let _ = disk.create_dir("d");
    (0..OPERATIONS).for_each(|_| operate(disk, &mut dice));
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let mut traces = std::collections::BTreeSet::new();
    for seed in 0..RUNS {
        let disks = [0, 1].map(|_| SimulatedDisk::new(seed, Faults::drawn(seed)));
        for disk in &disks {
            run(disk, seed);
        }
        let [one, two] = disks;
        assert_eq!(one.trace(), two.trace(), "seed {seed}");
        assert_eq!(one.operations(), two.operations(), "seed {seed}");
        let images = [&one, &two].map(|disk| everything(&disk.crash(seed)));
        assert_eq!(images[0], images[1], "seed {seed}");
        traces.insert(one.trace());
    }
    assert_eq!(traces.len() as u64, RUNS, "other seeds, other traces");
}

#[test]
fn a_replay_gives_the_images_that_the_run_would_have_given() {
    for seed in 0..RUNS / 4 {
        let disk = SimulatedDisk::new(seed, Faults::loud(seed));
        disk.keep_history();
        let mut dice = Dice::new(seed, "operations");
        let mut live = BTreeMap::new();
        disk.create_dir("d").unwrap_or_default();
        for step in 0..OPERATIONS {
            operate(&disk, &mut dice);
            live.insert(disk.operations(), (step, everything(&disk.crash(step))));
        }
        let history = disk.history();
        let mut replay = history.replay();
        for (operation, (step, image)) in live {
            replay.advance_to(operation);
            assert_eq!(everything(&replay.crash(step)), image, "seed {seed} step {step}");
        }
        assert!(history.last_operation() <= disk.operations());
    }
}

#[test]
fn a_cut_run_ends_as_its_replay_does() {
    for seed in 0..RUNS / 4 {
        let whole = SimulatedDisk::new(seed, Faults::none());
        run(&whole, seed);
        let cut = 1 + seed % whole.operations();
        let disk = SimulatedDisk::new(seed, Faults::none());
        disk.power_cut_at(cut);
        run(&disk, seed);
        assert_eq!(disk.operations(), cut, "nothing is done without power");
        for outcome in [
            disk.list("").map(drop),
            disk.exists("a").map(drop),
            disk.open("a", Mode::Create).map(drop),
            disk.sync_dir(""),
            disk.rename("a", "b"),
            disk.remove("a"),
            disk.create_dir("x"),
            disk.lock("LOCK").map(drop),
        ] {
            let code = Errno::NODEV.raw_os_error();
            assert!(matches!(outcome, Err(Error::Io { code: c, .. }) if c == code), "seed {seed}");
        }
        everything(&disk.crash(seed));
    }
}

/// Every file of every image agrees with the syncs: each byte is one that its place had at the last
/// sync or at some moment after it, or zero.
#[test]
fn every_sector_of_an_image_is_of_some_moment_since_its_sync() {
    for seed in 0..RUNS / 4 {
        let disk = SimulatedDisk::new(seed, Faults::none());
        let mut dice = Dice::new(seed, "operations");
        let file = disk.open("a", Mode::CreateNew).unwrap();
        disk.sync_dir("").unwrap();
        let mut moments = vec![Vec::new()];
        for _ in 0..60 {
            let fill = vec![dice.below(256) as u8; 1 + dice.below(3_000) as usize];
            match dice.below(10) {
                0..=6 => file.write_at(dice.below(10_000), &fill).unwrap(),
                7 => file.set_len(dice.below(12_000)).unwrap(),
                8 => file.punch(dice.below(12_000), 2_000).unwrap(),
                _ => {
                    file.sync(SyncKind::Data).unwrap();
                    moments.clear();
                }
            }
            moments.push(content(&*disk, "a").unwrap());
            for image in 0..8 {
                let found = content(&*disk.crash(image), "a").unwrap();
                check_sectors(&found, &moments, (seed, image));
            }
        }
    }
}

fn check_sectors(found: &[u8], moments: &[Vec<u8>], context: (u64, u64)) {
    assert!(moments.iter().any(|moment| moment.len() == found.len()), "length of {context:?}");
    for (number, sector) in found.chunks(512).enumerate() {
        // Each byte at its place: a cut may leave a sector's head and zero its tail.
        let fits = |byte: usize, value: u8| {
            value == 0 || moments.iter().any(|m| m.get(number * 512 + byte).copied() == Some(value))
        };
        let good = sector.iter().enumerate().all(|(byte, &value)| fits(byte, value));
        assert!(good, "sector {number} of {context:?}");
        if moments.len() == 1 {
            assert_eq!(sector, &moments[0][number * 512..][..sector.len()], "{context:?}");
        }
    }
}
