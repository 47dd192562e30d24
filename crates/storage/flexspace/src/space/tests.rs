//! Tests of FlexSpace.

mod basics;
mod closing;
mod crash;
mod damage;
mod defects;
mod errors;
mod full;
mod holes;
mod long;
mod model;
mod operation;
mod planted;
mod random;
mod snapshots;
mod threads;
mod unchanged;

use std::sync::Arc;

use device::{Device, RoomDevice};

use super::{Error, FlexSpace, Options};
use model::Model;

/// Segments of four blocks, so that a few kilobytes fill several.
fn small() -> Options {
    Options {
        segment_bytes: 16 << 10,
        capacity_bytes: 200 * (16 << 10),
        reserved_segments: 64,
        ..Options::default()
    }
}

fn create(device: Arc<dyn Device>) -> FlexSpace {
    FlexSpace::create(device, small()).expect("a space on a device that is whole")
}

fn open(device: Arc<dyn Device>) -> FlexSpace {
    FlexSpace::open(device, small()).expect("the space that was created")
}

/// Returns a device in memory with `bytes` bytes of room.
fn with_room(bytes: u64) -> Arc<RoomDevice> {
    RoomDevice::new(device::memory(), bytes).expect("a device")
}

/// Syncs until the log has the 4096 bytes that it has room for.
fn until_the_log_is_full(space: &FlexSpace) {
    while space.stats().log_bytes != 4096 {
        assert!(space.stats().log_bytes < 4096, "the log is too long already");
        space.set_tag(0, 1).expect("an offset");
        space.sync().expect("a device");
    }
}

/// Returns all bytes, and the tags.
fn content(space: &FlexSpace) -> Result<Model, Error> {
    Model::of(&space.snapshot()?)
}
