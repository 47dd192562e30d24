//! Random operations against the model, with occasional checks of everything, and reopenings.
//!
//! `THERMOCLINE_FLEX_OPERATIONS=100000 cargo test --release -p thermocline-flexspace random` makes
//! more of them.

use rand::RngExt;

use super::model::Model;
use super::operation::Operation;
use super::{content, create, open};
use crate::seed::{number, seed};

/// Operations, unless the environment says otherwise.
const OPERATIONS: u64 = 2_000;

#[test]
fn any_operations_give_the_bytes_of_the_model() {
    let name = "any_operations_give_the_bytes_of_the_model";
    let count = number("THERMOCLINE_FLEX_OPERATIONS").unwrap_or(OPERATIONS);
    let seed = seed(name, &format!(" THERMOCLINE_FLEX_OPERATIONS={count}"));
    let mut random = seed.stream(name);
    let device = device::memory();
    let mut space = create(device.clone());
    let mut model = Model::default();
    let mut kept = Vec::new();
    let mut collected = 0;
    for step in 0..count {
        let operation = Operation::drawn(&model, 60_000, &mut random);
        if let Operation::Collect = operation {
            let done = space.collect().unwrap_or_else(|error| panic!("step {step}: {error}"));
            collected += done.segments;
        } else {
            operation.apply(&space).unwrap_or_else(|error| panic!("{step} {operation:?}: {error}"));
        }
        operation.model(&mut model);
        assert_eq!(space.len(), model.len(), "step {step}, {operation:?}");
        match random.random_range(0..60) {
            0..6 => {
                let found = content(&space).unwrap_or_else(|error| panic!("step {step}: {error}"));
                assert!(found == model, "step {step}, {operation:?}: other bytes or tags");
            }
            6..8 => kept.push((space.snapshot().expect("open"), model.clone())),
            8..12 if !kept.is_empty() => {
                let (snapshot, model) = kept.swap_remove(random.random_range(0..kept.len()));
                let found = Model::of(&snapshot).unwrap_or_else(|error| panic!("{step}: {error}"));
                assert!(found == model, "step {step}: a snapshot changed");
            }
            12 => {
                kept.clear();
                space.check().unwrap_or_else(|error| panic!("step {step}: {error}"));
                space.close().expect("a device that is whole");
                drop(space);
                space = open(device.clone());
            }
            _ => {}
        }
    }
    space.check().expect("a sound space");
    assert!(collected > 0, "the collector had something to do");
}
