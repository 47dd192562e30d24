//! One suite that every device must pass, and the devices it is run against.
//!
//! Each check is a function of a fresh device, so that a new device gets all of them by one line.
//! The feature `testing` exports the suite for devices of other crates.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test: what is missing fails it"
)]
#![expect(missing_docs, reason = "the name of a check says what it checks")]

pub mod bytes;
pub mod names;
pub mod queues;

use std::sync::Arc;

use crate::{Device, File, Mode};

/// Bytes of the checks' writes: a multiple of every device's alignment.
pub const BLOCK: usize = 4096;

/// Runs every check against the device that `$make` makes. `$make` returns the device and
/// everything that must live as long as it.
#[macro_export]
macro_rules! device_suite {
    ($name:ident, $make:expr) => {
        mod $name {
            $crate::device_suite!(@checks $make, names: [
                a_bad_name_is_refused, create_new_refuses_an_old_name, missing_names_are_missing,
                directories_are_made_with_their_parents, lists_are_sorted_and_typed,
                rename_replaces_a_file, rename_moves_between_directories,
                rename_of_a_directory_takes_all_along, a_link_shares_the_bytes,
                a_link_replaces_nothing, a_removed_file_stays_readable,
                remove_dir_removes_all, sync_dir_counts_and_wants_a_directory,
                a_lock_excludes_a_second_handle, a_subdevice_is_a_directory_of_its_device,
                a_directory_is_no_file, space_is_reported,
            ]);
            $crate::device_suite!(@checks $make, bytes: [
                what_was_written_is_read, reads_past_the_end_fail, writes_past_the_end_leave_zeros,
                unaligned_reads_are_served, writes_are_whole_or_refused_by_alignment,
                set_len_cuts_and_extends_with_zeros, allocate_extends_and_keeps,
                punch_zeroes_and_keeps_the_length, a_read_only_file_refuses_writes,
                two_handles_see_one_file, threads_share_a_file, everything_is_counted,
                empty_transfers_succeed,
            ]);
            $crate::device_suite!(@checks $make, queues: [
                a_queue_moves_bytes, a_full_queue_hands_the_request_back,
                errors_come_with_their_buffers, wait_returns_as_many_as_asked,
                a_sync_follows_its_write, dropping_a_queue_does_its_work,
                long_transfers_are_whole, a_read_across_the_end_fails,
                impossible_offsets_are_refused, many_requests_keep_their_tags, a_bell_tells_of_every_completion,
                a_queue_takes_files_of_any_device,
            ]);
        }
    };
    (@checks $make:expr, $module:ident: [$($check:ident),* $(,)?]) => {$(
        #[test]
        fn $check() {
            let (device, _keep) = $make();
            $crate::suite::$module::$check(&device);
        }
    )*};
}

/// A new file of `blocks` blocks, each filled with its own number.
pub fn numbered(device: &Arc<dyn Device>, name: &str, blocks: u8) -> Arc<dyn File> {
    let file = device.open(name, Mode::CreateNew).unwrap();
    for block in 0..blocks {
        let bytes = crate::Buffer::copy_of(&[block; BLOCK]);
        file.write_at(u64::from(block) * BLOCK as u64, &bytes).unwrap();
    }
    file
}

/// `len` bytes of `file` from `offset`.
pub fn read(file: &Arc<dyn File>, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0xee; len];
    file.read_at(offset, &mut bytes).unwrap();
    bytes
}
