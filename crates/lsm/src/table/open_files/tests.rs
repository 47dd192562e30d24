//! How many files stay open, and which.

use super::*;

/// The store of a device with so many tables.
fn store(process: &Arc<Process>, tables: u64) -> Arc<OpenFiles> {
    let device = device::memory();
    for number in 0..tables {
        device.open(&number.to_string(), Mode::CreateNew).expect("memory takes it");
    }
    OpenFiles::on(device, process)
}

fn get(files: &OpenFiles, numbers: impl IntoIterator<Item = u64>) {
    for number in numbers {
        files.get(number, &number.to_string()).expect("it is there");
    }
}

fn kept(files: &OpenFiles) -> Vec<u64> {
    let mut kept: Vec<u64> = files.held.lock().files.keys().copied().collect();
    kept.sort_unstable();
    kept
}

#[test]
fn the_files_used_last_stay_open() {
    let files = store(&Process::of(3), 5);
    for number in [0, 1, 2, 0, 3, 4] {
        get(&files, [number]);
        assert!(kept(&files).len() <= 3);
    }
    assert_eq!(kept(&files), [0, 3, 4]);
    files.forget(3);
    assert_eq!(kept(&files), [0, 4]);
}

#[test]
fn what_is_not_there_is_not_kept() {
    let files = store(&Process::of(3), 0);
    assert!(matches!(files.get(7, "7"), Err(device::Error::NotFound { .. })));
    assert_eq!(kept(&files), []);
}

/// However many stores there are, whoever needs a descriptor finds one.
#[test]
fn all_stores_of_a_process_share_what_it_keeps_open() {
    let process = Process::of(6);
    let first = store(&process, 9);
    get(&first, 0..9);
    assert_eq!(kept(&first), [3, 4, 5, 6, 7, 8]);
    let second = store(&process, 9);
    assert_eq!(kept(&first), [6, 7, 8], "it is not asked for anything");
    get(&second, 0..9);
    get(&first, 0..9);
    assert_eq!((kept(&first).len(), kept(&second).len()), (3, 3));
    let third = store(&process, 9);
    assert_eq!((kept(&first).len(), kept(&second).len()), (2, 2));
    process.give_back();
    assert_eq!((kept(&first).len(), kept(&second).len()), (0, 0), "they are needed");
    drop((second, third));
    get(&first, 0..9);
    assert_eq!(kept(&first).len(), 6, "the others gave it back");
}

/// A store that is closed may be held by a cursor for long.
#[test]
fn a_closed_store_keeps_nothing_open() {
    let process = Process::of(6);
    let (closed, open) = (store(&process, 9), store(&process, 9));
    get(&closed, 0..9);
    closed.close();
    assert_eq!(kept(&closed), []);
    get(&closed, 0..9);
    let later = store(&process, 9);
    get(&closed, 0..9);
    assert_eq!(kept(&closed), []);
    drop(later);
    get(&open, 0..9);
    assert_eq!(kept(&open).len(), 6, "it has the other one's share");
}
