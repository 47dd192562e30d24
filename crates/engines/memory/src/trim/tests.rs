//! The comparison of resident and counted memory.

use super::Level;

#[test]
fn memory_that_the_budget_counts_is_no_reason_to_look_for_free_pieces() {
    let before = Level { resident: 1000, counted: 800 };
    let after = |resident, counted| Level { resident, counted }.uncounted_since(before);
    assert_eq!(after(1500, 1300), 0);
    assert_eq!(after(1500, 1200), 100);
    assert_eq!(after(1000, 500), 300);
    assert_eq!(after(500, 800), 0);
}
