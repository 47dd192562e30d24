//! A model of a segment's buffer under loom: a reader that knows of written bytes reads them.
//! Meanwhile a writer puts the next bytes into the rest of the same word.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p thermocline-flexspace --profile models --lib models \
//!     --target-dir target/loom
//! ```

use std::sync::Arc;

use sync::RwLock;
use sync::planted::model_must_find;
use sync::thread::spawn;

use super::SegmentBuffer;
use crate::planted::Planted;

/// The bytes of the test; the first three are there from the beginning.
const BYTES: &[u8] = b"thermocline";
const FIRST: usize = 3;

/// The fill of the buffer is published under a lock, like the state of a space.
fn a_reader_beside_a_writer() {
    loom::model(|| {
        let buffer = Arc::new(SegmentBuffer::new(2 * size_of::<u64>()));
        buffer.write(0, &BYTES[..FIRST]);
        let filled = Arc::new(RwLock::new(FIRST));
        let writer = {
            let (buffer, filled) = (Arc::clone(&buffer), Arc::clone(&filled));
            spawn(move || {
                buffer.write(FIRST, &BYTES[FIRST..]);
                *filled.write() = BYTES.len();
            })
        };
        for _ in 0..2 {
            let there = *filled.read();
            let mut found = vec![0; there];
            buffer.read(0, &mut found);
            assert_eq!(found, BYTES[..there], "bytes that were put");
        }
        writer.join().expect("it does not panic");
    });
}

#[test]
fn bytes_that_were_put_are_read_beside_the_next_ones() {
    a_reader_beside_a_writer();
}

#[test]
fn a_word_that_is_written_in_two_steps_is_found() {
    model_must_find(Planted::WordInSteps, "bytes that were put", a_reader_beside_a_writer);
}
