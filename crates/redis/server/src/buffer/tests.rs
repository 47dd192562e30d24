//! Growth of buffers: in one step, and by little.

use super::{LARGE_BYTES, reserve};

#[test]
fn a_large_buffer_takes_little_more_than_its_contents() {
    let mut buffer = Vec::new();
    for piece in [10, 100, 5000, 3 * LARGE_BYTES, 2, 70_000, LARGE_BYTES, 2] {
        for _ in 0..20 {
            reserve(&mut buffer, piece);
            let capacity = buffer.capacity();
            buffer.resize(buffer.len() + piece, 0);
            assert_eq!(buffer.capacity(), capacity, "it has grown twice for {piece} bytes");
            let most = buffer.len().max(LARGE_BYTES);
            assert!(capacity <= most + most / 8, "{capacity} for {} bytes", buffer.len());
        }
    }
}
