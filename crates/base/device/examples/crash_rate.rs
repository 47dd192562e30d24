//! Measures how many post-crash images of a log a second the simulated disk hands out.
//!
//! ```text
//! cargo run --release -p thermocline-device --example crash_rate -- [IMAGES]
//! ```
//!
//! A log of records of 100 bytes, synced after every tenth, in files of 64 KiB, is written once
//! with its history kept. Then it is crashed after every operation, and of every image the names
//! are listed and the newest file is read whole: the least work of a recovery.
#![expect(clippy::unwrap_used, reason = "a measurement that goes wrong stops")]

use environment::Environment;
use thermocline_device::{Device, Faults, Mode, SimulatedDisk, SyncKind};

const RECORD: [u8; 100] = [7; 100];
const RECORDS: u64 = 3_000;
const FILE_BYTES: u64 = 64 << 10;

fn write_log(disk: &SimulatedDisk) {
    let (mut number, mut offset) = (0, FILE_BYTES);
    let mut file = None;
    for record in 0..RECORDS {
        if offset + RECORD.len() as u64 > FILE_BYTES {
            number += 1;
            offset = 0;
            let made = disk.open(&format!("{number:06}.log"), Mode::CreateNew).unwrap();
            made.allocate(0, FILE_BYTES).unwrap();
            made.sync(SyncKind::All).unwrap();
            disk.sync_dir("").unwrap();
            file = Some(made);
        }
        let file = file.as_ref().unwrap();
        file.write_at(offset, &RECORD).unwrap();
        offset += RECORD.len() as u64;
        if record % 10 == 9 {
            file.sync(SyncKind::Data).unwrap();
        }
    }
}

fn main() {
    let images: u64 = std::env::args().nth(1).map_or(100_000, |text| text.parse().unwrap());
    let env = Environment::real();
    let disk = SimulatedDisk::new(1, Faults::none());
    disk.keep_history();
    let start = env.now();
    write_log(&disk);
    let run = (env.now() - start).as_secs_f64();

    let history = disk.history();
    let each = images.div_ceil(history.last_operation());
    let mut replay = history.replay();
    let (mut done, mut bytes) = (0_u64, 0_u64);
    let mut tail = vec![0; FILE_BYTES as usize];
    let start = env.now();
    for operation in 1..=history.last_operation() {
        replay.advance_to(operation);
        for seed in 0..each {
            let image = replay.crash(seed);
            if let Some(newest) = image.list("").unwrap().last() {
                let file = image.open(&newest.name, Mode::Read).unwrap();
                let len = usize::try_from(file.len().unwrap()).unwrap();
                file.read_at(0, &mut tail[..len]).unwrap();
                bytes += len as u64;
            }
            done += 1;
        }
    }
    let seconds = (env.now() - start).as_secs_f64();
    println!("run: {} operations in {run:.3} s", history.last_operation());
    println!("{done} images in {seconds:.2} s: {:.0} a second", done as f64 / seconds);
    println!("{:.0} MiB read of them", bytes as f64 / f64::from(1 << 20));
}
