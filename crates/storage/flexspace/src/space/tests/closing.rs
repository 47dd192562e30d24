//! Closing: changes that were acknowledged before it, and concurrently with it, are found again.

use std::sync::Arc;

use device::{FaultDevice, OperationKind};
use sync::Mutex;

use super::{create, open, small, with_room};
use crate::space::{Error, FlexSpace, Options};

#[test]
fn a_change_beside_a_close_is_stored_or_refused() {
    // The second one begins when the stored state is cut already.
    for kind in [OperationKind::Sync, OperationKind::SyncDir] {
        let device = FaultDevice::new(device::memory());
        let space = create(device.clone());
        space.append(b"before").expect("room");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (beside, answers) = (space.clone(), seen.clone());
        device.interpose(kind, move || {
            answers.lock().push(beside.append(b", beside"));
            answers.lock().push(beside.set_tag(0, 7));
            answers.lock().push(beside.together(|space| space.splice_hole(0, 0, 5)));
            answers.lock().push(beside.close());
        });
        space.close().expect("a device");
        assert_eq!(*seen.lock(), vec![Err(Error::Closed); 4], "{kind:?}");
        let space = open(device);
        assert_eq!(space.read(0, space.len()).as_deref(), Ok(&b"before"[..]), "{kind:?}");
    }
}

#[test]
fn a_space_that_cannot_be_stored_stays_open_or_is_closed_as_it_was() {
    let options = || Options { capacity_bytes: 1 << 40, ..small() };
    for stays in [true, false] {
        let device = with_room(200 * (16 << 10));
        let space = FlexSpace::create(device.clone(), options()).expect("room for a space");
        space.append(b"synced").expect("room");
        space.sync().expect("room");
        // Records of which the log has no room for all: it has not even the ballast's.
        for number in 0..300_000_u64 {
            space.set_tag(0, number as u16).expect("an offset");
        }
        space.append(b" and not").expect("room");
        device.fill();
        let closed = if stays { space.try_close() } else { space.close() };
        assert!(closed.as_ref().is_err_and(Error::is_refused), "{closed:?}");
        if stays {
            assert_eq!(space.read(0, space.len()).as_deref(), Ok(&b"synced and not"[..]));
            space.collapse(0, 1).expect("changes are taken again");
            continue;
        }
        assert_eq!(space.append(b"more"), Err(Error::Closed));
        // It is not locked; an opening needs room, too.
        let refused = FlexSpace::open(device, options()).err();
        assert!(matches!(refused, Some(Error::Device(device::Error::NoSpace { .. }))));
    }
}

/// How a life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Closed,
    /// A snapshot holds the removed bytes until after the close.
    ClosedWhileHeld,
    Killed,
}

/// More dead segments than one commit releases, at the end of the file.
#[test]
fn dead_segments_give_their_room_back_at_the_close_or_in_the_next_life() {
    let options = || Options { capacity_bytes: 1 << 30, ..small() };
    for (end, kept) in [
        (End::Closed, &b"last"[..]),
        // The segment that is filled is dead, too.
        (End::Closed, b""),
        (End::ClosedWhileHeld, b"last"),
        (End::Killed, b"last"),
    ] {
        let device = FaultDevice::new(device::memory());
        let resizes = || device.count(Some(OperationKind::Resize));
        let space = FlexSpace::create(device.clone(), options()).expect("room for a space");
        (0..320).for_each(|_| space.append(&[1; 16 << 10]).expect("room"));
        let snapshot = space.snapshot().expect("open");
        space.collapse(0, space.len()).expect("a range");
        space.append(kept).expect("room");
        space.sync().expect("a device");
        let held = space.stats().held_segments;
        assert!(held > 300, "{held} segments are held");
        let snapshot = Some(snapshot).filter(|_| end != End::Closed);
        let before = resizes();
        if end != End::Killed {
            space.close().expect("a device");
        }
        let released = resizes() - before;
        let dead = held + u64::from(kept.is_empty());
        assert_eq!(released >= dead, end == End::Closed, "{end:?}: {released} of {dead}");
        drop((snapshot, space));
        let space = FlexSpace::open(device.clone(), options()).expect("it opens");
        assert!(space.stats().free_segments >= held, "{:?}", space.stats());
        space.append(b"next").expect("room");
        let before = resizes();
        for number in 0..held {
            space.set_tag(0, number as u16).expect("an offset");
            space.sync().expect("a device");
        }
        let released = resizes() - before;
        // One of them was begun.
        assert!(released >= held - 1, "{end:?}: {released} resizes of {held}");
        assert_eq!(space.read(0, space.len()), Ok([kept, b"next"].concat()));
        space.check().expect("sound");
    }
}
