//! A ballast on a device that is full.

use std::sync::Arc;

use super::Ballast;
use crate::error::Error;
use crate::file::Mode;
use crate::{Device, RoomDevice, memory};

const PAGE: u64 = 4096;

fn is_full(error: &Error) -> bool {
    matches!(error, Error::NoSpace { .. })
}

/// A ballast of `pages` pages on a device that has no other room.
fn full(pages: u64) -> (Ballast, Arc<RoomDevice>) {
    let device = RoomDevice::new(memory(), 1 << 30).expect("it is empty");
    let ballast = Ballast::found(Arc::clone(&device) as Arc<dyn Device>, "ballast");
    let ballast = ballast.expect("there is none yet");
    ballast.hold(pages * PAGE).expect("there is room");
    device.fill();
    (ballast, device)
}

/// Writes a file of `pages` pages.
fn write(device: &RoomDevice, name: &str, pages: u64) -> Result<(), Error> {
    let file = device.open(name, Mode::Create)?;
    file.write_at(0, &vec![1; (pages * PAGE) as usize])
}

#[test]
fn room_that_is_lent_is_held_again_whether_the_work_succeeds_or_fails() {
    let (ballast, device) = full(8);
    let replace = || {
        write(&device, "new", 3).inspect_err(|_| device.remove("new").expect("it is there"))?;
        device.remove("new")
    };
    ballast.lend(PAGE, is_full, replace).expect("there is room");
    assert_eq!(ballast.bytes(), 8 * PAGE);
    let refused = ballast.lend(PAGE, is_full, || -> Result<(), Error> {
        write(&device, "new", 9).inspect_err(|_| device.remove("new").expect("it is there"))
    });
    assert!(refused.as_ref().is_err_and(is_full), "{refused:?}");
    assert_eq!(ballast.bytes(), 8 * PAGE);
    let failed = ballast.lend(PAGE, is_full, || {
        replace()?;
        Err::<(), _>(Error::NotFound { name: "other".to_owned() })
    });
    assert!(failed.is_err());
    assert_eq!(ballast.bytes(), 8 * PAGE);
}

#[test]
fn a_loan_does_not_hold_again_what_another_thread_has_spent() {
    let (ballast, device) = full(8);
    let mut is_first = true;
    let work = || {
        if std::mem::take(&mut is_first) {
            // The other thread, in the middle of the loan.
            return ballast.spend((0, 2 * PAGE), is_full, || write(&device, "page", 2)).and(
                write(&device, "new", 1).inspect_err(|_| device.remove("new").expect("is there")),
            );
        }
        write(&device, "new", 1)?;
        device.remove("new")
    };
    ballast.lend(PAGE, is_full, work).expect("there is room");
    assert_eq!(ballast.bytes(), 6 * PAGE);
    device.grow(8 * PAGE);
    assert_eq!(ballast.bytes(), 6 * PAGE, "the pages that were written need no room any more");
}

#[test]
fn as_much_is_taken_back_as_there_is_room_for() {
    let (ballast, device) = full(8);
    ballast.give(u64::MAX).expect("gives");
    write(&device, "other", 3).expect("there is room");
    ballast.take_back(8 * PAGE).expect("there is some room");
    assert_eq!(ballast.bytes(), 5 * PAGE);
    ballast.take_back(PAGE).expect("a device without room is no failure");
    assert_eq!(ballast.bytes(), 5 * PAGE);
}
