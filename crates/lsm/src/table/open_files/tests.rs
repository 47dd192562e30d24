//! How many files stay open, and which.

use super::*;

#[test]
fn the_files_used_last_stay_open() {
    let device = device::memory();
    for number in 0..5 {
        device.open(&number.to_string(), Mode::CreateNew).expect("memory takes it");
    }
    let files = OpenFiles::on(device, 3);
    let get = |number: u64| files.get(number, &number.to_string()).expect("it is there");
    for number in [0, 1, 2, 0, 3, 4] {
        get(number);
        assert!(files.held.lock().files.len() <= 3);
    }
    let mut kept: Vec<u64> = files.held.lock().files.keys().copied().collect();
    kept.sort_unstable();
    assert_eq!(kept, [0, 3, 4]);
    files.forget(3);
    assert_eq!(files.held.lock().files.len(), 2);
}

#[test]
fn what_is_not_there_is_not_kept() {
    let files = OpenFiles::on(device::memory(), 3);
    assert!(matches!(files.get(7, "7"), Err(Error::NotFound { .. })));
    assert!(files.held.lock().files.is_empty());
}
