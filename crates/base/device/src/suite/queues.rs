//! Requirements for the queues of every device.

use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec};

use super::{BLOCK, numbered, read};
use crate::{
    Buffer, Completion, Device, Doorbell, Error, File, Mode, Queue, Request, SyncKind, Work,
};

const LEN: u64 = BLOCK as u64;

fn read_block(tag: u64, file: &Arc<dyn File>, block: u64) -> Request {
    let work = Work::Read { offset: block * LEN, buffer: Buffer::zeroed(BLOCK) };
    Request { tag, file: file.clone(), work }
}

fn write_block(tag: u64, file: &Arc<dyn File>, block: u64, fill: u8) -> Request {
    let work = Work::Write { offset: block * LEN, buffer: Buffer::copy_of(&[fill; BLOCK]) };
    Request { tag, file: file.clone(), work }
}

fn finish(queue: &mut dyn Queue) -> Vec<Completion> {
    let mut done = Vec::new();
    let count = queue.wait(usize::MAX, &mut done).unwrap();
    assert_eq!((count, queue.in_flight()), (done.len(), 0));
    done.sort_by_key(|completion| completion.tag);
    done
}

pub fn a_queue_moves_bytes(device: &Arc<dyn Device>) {
    let file = numbered(device, "a", 4);
    let mut queue = device.queue(8).unwrap();
    for block in 0..4 {
        queue.submit(read_block(block, &file, block)).unwrap();
    }
    queue.submit(write_block(4, &file, 7, 9)).unwrap();
    assert_eq!(queue.in_flight(), 5);
    let done = finish(&mut *queue);
    for (tag, completion) in (0_u8..).zip(&done) {
        assert_eq!(completion.tag, u64::from(tag));
        completion.result.clone().unwrap();
        let fill = if tag == 4 { 9 } else { tag };
        assert_eq!(completion.buffer.as_ref().unwrap()[..], [fill; BLOCK]);
    }
    assert_eq!(done.len(), 5);
    assert_eq!(read(&file, 7 * LEN, BLOCK), vec![9; BLOCK]);
}

pub fn a_full_queue_hands_the_request_back(device: &Arc<dyn Device>) {
    let file = numbered(device, "a", 4);
    let mut queue = device.queue(2).unwrap();
    queue.submit(read_block(0, &file, 0)).unwrap();
    queue.submit(read_block(1, &file, 1)).unwrap();
    let back = queue.submit(read_block(2, &file, 2)).unwrap_err();
    assert_eq!(back.tag, 2);
    assert!(Arc::ptr_eq(&back.file, &file), "the very request");
    assert_eq!(queue.in_flight(), 2);
    let mut done = Vec::new();
    queue.wait(1, &mut done).unwrap();
    queue.submit(back).unwrap();
    queue.wait(usize::MAX, &mut done).unwrap();
    assert_eq!(done.len(), 3);
    assert!(done.iter().all(|completion| completion.result.is_ok()));
}

pub fn errors_come_with_their_buffers(device: &Arc<dyn Device>) {
    let file = numbered(device, "a", 1);
    let closed = device.open("a", Mode::Read).unwrap();
    let mut queue = device.queue(4).unwrap();
    queue.submit(read_block(0, &file, 1)).unwrap();
    queue.submit(read_block(1, &file, 0)).unwrap();
    queue.submit(write_block(2, &closed, 0, 1)).unwrap();
    let done = finish(&mut *queue);
    let end = Error::UnexpectedEnd { name: "a".to_owned(), end: 2 * LEN };
    assert_eq!(done[0].result, Err(end));
    assert_eq!(done[1].result, Ok(()));
    assert!(done[2].result.is_err(), "it was opened to read");
    for completion in &done {
        assert_eq!(completion.buffer.as_ref().unwrap().len(), BLOCK);
    }
    assert_eq!(read(&file, 0, 1), [0]);
}

