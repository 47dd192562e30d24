//! Overlapped writes: their limits, the tags that end, and failures.

use std::sync::Arc;

use super::OverlappedWrites;
use crate::{
    Device, Error, Failure, Fault, FaultDevice, File, Lasting, Mode, OperationKind, memory,
};

const LEN: usize = 4096;

fn file_on(device: &Arc<dyn Device>) -> Arc<dyn File> {
    device.open("file", Mode::CreateNew).expect("there is room")
}

/// Writes a block of the byte `number` to the place of that number. Returns the tags that ended.
fn write(writes: &mut OverlappedWrites, file: &Arc<dyn File>, number: u8) -> (bool, Vec<u64>) {
    let mut tags = Vec::new();
    let mut ended = |tag| tags.push(tag);
    let begun = writes.buffer(LEN, &mut ended).and_then(|mut buffer| {
        buffer.fill(number);
        let offset = u64::from(number) * LEN as u64;
        writes.begin(u64::from(number), (file, offset), buffer, &mut ended)
    });
    (begun.is_ok(), tags)
}

#[test]
fn all_writes_are_on_the_device_at_the_end_and_their_tags_were_reported_once() {
    let device = memory();
    let file = file_on(&device);
    for (writes_max, bytes_max) in [(1, usize::MAX), (4, usize::MAX), (4, 2 * LEN), (4, 1)] {
        let mut writes = OverlappedWrites::new(&*device, writes_max, bytes_max).expect("a queue");
        let mut tags = Vec::new();
        for number in 0..20 {
            let (begun, ended) = write(&mut writes, &file, number);
            assert!(begun);
            tags.extend(ended);
            let most = writes_max.min((bytes_max / LEN).max(1));
            assert!(writes.in_flight() <= most, "{} of {most}", writes.in_flight());
            assert!(writes.buffer_bytes() <= most * LEN, "{} bytes", writes.buffer_bytes());
        }
        writes.finish(&mut |tag| tags.push(tag)).expect("it succeeds");
        assert_eq!(writes.in_flight(), 0);
        tags.sort_unstable();
        assert_eq!(tags, (0..20).collect::<Vec<u64>>());
        let mut bytes = vec![0; 20 * LEN];
        file.read_at(0, &mut bytes).expect("it is there");
        assert!(bytes.chunks(LEN).zip(0..).all(|(block, number)| block == [number; LEN]));
        file.set_len(0).expect("it may be cut");
    }
}

#[test]
fn the_first_failure_is_returned_by_each_later_call() {
    let device = FaultDevice::new(memory());
    let shared: Arc<dyn Device> = device.clone();
    let file = file_on(&shared);
    let mut writes = OverlappedWrites::new(&*shared, 4, usize::MAX).expect("a queue");
    assert!(write(&mut writes, &file, 0).0);
    writes.finish(&mut |_| {}).expect("it succeeds");
    let kind = Some(OperationKind::Write);
    device.fail(Fault { kind, nth: 2, failure: Failure::Io, lasting: Lasting::Once });
    let mut ended = write(&mut writes, &file, 1).1;
    let failed = writes.finish(&mut |tag| ended.push(tag)).expect_err("the write failed");
    assert!(matches!(failed, Error::Io { .. }), "{failed:?}");
    assert!(ended.is_empty(), "{ended:?}");
    let (begun, ended) = write(&mut writes, &file, 2);
    assert!(!begun && ended.is_empty());
    assert_eq!(writes.finish(&mut |_| {}), Err(failed));
}
