//! S4: each damaged byte is found by the read that needs it, and by `verify`.

use std::sync::Arc;

use device::{Device, Mode};

use super::{RANGE, bytes, log, open, table, write_table};
use crate::{Epoch, Error, FileName};

fn flip(device: &Arc<dyn Device>, name: &FileName, at: u64) {
    let file = device.open(&name.path(), Mode::Write).expect("it is there");
    let mut byte = [0];
    file.read_at(at, &mut byte).expect("memory reads");
    file.write_at(at, &[byte.first().map_or(0, |byte| byte ^ 0x10)]).expect("memory takes it");
}

fn is_damage<T: std::fmt::Debug>(read: crate::Result<T>) -> bool {
    matches!(read, Err(Error::Damaged(_)))
}

#[test]
fn s4_damage_of_a_table_is_reported_with_its_place() {
    let content = bytes(1, 20_000);
    let length = 4096 + 20_480 + 5 * 4 + 16;
    for at in (0..length).step_by(97) {
        let device = device::memory();
        write_table(&open(&device, 1), table(1), 1, &content);
        flip(&device, &table(1), at);
        let stoc = open(&device, 2);
        // The rest of the first block has no content.
        let is_in_rest = (75..4096).contains(&at);
        let unit = at.checked_sub(4096).map(|at| at / 4096).filter(|unit| *unit < 5);
        assert_eq!(is_damage(stoc.verify(&table(1))), !is_in_rest, "byte {at}");
        for number in 0..4_u64 {
            let read = stoc.read(&table(1), number * 4096 + 10, 100);
            let expected = !is_in_rest && unit.is_none_or(|unit| unit == number);
            assert_eq!(is_damage(read), expected, "byte {at}, unit {number}");
        }
    }
}

/// A check finds the same damage as an opening, and changes nothing.
#[test]
fn a_check_finds_each_damaged_file_and_changes_nothing() {
    let device = device::memory();
    assert_eq!(crate::check(&device), Ok(None));
    let stoc = open(&device, 1);
    let content = bytes(1, 20_000);
    write_table(&stoc, table(1), 1, &content);
    write_table(&stoc, table(2), 1, &content);
    stoc.create_log(log(3), Epoch(1)).expect("memory takes it");
    for part in content.chunks(1_000) {
        let length = stoc.fence(RANGE, Epoch(1)).expect("memory takes it").logs;
        let length = length.first().and_then(|(_, length)| *length).unwrap_or_default();
        stoc.append(&log(3), Epoch(1), length, part).expect("memory takes it");
    }
    let identity = stoc.identity();
    drop(stoc);
    let whole = crate::check(&device).expect("memory reads").expect("there is a StoC");
    assert_eq!((whole.identity, whole.files, whole.bytes), (identity, 3, 60_000));
    assert_eq!(whole.damage, []);
    let before = crate::check(&device);
    flip(&device, &table(2), 5_000);
    flip(&device, &log(3), 6_000);
    let found = crate::check(&device).expect("memory reads").expect("there is a StoC");
    assert_eq!((found.files, found.damage.len()), (1, 2), "{found:?}");
    flip(&device, &table(2), 5_000);
    flip(&device, &log(3), 6_000);
    assert_eq!(crate::check(&device), before);
}

/// A log that lost bytes which were synced is damaged, and does not count for a fence. Without
/// later appends that name them as synced, the log is cut.
#[test]
fn s3_a_log_that_lost_synced_bytes_is_damaged() {
    for at in [4096 + 3, 4096 + 20, 4096 + 40, 4096 + 140] {
        let device = device::memory();
        let stoc = open(&device, 1);
        stoc.create_log(log(1), Epoch(1)).expect("memory takes it");
        for number in 0..4 {
            stoc.append(&log(1), Epoch(1), number * 100, &bytes(number, 100)).expect("takes it");
        }
        drop(stoc);
        flip(&device, &log(1), at);
        let stoc = open(&device, 2);
        assert!(is_damage(stoc.read(&log(1), 0, 1)), "byte {at}");
        let fenced = stoc.fence(super::RANGE, Epoch(2)).expect("memory takes it");
        assert_eq!(fenced.logs, [(log(1), None)], "byte {at}");
        assert_eq!(stoc.stats().map(|stats| stats.damaged_files), Ok(1));
    }
}

#[test]
fn s3_the_last_append_is_cut_if_it_is_not_whole() {
    for at in [4096 + 3 * 136 + 2, 4096 + 3 * 136 + 30, 4096 + 3 * 136 + 131] {
        let device = device::memory();
        let stoc = open(&device, 1);
        stoc.create_log(log(1), Epoch(1)).expect("memory takes it");
        for number in 0..4 {
            stoc.append(&log(1), Epoch(1), number * 100, &bytes(number, 100)).expect("takes it");
        }
        drop(stoc);
        flip(&device, &log(1), at);
        let stoc = open(&device, 2);
        let fenced = stoc.fence(super::RANGE, Epoch(2)).expect("memory takes it");
        assert_eq!(fenced.logs, [(log(1), Some(300))], "byte {at}");
        stoc.append(&log(1), Epoch(2), 300, b"again").expect("memory takes it");
        drop(stoc);
        assert_eq!(open(&device, 3).read(&log(1), 300, 5).as_deref(), Ok(&b"again"[..]));
    }
}

/// Bytes that are damaged while the file is open.
#[test]
fn s4_damage_of_an_open_log_is_found_by_its_reader() {
    let device = device::memory();
    let stoc = open(&device, 1);
    stoc.create_log(log(1), Epoch(1)).expect("memory takes it");
    for number in 0..4 {
        stoc.append(&log(1), Epoch(1), number * 100, &bytes(number, 100)).expect("takes it");
    }
    flip(&device, &log(1), 4096 + 136 + 50);
    assert_eq!(stoc.read(&log(1), 0, 100), Ok(bytes(0, 100)));
    assert!(is_damage(stoc.read(&log(1), 100, 1)));
    assert!(is_damage(stoc.read(&log(1), 50, 100)));
    assert_eq!(stoc.read(&log(1), 200, 100), Ok(bytes(2, 100)));
}

/// A file under the name of another one, or of another StoC.
#[test]
fn a_file_in_a_wrong_place_is_damaged() {
    let device = device::memory();
    write_table(&open(&device, 1), table(1), 1, b"content");
    device.link(&table(1).path(), &table(2).path()).expect("memory links");
    let stoc = open(&device, 2);
    assert!(is_damage(stoc.read(&table(2), 0, 7)));
    assert_eq!(stoc.read(&table(1), 0, 7).as_deref(), Ok(&b"content"[..]));
}