pub fn wait_returns_as_many_as_asked(device: &Arc<dyn Device>) {
    let file = numbered(device, "a", 4);
    let mut queue = device.queue(4).unwrap();
    let mut done = Vec::new();
    assert_eq!(queue.wait(1, &mut done).unwrap(), 0, "nothing is in flight");
    assert_eq!(queue.poll(&mut done).unwrap(), 0);
    for block in 0..4 {
        queue.submit(read_block(block, &file, block)).unwrap();
    }
    let first = queue.wait(2, &mut done).unwrap();
    assert!((2..=4).contains(&first), "{first}");
    assert_eq!(queue.in_flight(), 4 - first);
    while queue.in_flight() > 0 {
        queue.poll(&mut done).unwrap();
    }
    assert_eq!(done.len(), 4);
}

pub fn a_sync_follows_its_write(device: &Arc<dyn Device>) {
    let file = numbered(device, "a", 1);
    let mut queue = device.queue(2).unwrap();
    let before = device.accounting().counts();
    queue.submit(write_block(0, &file, 1, 3)).unwrap();
    assert_eq!(finish(&mut *queue)[0].result, Ok(()));
    for (tag, kind) in [(1, SyncKind::Data), (2, SyncKind::All)] {
        let work = Work::Sync(kind);
        queue.submit(Request { tag, file: file.clone(), work }).unwrap();
    }
    let done = finish(&mut *queue);
    assert!(done.iter().all(|completion| completion.result.is_ok()));
    assert!(done.iter().all(|completion| completion.buffer.is_none()));
    let after = device.accounting().counts();
    assert_eq!(after.syncs - before.syncs, 2);
    assert_eq!(after.write_bytes - before.write_bytes, LEN);
}

pub fn dropping_a_queue_does_its_work(device: &Arc<dyn Device>) {
    let file = numbered(device, "a", 1);
    let mut queue = device.queue(4).unwrap();
    for block in 0..4 {
        queue.submit(write_block(block, &file, block, 6)).unwrap();
    }
    drop(queue);
    assert_eq!(read(&file, 0, 4 * BLOCK), vec![6; 4 * BLOCK]);
    assert_eq!(Arc::strong_count(&file), 1, "the queue let go of the file");
}

pub fn long_transfers_are_whole(device: &Arc<dyn Device>) {
    const LONG: usize = 1 << 20;
    let bytes: Vec<u8> = (0..LONG).map(|at| (at / 251) as u8).collect();
    let file = device.open("a", Mode::CreateNew).unwrap();
    let mut queue = device.queue(3).unwrap();
    let work = Work::Write { offset: LEN, buffer: Buffer::copy_of(&bytes) };
    queue.submit(Request { tag: 0, file: file.clone(), work }).unwrap();
    assert_eq!(finish(&mut *queue)[0].result, Ok(()));
    assert_eq!(file.len().unwrap(), LEN + LONG as u64);
    for (tag, offset, len) in [(0, LEN, LONG), (1, LEN + 1, LONG - 1), (2, LEN + 7, LONG - 11)] {
        let work = Work::Read { offset, buffer: Buffer::zeroed(len) };
        queue.submit(Request { tag, file: file.clone(), work }).unwrap();
    }
    let done = finish(&mut *queue);
    assert!(done.iter().all(|completion| completion.result.is_ok()));
    let found: Vec<&[u8]> = done.iter().map(|c| &c.buffer.as_ref().unwrap()[..]).collect();
    assert!(found == [&bytes[..], &bytes[1..], &bytes[7..LONG - 4]]);
}

