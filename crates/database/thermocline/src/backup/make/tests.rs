//! Files that have one checksum and are two.

use std::collections::HashMap;

use super::*;

const OLD: &str = "backup-000001";
const NEW: &str = "backup-000002.unfinished";
const NAME: &str = "file";

/// Different bytes with one sum, which has four: among some hundred thousand numbers two are alike.
fn alike() -> [[u8; 8]; 2] {
    let mut seen = HashMap::new();
    for number in 0_u64.. {
        let bytes = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
        if let Some(other) = seen.insert(codec::chain(0, &bytes), bytes) {
            return [other, bytes];
        }
    }
    unreachable!("there are more numbers than sums")
}

#[test]
fn files_of_one_checksum_are_not_taken_for_one_another() {
    let backups = Backups::open_on(device::memory(), "backups").unwrap();
    let device = &*backups.device;
    let files = [OLD, NEW].into_iter().zip(alike());
    let [old, new] = [0, 1].map(|at| {
        let (dir, bytes) = files.clone().nth(at).unwrap();
        device.create_dir(dir).unwrap();
        let file = device.open(&files::under(dir, NAME), Mode::CreateNew).unwrap();
        file.write_at(0, &bytes).unwrap();
        files::sum(device, dir, NAME, &Progress::default()).unwrap()
    });
    assert_eq!(old, new, "the sums are the same");
    let manifest = Manifest {
        made_at_ms: 0,
        newest: codec::SeqNo::ZERO,
        shared_bytes: 0,
        catalog: Vec::new(),
        files: vec![old],
    };
    let before = Whole { dir: OLD.to_owned(), number: 1, manifest };
    assert!(before.manifest.has(&new));
    assert_eq!(backups.share(&before, NEW, &new), Ok(false));
    let mut found = [0; 8];
    let file = device.open(&files::under(NEW, NAME), Mode::Read).unwrap();
    file.read_at(0, &mut found).unwrap();
    assert_eq!(found, alike()[1]);
}
