//! How many records are read for pending records whose keys do not fit into memory together.

use std::collections::BTreeSet;

use super::in_portions;

/// Passes `items` items through portions, of which `room` fit in one call, and returns the number
/// of items that were passed in all.
fn asked_for(items: usize, room: usize) -> usize {
    let (mut asked, mut done) = (0, BTreeSet::new());
    let mut work = |some: &[usize]| {
        asked += some.len();
        done.extend(some.iter().take(room).copied());
        Ok(some.iter().skip(room).copied().collect())
    };
    in_portions((0..items).collect(), 1024, &mut work).expect("nothing fails");
    assert_eq!(done.len(), items, "each is done");
    asked
}

#[test]
fn what_has_no_room_is_not_asked_for_again_and_again() {
    for (items, room) in [(1024, 8), (1024, 1), (10_000, 100), (10_000, 1023), (5, 2)] {
        let asked = asked_for(items, room);
        assert!(asked <= 2 * items + 1024, "{items} items, room for {room}: {asked} asked for");
    }
    assert_eq!(asked_for(10_000, 1024), 10_000);
    assert_eq!(asked_for(0, 1), 0);
}
