//! Defects of the paper's public code that a space can have, each as a test.
//! Each comment says what that code did, and the consequence. `docs/reliability/defects-flex.md`
//! has the test of each defect.

use device::{Faults, SimulatedDisk};

use super::{create, open, small};
use crate::space::{Error, FlexSpace, Options};

/// There, a position that was kept for the next read was the thread's and not the file's.
#[test]
fn d10_two_spaces_that_one_thread_reads_by_turns_have_bytes_of_their_own() {
    let spaces = [1, 2].map(|byte| {
        let space = create(device::memory());
        space.append(&vec![byte; 50_000]).expect("room");
        space
    });
    let snapshots = spaces.each_ref().map(|space| space.snapshot().expect("open"));
    for at in (0..50_000).step_by(1000) {
        for (byte, (space, snapshot)) in (1..).zip(spaces.iter().zip(&snapshots)) {
            assert_eq!(space.read(at, 1000), Ok(vec![byte; 1000]), "at {at}");
            assert_eq!(snapshot.read(at, 1000), Ok(vec![byte; 1000]), "at {at}");
        }
    }
}

/// There, each sync of a byte took and wrote a fresh segment.
#[test]
fn d11_syncs_of_single_bytes_write_blocks_and_no_segments() {
    let device = device::memory();
    let space = create(device.clone());
    space.append(b"!").expect("room");
    space.sync().expect("a device");
    let before = device.accounting().counts().write_bytes;
    for _ in 0..50 {
        space.append(b"!").expect("room");
        space.sync().expect("a device");
    }
    let written = device.accounting().counts().write_bytes - before;
    assert!(written <= 50 * 2 * 4096, "{written} bytes of 50 syncs");
}

/// There, a space that had reached its last free segments ran the collector when it was opened,
/// before the collector's state was ready.
#[test]
fn d12_a_space_that_has_come_to_its_reserve_is_closed_and_opened() {
    for is_closed in [true, false] {
        let disk = SimulatedDisk::new(1, Faults::none());
        let options = Options { capacity_bytes: 128 * (16 << 10), ..small() };
        let space = FlexSpace::create(disk.clone(), options.clone()).expect("an honest disk");
        let mut model = Vec::new();
        for round in 0_u8.. {
            let at = usize::from(round) * 97 % (model.len() + 1);
            match space.insert(at as u64, &[round; 3000]) {
                Ok(()) => _ = model.splice(at..at, [round; 3000]),
                Err(Error::NoSpace { .. } | Error::Uncollected) => break,
                Err(error) => panic!("{error}"),
            }
            // Old bytes are removed, so that segments are used up before the limit of live bytes.
            let over = model.len().min(2500);
            if space.pwrite(0, &vec![round; over]).is_err() {
                break;
            }
            model[..over].fill(round);
            space.sync().expect("an honest disk");
        }
        let (used, free) = (space.stats().used_segments, space.stats().free_segments);
        assert!(used >= 60, "{used} segments are used, {free} free");
        if is_closed {
            space.close().expect("an honest disk");
        } else {
            space.sync().expect("an honest disk");
            drop(space);
        }
        let space = FlexSpace::open(disk, options).expect("as it was");
        assert_eq!(space.read(0, space.len()), Ok(model.clone()));
        while space.collect().expect("an honest disk").segments > 0 {}
        assert_eq!(space.read(0, space.len()), Ok(model));
        space.check().expect("sound");
    }
}

/// There, bytes that were written during a sync were taken for durable. The next sync has them
/// here.
#[test]
fn d6_a_write_beside_a_sync_is_durable_after_the_next() {
    let device = device::FaultDevice::new(device::memory());
    let space = create(device.clone());
    space.append(b"first").expect("room");
    let other = space.clone();
    device.interpose(device::OperationKind::Sync, move || other.append(b"beside").expect("room"));
    space.sync().expect("a device");
    space.sync().expect("a device");
    drop(space);
    assert_eq!(open(device).read(0, 11), Ok(b"firstbeside".to_vec()));
}
