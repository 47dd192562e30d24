//! Cursors name positions, and the table stays bounded.

use super::{BYTES_MAX, CURSORS_MAX, ScanCursors};

#[test]
fn a_cursor_finds_its_position_again() {
    let cursors = ScanCursors::default();
    let first = cursors.cursor(0, b"user:1");
    assert_ne!(first, 0);
    assert!(first < 1 << 53);
    assert_eq!(cursors.cursor(0, b"user:1"), first);
    assert_ne!(cursors.cursor(1, b"user:1"), first);
    assert_eq!(cursors.position(0, first).as_deref(), Some(&b"user:1"[..]));
    assert_eq!(cursors.position(1, first), None);
    assert_eq!(cursors.position(0, first + 1), None);
}

#[test]
fn the_longest_unused_positions_are_forgotten() {
    let cursors = ScanCursors::default();
    let kept = cursors.cursor(0, b"kept");
    let forgotten = cursors.cursor(0, b"forgotten");
    for index in 0..CURSORS_MAX {
        cursors.cursor(0, index.to_string().as_bytes());
        assert!(cursors.position(0, kept).is_some(), "forgotten after {index} others");
    }
    assert_eq!(cursors.position(0, forgotten), None);
    for index in 0..40_u8 {
        cursors.cursor(0, &vec![index; BYTES_MAX / 16]);
    }
    let table = cursors.table.lock();
    assert!(table.bytes <= BYTES_MAX, "{}", table.bytes);
    assert_eq!(table.positions.len(), table.by_use.len());
}
