//! Segments that a crash has lost: their numbers do not come again, and their bytes go.

use std::sync::Arc;

use device::{Device, Faults, Mode, SimulatedDisk};
use engine::NoJournal;

use super::stores::{Bench, key, small};

/// Bytes of a value of the first life: they fill many blocks.
const BYTES: usize = 5000;

fn on(disk: &Arc<SimulatedDisk>) -> Bench {
    let device: Arc<dyn Device> = Arc::<SimulatedDisk>::clone(disk);
    Bench::with(device, Arc::new(NoJournal), small()).expect("it opens")
}

/// Returns the numbers of all segments.
fn numbers(bench: &Bench) -> Vec<u64> {
    let shared = &bench.store.shared;
    // Each life of a store begins with the next million.
    let numbers = (0..4).flat_map(|life| (life << 20)..(life << 20) + 1000);
    numbers.filter(|number| shared.values.segment(*number).is_some()).collect()
}

/// Returns the state after a crash that has lost the segment table's edits, and not the bytes of
/// the segments, and the numbers of these.
fn after_a_crash() -> (Arc<SimulatedDisk>, Vec<u64>) {
    let disk = SimulatedDisk::new(1, Faults::none());
    let bench = on(&disk);
    (0..10).for_each(|number| _ = bench.put(&key(number), &[7; BYTES]));
    bench.write_buffers().expect("the disk takes it");
    bench.store.shared.values.volumes.sync().expect("the disk syncs");
    let lost = numbers(&bench);
    assert!(!lost.is_empty());
    (disk.crash(1), lost)
}

/// Otherwise old bytes with valid checksums could be records of a new segment.
#[test]
fn the_numbers_of_lost_segments_do_not_come_again() {
    let (disk, lost) = after_a_crash();
    let bench = on(&disk);
    assert_eq!(numbers(&bench), []);
    bench.put(&key(1), &[9; 300]);
    bench.write_buffers().expect("the disk takes it");
    let later = numbers(&bench);
    assert!(later.iter().all(|number| number > lost.last().unwrap_or(&0)), "{later:?} {lost:?}");
    bench.end_sound();
}

/// The room of places that no segment has returns to the device.
#[test]
fn the_bytes_of_lost_segments_go() {
    let (disk, _) = after_a_crash();
    let old_bytes = || {
        let files = disk.list("").expect("the disk lists").into_iter();
        let volumes = files.filter(|file| file.name.starts_with("volume-"));
        let count = volumes.map(|volume| {
            let file = disk.open(&volume.name, Mode::Read).expect("it is there");
            let mut bytes = vec![0; file.len().expect("it has a length") as usize];
            file.read_at(0, &mut bytes).expect("the disk reads");
            bytes.windows(64).filter(|window| **window == [7; 64]).count()
        });
        count.sum::<usize>()
    };
    assert!(old_bytes() > BYTES);
    let bench = on(&disk);
    bench.put(&key(1), &[9; 300]);
    bench.write_buffers().expect("the disk takes it");
    assert_eq!(old_bytes(), 0);
    bench.end_sound();
}
