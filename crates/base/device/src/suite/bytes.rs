//! Requirements for the bytes of a file on every device.

use std::sync::Arc;

use environment::Environment;

use super::{BLOCK, numbered, read};
use crate::{Buffer, Device, Error, File, Mode, SyncKind};

const LEN: u64 = BLOCK as u64;

fn block(fill: u8) -> Buffer {
    Buffer::copy_of(&[fill; BLOCK])
}

#[track_caller]
fn ends_before<T: std::fmt::Debug>(outcome: crate::Result<T>, end: u64) {
    let name = "a".to_owned();
    assert_eq!(outcome.unwrap_err(), Error::UnexpectedEnd { name, end });
}

pub fn what_was_written_is_read(device: &Arc<dyn Device>) {
    let file = numbered(device, "a", 4);
    file.sync(SyncKind::Data).unwrap();
    file.sync(SyncKind::All).unwrap();
    assert_eq!(file.len().unwrap(), 4 * LEN);
    assert!(!file.is_empty().unwrap());
    let again = device.open("a", Mode::Read).unwrap();
    for number in 0..4 {
        assert_eq!(read(&again, u64::from(number) * LEN, BLOCK), vec![number; BLOCK]);
    }
    let mut buffer = Buffer::zeroed(2 * BLOCK);
    again.read_at(LEN, &mut buffer).unwrap();
    assert_eq!((buffer[0], buffer[BLOCK]), (1, 2));
}

pub fn reads_past_the_end_fail(device: &Arc<dyn Device>) {
    let file = numbered(device, "a", 2);
    assert_eq!(read(&file, 2 * LEN - 1, 1), [1]);
    ends_before(file.read_at(2 * LEN, &mut [0; 1]), 2 * LEN + 1);
    ends_before(file.read_at(2 * LEN - 1, &mut [0; 2]), 2 * LEN + 1);
    ends_before(file.read_at(LEN, &mut Buffer::zeroed(2 * BLOCK)), 3 * LEN);
    ends_before(file.read_at(100 * LEN, &mut Buffer::zeroed(BLOCK)), 101 * LEN);
    let empty = device.open("b", Mode::CreateNew).unwrap();
    assert!(empty.is_empty().unwrap());
    assert!(empty.read_at(0, &mut [0]).is_err());
}

pub fn writes_past_the_end_leave_zeros(device: &Arc<dyn Device>) {
    let file = device.open("a", Mode::CreateNew).unwrap();
    file.write_at(5 * LEN, &block(9)).unwrap();
    assert_eq!(file.len().unwrap(), 6 * LEN);
    assert_eq!(read(&file, 0, 5 * BLOCK), vec![0; 5 * BLOCK]);
    assert_eq!(read(&file, 5 * LEN, BLOCK), vec![9; BLOCK]);
}

pub fn unaligned_reads_are_served(device: &Arc<dyn Device>) {
    let file = numbered(device, "a", 3);
    let mut all = vec![0; BLOCK];
    all.extend(vec![1; BLOCK]);
    all.extend(vec![2; BLOCK]);
    for (from, to) in [(1, 2), (0, 4097), (4095, 4097), (511, 8193), (4096, 8192), (8191, 12288)] {
        assert_eq!(read(&file, from as u64, to - from), all[from..to], "{from}..{to}");
    }
}

pub fn writes_are_whole_or_refused_by_alignment(device: &Arc<dyn Device>) {
    let file = numbered(device, "a", 1);
    let alignment = file.alignment();
    for (offset, len) in [(1, BLOCK), (0, BLOCK - 1), (3, 5)] {
        let outcome = file.write_at(offset, &block(8)[..len]);
        if alignment == 1 {
            outcome.unwrap();
            assert_eq!(read(&file, offset, len), vec![8; len]);
        } else {
            let name = "a".to_owned();
            assert_eq!(outcome.unwrap_err(), Error::Unaligned { name, offset, len, alignment });
            assert_eq!(read(&file, 0, BLOCK), vec![0; BLOCK], "nothing was written");
        }
    }
    // Memory may be at any address on any device.
    let mut odd = vec![0; 3 * BLOCK + 1];
    odd[1..].fill(7);
    file.write_at(LEN, &odd[1..]).unwrap();
    assert_eq!(read(&file, LEN, 3 * BLOCK), vec![7; 3 * BLOCK]);
}

pub fn set_len_cuts_and_extends_with_zeros(device: &Arc<dyn Device>) {
    let file = numbered(device, "a", 2);
    file.set_len(LEN + 1).unwrap();
    assert_eq!(file.len().unwrap(), LEN + 1);
    assert_eq!(read(&file, LEN, 1), [1]);
    ends_before(file.read_at(LEN, &mut [0; 2]), LEN + 2);
    file.set_len(3 * LEN).unwrap();
    assert_eq!(read(&file, LEN, 3), [1, 0, 0], "what was cut does not come back");
    assert_eq!(read(&file, 2 * LEN, BLOCK), vec![0; BLOCK]);
    file.set_len(0).unwrap();
    assert!(file.is_empty().unwrap());
}

