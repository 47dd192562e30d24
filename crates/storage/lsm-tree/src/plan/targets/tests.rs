//! Targets: few levels, equal ratios, and none for the last level.

use super::*;

const SHAPE: Shape = Shape {
    level0_tables: 8,
    level0_tables_slow: 36,
    level1_bytes: 1000,
    level_ratio: 10,
    block_bytes: 4096,
};

/// Returns the targets of all levels but the last, rounded.
fn targets(bytes: u64, present: usize) -> Vec<u64> {
    let targets = Targets::of_size(bytes, present, &SHAPE);
    (1..targets.last()).map(|level| targets.bytes_max(level).round() as u64).collect()
}

#[test]
fn a_tree_has_as_few_levels_as_its_ratio_permits() {
    assert_eq!(targets(0, 1), []);
    assert_eq!(targets(1_000, 1), []);
    assert_eq!(targets(1_001, 1), [1_000]);
    assert_eq!(targets(10_000, 1), [1_000]);
    assert_eq!(targets(16_000, 1), [1_000, 4_000], "the ratio is 4 twice");
    assert_eq!(targets(100_000, 1), [1_000, 10_000]);
    assert_eq!(targets(125_000, 1), [1_000, 5_000, 25_000]);
}

#[test]
fn levels_that_are_there_are_used() {
    assert_eq!(targets(8_000, 4), [1_000, 2_000, 4_000]);
    assert_eq!(targets(10, 4), [1_000, 1_000, 1_000]);
}

/// A tree that is too large for its levels has larger ratios.
#[test]
fn a_tree_that_is_too_large_has_larger_ratios() {
    let steps = LEVELS - 2;
    let size = 20_u64.pow(steps as u32) * 1_000;
    let targets = targets(size, 1);
    assert_eq!((targets.len(), targets[1]), (steps, 20_000));
}
