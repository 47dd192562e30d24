//! The checks that each device passes, on a range.

use std::sync::Arc;

use device::Device;
use logc::testing::World;

use super::device_of;

fn range() -> (Arc<dyn Device>, World) {
    let world = World::new(3);
    (Arc::new(device_of(&world, 1)), world)
}

device::device_suite!(on_stocs, super::range);