pub fn allocate_extends_and_keeps(device: &Arc<dyn Device>) {
    let file = numbered(device, "a", 2);
    file.allocate(LEN, 4 * LEN).unwrap();
    assert_eq!(file.len().unwrap(), 5 * LEN);
    assert_eq!(read(&file, LEN, BLOCK), vec![1; BLOCK]);
    assert_eq!(read(&file, 2 * LEN, BLOCK), vec![0; BLOCK]);
    file.allocate(0, LEN).unwrap();
    file.allocate(0, 0).unwrap();
    assert_eq!(file.len().unwrap(), 5 * LEN, "allocating never cuts");
}

pub fn punch_zeroes_and_keeps_the_length(device: &Arc<dyn Device>) {
    let file = numbered(device, "a", 4);
    file.punch(LEN, 2 * LEN).unwrap();
    assert_eq!(file.len().unwrap(), 4 * LEN);
    assert_eq!(read(&file, LEN, 2 * BLOCK), vec![0; 2 * BLOCK]);
    assert_eq!(read(&file, 3 * LEN, 1), [3]);
    file.punch(3 * LEN, 100 * LEN).unwrap();
    file.punch(100 * LEN, LEN).unwrap();
    file.punch(0, 0).unwrap();
    assert_eq!(file.len().unwrap(), 4 * LEN);
    assert_eq!(read(&file, 3 * LEN, BLOCK), vec![0; BLOCK]);
}

pub fn a_read_only_file_refuses_writes(device: &Arc<dyn Device>) {
    numbered(device, "a", 2);
    let file = device.open("a", Mode::Read).unwrap();
    assert!(file.write_at(0, &block(9)).is_err());
    assert!(file.set_len(0).is_err());
    assert!(file.allocate(0, 9 * LEN).is_err());
    assert!(file.punch(0, LEN).is_err());
    file.sync(SyncKind::All).unwrap();
    assert_eq!(read(&file, LEN, 1), [1]);
    assert_eq!(file.len().unwrap(), 2 * LEN);
}

pub fn two_handles_see_one_file(device: &Arc<dyn Device>) {
    let one = numbered(device, "a", 1);
    let other = device.open("a", Mode::Write).unwrap();
    other.write_at(LEN, &block(5)).unwrap();
    assert_eq!(one.len().unwrap(), 2 * LEN);
    assert_eq!(read(&one, LEN, 1), [5]);
    assert_eq!((one.name(), other.name()), ("a", "a"));
}

pub fn threads_share_a_file(device: &Arc<dyn Device>) {
    let file = numbered(device, "a", 8);
    let env = Environment::seeded(1);
    let worker = |number: u8| {
        let file: Arc<dyn File> = file.clone();
        env.spawn("worker", move || {
            for round in 0..50_u8 {
                let at = u64::from(number) * LEN;
                file.write_at(at, &block(round)).unwrap();
                assert_eq!(read(&file, at, BLOCK), vec![round; BLOCK]);
            }
        })
    };
    let workers: Vec<_> = (0..4).map(|number| worker(number).unwrap()).collect();
    for worker in workers {
        worker.join().unwrap();
    }
    assert_eq!(read(&file, 4 * LEN, 1), [4], "no thread wrote there");
}

pub fn everything_is_counted(device: &Arc<dyn Device>) {
    let before = device.accounting().counts();
    let file = numbered(device, "a", 3);
    read(&file, 0, BLOCK);
    read(&file, 1, 10);
    file.sync(SyncKind::Data).unwrap();
    let after = device.accounting().counts();
    assert_eq!(after.write_ops - before.write_ops, 3);
    assert_eq!(after.write_bytes - before.write_bytes, 3 * LEN);
    assert_eq!(after.read_ops - before.read_ops, 2);
    assert_eq!(after.syncs - before.syncs, 1);
    // An unaligned read of a direct device moves whole blocks, and says so.
    let bytes = after.read_bytes - before.read_bytes;
    assert!(bytes == LEN + 10 || bytes == LEN + file.alignment() as u64, "{bytes}");
}

pub fn empty_transfers_succeed(device: &Arc<dyn Device>) {
    let file = device.open("a", Mode::CreateNew).unwrap();
    file.write_at(0, &[]).unwrap();
    file.read_at(0, &mut []).unwrap();
    assert_eq!(file.len().unwrap(), 0);
}
