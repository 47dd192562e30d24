//! The version table's writers of pending operations.

use super::*;

#[test]
fn every_writer_of_the_table_is_of_one_thread() {
    for (threads, depth) in [(1, 1), (1, 2), (2, 64), (3, 4096), (700, 16), (1024, 2)] {
        let count = writer_count(threads, depth);
        assert!(count <= WRITERS_MAX, "{threads} threads, {depth} deep: {count}");
        let mut writers: Vec<usize> = (0..threads).collect();
        for thread in 0..threads {
            writers.extend(pending_writers_of(Place { thread, threads }, depth));
        }
        assert_eq!(writers, (0..count).collect::<Vec<_>>());
    }
    assert_eq!(writer_count(2, 64), 2 + 2 * 64);
    assert_eq!(writer_count(4, 1), 4, "one write at a time");
}