pub fn a_read_across_the_end_fails(device: &Arc<dyn Device>) {
    let file = numbered(device, "a", 40);
    file.set_len(39 * LEN + 100).unwrap();
    let mut queue = device.queue(4).unwrap();
    let reads =
        [(0, 0, 40 * BLOCK), (1, 38 * LEN, 3 * BLOCK), (2, 39 * LEN, 100), (3, 39 * LEN, 101)];
    for (tag, offset, len) in reads {
        let work = Work::Read { offset, buffer: Buffer::zeroed(len) };
        queue.submit(Request { tag, file: file.clone(), work }).unwrap();
    }
    let results: Vec<_> = finish(&mut *queue).into_iter().map(|done| done.result).collect();
    let ends = |end| Err(Error::UnexpectedEnd { name: "a".to_owned(), end });
    let expected = [ends(40 * LEN), ends(41 * LEN), Ok(()), ends(39 * LEN + 101)];
    assert_eq!(results, expected);
}

pub fn impossible_offsets_are_refused(device: &Arc<dyn Device>) {
    let file = numbered(device, "a", 1);
    let mut queue = device.queue(4).unwrap();
    for (tag, offset) in [(0, u64::MAX), (2, u64::MAX - (LEN - 1))] {
        let work = Work::Read { offset, buffer: Buffer::zeroed(BLOCK) };
        queue.submit(Request { tag, file: file.clone(), work }).unwrap();
        let work = Work::Write { offset, buffer: Buffer::copy_of(&[9; BLOCK]) };
        queue.submit(Request { tag: tag + 1, file: file.clone(), work }).unwrap();
    }
    let done = finish(&mut *queue);
    assert_eq!(done.len(), 4);
    assert!(done.iter().all(|completion| completion.result.is_err()), "{done:?}");
    assert_eq!((file.len().unwrap(), read(&file, 0, 1)), (LEN, vec![0]));
}

pub fn many_requests_keep_their_tags(device: &Arc<dyn Device>) {
    let file = numbered(device, "a", 50);
    let mut queue = device.queue(16).unwrap();
    let (mut sent, mut done) = (0_u64, Vec::new());
    while done.len() < 1000 {
        while sent < 1000 {
            match queue.submit(read_block(sent, &file, sent % 50)) {
                Ok(()) => sent += 1,
                Err(_) => break,
            }
        }
        queue.wait(1, &mut done).unwrap();
    }
    done.sort_by_key(|completion| completion.tag);
    for (tag, completion) in (0..).zip(&done) {
        assert_eq!(completion.tag, tag);
        completion.result.clone().unwrap();
        assert_eq!(u64::from(completion.buffer.as_ref().unwrap()[BLOCK - 1]), tag % 50);
    }
}

pub fn a_queue_takes_files_of_any_device(device: &Arc<dyn Device>) {
    let other = numbered(&crate::memory(), "elsewhere", 3);
    let mut queue = device.queue(2).unwrap();
    queue.submit(read_block(0, &other, 2)).unwrap();
    let done = finish(&mut *queue);
    done[0].result.clone().unwrap();
    assert_eq!(done[0].buffer.as_ref().unwrap()[0], 2);
}

/// Whether the bell is rung within ten seconds; it is as if new then.
fn hears(bell: &Doorbell) -> bool {
    let mut waits = [PollFd::new(bell, PollFlags::IN)];
    let within = Timespec { tv_sec: 10, tv_nsec: 0 };
    let rung = rustix::event::poll(&mut waits, Some(&within)).unwrap() == 1;
    rung && rustix::io::read(bell, &mut [0; 8]).is_ok()
}

pub fn a_bell_tells_of_every_completion(device: &Arc<dyn Device>) {
    let file = numbered(device, "a", 8);
    let mut queue = device.queue(8).unwrap();
    let bell = Arc::new(Doorbell::new().unwrap());
    queue.ring(&bell).unwrap();
    for round in 0..20 {
        let mut done = Vec::new();
        for block in 0..round % 8 + 1 {
            queue.submit(read_block(block, &file, block)).unwrap();
        }
        while queue.in_flight() > 0 {
            // No thread waits for the queue itself.
            queue.poll(&mut done).unwrap();
            assert!(queue.in_flight() == 0 || hears(&bell), "{} are in flight", queue.in_flight());
        }
        assert_eq!(done.len() as u64, round % 8 + 1);
    }
}
