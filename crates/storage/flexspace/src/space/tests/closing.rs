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
