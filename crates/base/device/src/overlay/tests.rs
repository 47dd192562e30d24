//! The overlay against the shared suite, over an empty device, and over one that holds something.

use std::sync::Arc;

use crate::{Device, Mode, SyncKind, overlay};

fn over_nothing() -> (Arc<dyn Device>, ()) {
    (overlay(crate::memory()), ())
}

// All of the suite but the counters: reads are counted beneath, writes and syncs are not.
mod suite {
    use super::over_nothing;

    crate::device_suite!(@checks over_nothing, names: [
        a_bad_name_is_refused, create_new_refuses_an_old_name, missing_names_are_missing,
        directories_are_made_with_their_parents, lists_are_sorted_and_typed,
        rename_replaces_a_file, rename_moves_between_directories,
        rename_of_a_directory_takes_all_along, a_link_shares_the_bytes,
        a_link_replaces_nothing, a_removed_file_stays_readable,
        remove_dir_removes_all,
        a_lock_excludes_a_second_handle,
        a_directory_is_no_file, space_is_reported,
    ]);
    crate::device_suite!(@checks over_nothing, bytes: [
        what_was_written_is_read, reads_past_the_end_fail, writes_past_the_end_leave_zeros,
        unaligned_reads_are_served, writes_are_whole_or_refused_by_alignment,
        set_len_cuts_and_extends_with_zeros, allocate_extends_and_keeps,
        punch_zeroes_and_keeps_the_length, a_read_only_file_refuses_writes,
        two_handles_see_one_file, threads_share_a_file, empty_transfers_succeed,
    ]);
    crate::device_suite!(@checks over_nothing, queues: [
        a_queue_moves_bytes, a_full_queue_hands_the_request_back,
        errors_come_with_their_buffers, wait_returns_as_many_as_asked,
        dropping_a_queue_does_its_work,
        long_transfers_are_whole, a_read_across_the_end_fails,
        impossible_offsets_are_refused, many_requests_keep_their_tags,
        a_bell_tells_of_every_completion, a_queue_takes_files_of_any_device,
    ]);
}

const LARGE: usize = super::COPIED_BYTES_MAX as usize + 1;

/// `dir/small`, `dir/large`, `dir/below/file`, `top`.
fn base() -> Arc<dyn Device> {
    let base = crate::memory();
    base.create_dir("dir/below").unwrap();
    for (name, len) in [("dir/small", 5), ("dir/large", LARGE), ("dir/below/file", 1), ("top", 3)] {
        base.open(name, Mode::CreateNew).unwrap().write_at(0, &vec![7; len]).unwrap();
    }
    base
}

fn bytes(device: &dyn Device, name: &str) -> Vec<u8> {
    let file = device.open(name, Mode::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

/// Every file with its bytes.
fn all(device: &dyn Device, dir: &str) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in device.list(dir).unwrap() {
        let name = crate::join(dir, &entry.name);
        if entry.is_dir {
            found.extend(all(device, &name));
        } else {
            found.push((name.clone(), bytes(device, &name)));
        }
    }
    found
}

#[test]
fn what_is_changed_shows_here_and_not_beneath() {
    let base = base();
    let before = all(&*base, "");
    let shown = overlay(Arc::clone(&base));
    assert_eq!(all(&*shown, ""), before);
    shown.open("dir/small", Mode::Write).unwrap().write_at(1, b"x").unwrap();
    assert_eq!(bytes(&*shown, "dir/small"), [7, b'x', 7, 7, 7]);
    shown.rename("dir/small", "top").unwrap();
    assert!(!shown.exists("dir/small").unwrap());
    assert_eq!(bytes(&*shown, "top").len(), 5);
    let dir = shown.subdevice("dir").unwrap();
    assert_eq!(dir.open("large", Mode::Read).unwrap().name(), "large");
    dir.remove("large").unwrap();
    dir.remove_dir("below").unwrap();
    assert!(dir.list("").unwrap().is_empty() && !shown.exists("dir/below/file").unwrap());
    // A directory of that name is a new one.
    dir.create_dir("below").unwrap();
    assert!(dir.list("below").unwrap().is_empty());
    let file = dir.open("below/file", Mode::CreateNew).unwrap();
    file.write_at(0, b"new").unwrap();
    file.sync(SyncKind::All).unwrap();
    assert_eq!(file.name(), "below/file");
    let found = all(&*shown, "");
    let found: Vec<_> = found.iter().map(|(name, bytes)| (name.as_str(), bytes.len())).collect();
    assert_eq!(found, [("dir/below/file", 3), ("top", 5)]);
    assert_eq!(all(&*base, ""), before, "beneath");
}

#[test]
fn of_what_is_not_copied_whole_blocks_are_changed() {
    let base = base();
    let before = all(&*base, "");
    let shown = overlay(Arc::clone(&base));
    let mut expected = vec![7; LARGE];
    let file = shown.open("dir/large", Mode::Write).unwrap();
    let dir = shown.subdevice("dir").unwrap();
    let check = |expected: &[u8]| {
        assert!(bytes(&*dir, "large") == expected, "by another handle");
        for (from, len) in [(0, 1), (4000, 5000), (expected.len() - 10, 10)] {
            let mut into = vec![0; len];
            file.read_at(from as u64, &mut into).unwrap();
            assert!(into == expected[from..from + len], "{len} bytes at {from}");
        }
        let mut byte = [0];
        assert!(file.read_at(expected.len() as u64, &mut byte).is_err());
    };
    for (at, len) in [(4090, 20), (0, 3), (8192, 4096), (LARGE - 1, 1), (LARGE + 9000, 10)] {
        file.write_at(at as u64, &vec![at as u8; len]).unwrap();
        expected.resize(expected.len().max(at + len), 0);
        expected[at..at + len].fill(at as u8);
        check(&expected);
    }
    file.punch(4000, 5000).unwrap();
    expected[4000..9000].fill(0);
    check(&expected);
    // Cut to the middle of a block that is changed, then of one that is not, and longer again.
    for len in [LARGE + 9002, 20_005] {
        file.set_len(len as u64).unwrap();
        expected.truncate(len);
        check(&expected);
        file.set_len(len as u64 + 10_000).unwrap();
        expected.resize(len + 10_000, 0);
        check(&expected);
    }
    file.allocate(0, 50_000).unwrap();
    expected.resize(50_000, 0);
    check(&expected);

    let top = shown.open_blocks("top", Mode::Write).unwrap();
    top.write_at(1, b"x").unwrap();
    assert_eq!(bytes(&*shown, "top"), [7, b'x', 7]);
    assert!(shown.open("top", Mode::Read).unwrap().write_at(1, b"x").is_err());
    assert!(shown.rename("dir/large", "elsewhere").is_err());
    assert!(shown.rename("dir", "elsewhere").is_err());
    assert!(shown.remove("dir").is_err());
    dir.remove("large").unwrap();
    dir.open("large", Mode::CreateNew).unwrap().write_at(0, b"new").unwrap();
    assert_eq!(bytes(&*shown, "dir/large"), b"new");
    assert_eq!(all(&*base, ""), before);
}
