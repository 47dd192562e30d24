//! Tests of the superblock: commits, crashes at every operation, damage to every byte.

use std::fmt::Write as _;

use codec::Corruption;
use device::{Device, Faults, Mode, SimulatedDisk};

use super::Superblock;
use crate::error::Error;

const KIND: [u8; 8] = *b"example\0";
const NAME: &str = "superblock";

fn bytes(device: &dyn Device) -> Vec<u8> {
    let file = device.open(NAME, Mode::Read).expect("opens");
    let mut bytes = vec![0; file.len().expect("has a length") as usize];
    file.read_at(0, &mut bytes).expect("reads");
    bytes
}

#[test]
fn what_was_committed_last_is_found_again() {
    let device = device::memory();
    let mut superblock = Superblock::create(&*device, NAME, KIND, b"").expect("makes it");
    assert_eq!((superblock.payload(), superblock.generation()), (&b""[..], 1));
    for round in 2..10_u8 {
        let payload = vec![round; usize::from(round) * 54];
        superblock.commit(&*device, &payload).expect("commits");
        let opened = Superblock::open(&*device, NAME, KIND).expect("opens");
        assert_eq!((opened.payload(), opened.generation()), (&*payload, u64::from(round)));
    }
    let longest = vec![1; Superblock::PAYLOAD_BYTES_MAX];
    superblock.commit(&*device, &longest).expect("commits");
    assert_eq!(Superblock::open(&*device, NAME, KIND).expect("opens").payload(), longest);
}

#[test]
fn another_kind_is_refused_by_name() {
    let device = device::memory();
    Superblock::create(&*device, NAME, KIND, b"payload").expect("makes it");
    let Err(Error::Corruption(damage)) = Superblock::open(&*device, NAME, *b"other\0\0\0") else {
        panic!("another store's superblock must not open")
    };
    assert!(damage.what.contains("example") && damage.what.contains("other"), "{damage}");
}

#[test]
fn a_power_cut_leaves_none_the_old_or_the_new() {
    let disk = SimulatedDisk::with_alignment(5, Faults::none(), 4096);
    disk.keep_history();
    let mut superblock = Superblock::create(&*disk, NAME, KIND, b"1").expect("makes it");
    let mut durable_from = vec![disk.operations()];
    for round in ["2", "3", "4"] {
        superblock.commit(&*disk, round.as_bytes()).expect("commits");
        durable_from.push(disk.operations());
    }
    let history = disk.history();
    let mut replay = history.replay();
    for operation in 0..=history.last_operation() {
        replay.advance_to(operation);
        let acknowledged = durable_from.iter().filter(|from| **from <= operation).count() as u64;
        for seed in 0..50 {
            let image = replay.crash(seed);
            let found = if image.exists(NAME).expect("reads") {
                Superblock::open(&*image, NAME, KIND).expect("what is there is whole").generation()
            } else {
                0
            };
            let possible = acknowledged..=acknowledged + 1;
            assert!(possible.contains(&found), "operation {operation}, image {seed}: {found}");
            if found == 0 {
                Superblock::create(&*image, NAME, KIND, b"again").expect("a new attempt succeeds");
            }
        }
    }
}

/// The sync of a commit fails, and the process is started again. The disk may not have the content
/// that it then reads; once it has made it durable, every power cut finds it.
#[test]
fn what_was_made_durable_survives_the_failed_sync_before_it() {
    for seed in 0..40 {
        let disk = SimulatedDisk::new(seed, Faults::none());
        let mut superblock = Superblock::create(&*disk, NAME, KIND, b"old").unwrap();
        disk.set_faults(Faults { sync_error_ppm: 1_000_000, ..Faults::none() });
        superblock.commit(&*disk, b"new").unwrap_err();
        drop(superblock);
        disk.set_faults(Faults::none());
        let mut reopened = Superblock::open(&*disk, NAME, KIND).unwrap();
        let read = reopened.payload().to_vec();
        reopened.make_durable_in(&*disk).unwrap();
        for image in 0..20 {
            let found = Superblock::open(&*disk.crash(image), NAME, KIND).unwrap();
            assert_eq!(found.payload(), read, "seed {seed}, image {image}");
        }
    }
}

#[test]
fn every_flipped_bit_is_noticed_where_it_is() {
    let device = device::memory();
    let mut superblock = Superblock::create(&*device, NAME, KIND, b"one").expect("makes it");
    superblock.commit(&*device, b"second").expect("commits");
    let whole = bytes(&*device);
    assert_eq!(Superblock::decode(&whole, KIND), Ok((b"second".to_vec(), 2)));
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        let damage = Superblock::decode(&damaged, KIND).expect_err("damage is noticed");
        assert_eq!(damage.offset / 4096, at as u64 / 4096, "{damage} for byte {at}");
    }
    for len in (0..whole.len()).step_by(61) {
        assert!(Superblock::decode(&whole[..len], KIND).is_err(), "cut to {len} bytes");
    }
}

#[test]
fn slots_that_do_not_follow_each_other_are_damage() {
    // A disk that lost a commit's write, twice: the slots are valid, and three apart.
    let device = device::memory();
    let mut superblock = Superblock::create(&*device, NAME, KIND, b"1").expect("makes it");
    superblock.commit(&*device, b"2").expect("commits");
    let old = bytes(&*device)[4096..8192].to_vec();
    superblock.commit(&*device, b"3").expect("commits");
    superblock.commit(&*device, b"4").expect("commits");
    superblock.commit(&*device, b"5").expect("commits");
    device.open(NAME, Mode::Write).expect("opens").write_at(4096, &old).expect("writes");
    let Err(Error::Corruption(Corruption { what, .. })) = Superblock::open(&*device, NAME, KIND)
    else {
        panic!("a state that never was must not open")
    };
    assert!(what.contains("follow"), "{what}");
}

#[test]
fn the_page_s_example_is_what_is_written() {
    let device = device::memory();
    let mut superblock = Superblock::create(&*device, NAME, KIND, b"one").expect("makes it");
    superblock.commit(&*device, b"second").expect("commits");
    let written = bytes(&*device);
    let mut lines = String::new();
    for at in [0, 4096, 4112, 8192, 8208] {
        let hex: Vec<_> = written[at..at + 16].iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(lines, "{at:>6}  {}", hex.join(" ")).expect("strings take all");
    }
    let page = include_str!("../../../../../docs/formats/superblock.md");
    assert!(page.contains(&lines), "the page should show:\n{lines}");
}
