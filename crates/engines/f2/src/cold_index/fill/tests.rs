//! When a pass begins.

use super::{Figures, READ_BYTES, is_due};

/// 1,000 chunks, of which a pass reads 10 for the cost of a lookup that reads one.
const ALL: Figures =
    Figures { log_bytes: 100 * READ_BYTES, missing: 1_000, room: 1_000, read: 100 };

#[test]
fn a_pass_begins_when_lookups_have_cost_as_much() {
    assert!(is_due(ALL));
    assert!(!is_due(Figures { read: 99, ..ALL }));
    // Room for half of them is reached half way.
    assert!(is_due(Figures { room: 500, read: 50, ..ALL }));
    assert!(!is_due(Figures { room: 500, read: 49, ..ALL }));
}

#[test]
fn no_pass_is_made_for_few_digests() {
    let few = Figures { missing: 100, read: 1_000_000, ..ALL };
    assert!(is_due(few));
    assert!(!is_due(Figures { missing: 99, ..few }), "lookups make them at a lower cost");
    assert!(!is_due(Figures { missing: 0, ..few }) && !is_due(Figures { room: 0, ..few }));
}
