//! Blocks, buffers, segments.

use std::collections::BTreeSet;

use rand::RngExt;

use super::format::{BLOCK_BYTES, BLOCK_PAYLOAD_BYTES, decode_block, seal_block};
use super::{Geometry, SegmentBuffer, Segments};
use crate::seed::seed;

fn geometry() -> Geometry {
    Geometry::new(16 << 10).expect("a size of segments")
}

#[test]
fn a_block_is_believed_at_its_place_alone() {
    let mut block = vec![0x5a; BLOCK_BYTES];
    seal_block(&mut block, 3, 7, 11);
    assert_eq!(decode_block(&block, 3, 7, 11), Ok(&[0x5a; BLOCK_PAYLOAD_BYTES][..]));
    for (segment, number, generation) in [(2, 7, 11), (3, 6, 11), (3, 7, 12)] {
        assert!(decode_block(&block, segment, number, generation).is_err());
    }
    block[100] ^= 1;
    assert!(decode_block(&block, 3, 7, 11).is_err());
    assert!(decode_block(&block[..5], 3, 7, 11).is_err());
}

#[test]
fn the_page_s_example_is_what_is_written() {
    let mut block = vec![0; BLOCK_BYTES];
    block[..4].copy_from_slice(b"warm");
    seal_block(&mut block, 2, 1, 1 << 32 | 5);
    assert_eq!(block[BLOCK_PAYLOAD_BYTES..], [0xae, 0x86, 0x4e, 0x5b]);
}

#[test]
fn a_buffer_gives_back_what_was_written_at_any_offset() {
    let name = "a_buffer_gives_back_what_was_written_at_any_offset";
    let mut random = seed(name, "").stream(name);
    let buffer = SegmentBuffer::new(1000);
    let mut model = vec![0; 1000];
    for _ in 0..2000 {
        let from = random.random_range(0..1000);
        let to = random.random_range(from..=1000.min(from + 40));
        let bytes: Vec<u8> = (from..to).map(|_| random.random_range(0..=255)).collect();
        buffer.write(from, &bytes);
        model[from..to].copy_from_slice(&bytes);
        let (from, to) = (random.random_range(0..500), random.random_range(500..=1000));
        let mut found = vec![0; to - from];
        buffer.read(from, &mut found);
        assert_eq!(found, model[from..to]);
    }
}

#[test]
fn an_address_tells_its_segment_and_ends_with_the_payload() {
    let geometry = geometry();
    let payload = u64::from(geometry.payload_bytes());
    assert_eq!((payload, geometry.extent_bytes_max()), (4 * 4092, 512));
    let address = geometry.address(5, 4093);
    assert_eq!(geometry.place(address), (5, 4093));
    assert_eq!(geometry.file_offset(5, 1), 5 * 16_384 + 4096);
    assert!(geometry.is_extent(geometry.address(5, 0), payload));
    assert!(!geometry.is_extent(geometry.address(5, 1), payload), "behind the payload");
    assert!(!geometry.is_extent(0, 0), "nothing");
    assert!(!geometry.is_extent(1 << 48, 1), "no address");
    assert!(!geometry.is_extent(geometry.address(geometry.segments_max(), 0), 1));
}

/// As if snapshots of these states lived.
fn pins(living: &[u64]) -> impl Fn(u64, u64) -> Option<u64> {
    move |first, last| living.iter().copied().find(|state| (first..=last).contains(state))
}

#[test]
fn a_segment_is_free_when_its_last_byte_went_durably_and_no_snapshot_reaches_it() {
    let geometry = geometry();
    let mut segments = Segments::new(geometry, 4, 1);
    segments.found(&[10, 0], 0);
    assert_eq!(segments.next_free(false), Some(1));
    for segment in [1, 2] {
        segments.set_roomy(segment, true);
        segments.open(segment);
    }
    assert_eq!((segments.next_free(false), segments.next_free(true)), (None, Some(3)));
    segments.add(geometry.address(1, 0), 5, 3);
    segments.close(1);
    segments.subtract(geometry.address(1, 0), 5, 6);
    segments.subtract(geometry.address(0, 0), 10, 7);
    // Segment 2 is being filled: not free, although nothing in it lives.
    let emptied = segments.take_emptied();
    assert_eq!(emptied, BTreeSet::from([0, 1]));
    segments.freed(emptied);
    assert_eq!(segments.next_free(false), None);
    // A snapshot of state 6 reaches both, one of 2 or 7 only the one that was there from the
    // beginning.
    assert!(!segments.reclaim(&pins(&[6])));
    assert!(segments.begin_punching(&pins(&[6, 8]), 9).is_empty());
    assert_eq!(segments.counts(), (0, 2, 1), "held ones wait, too");
    assert!(segments.begin_punching(&pins(&[3]), 9).is_empty());
    // The room of the first one is released; the second one keeps its room, and is begun first.
    assert_eq!(segments.begin_punching(&pins(&[8]), 1), [0]);
    assert_eq!((segments.counts(), segments.next_free(false)), ((0, 2, 1), None));
    assert!(segments.reclaim(&pins(&[2, 7, 8])));
    assert_eq!((segments.next_free(true), segments.is_roomy(1)), (Some(1), true));
    segments.punched(&[0]);
    assert_eq!(
        (segments.next_ones(9).collect::<Vec<_>>(), segments.is_roomy(0)),
        (vec![1, 0, 3], false)
    );
    assert_eq!(segments.in_use().collect::<Vec<_>>(), [2]);
    segments.demand(3);
    segments.demand(2);
    segments.forget_met_demand();
    assert_eq!(
        (segments.available(), segments.view(false).demand),
        (2, 3),
        "the larger one is kept"
    );
    assert_eq!(segments.live_bytes(), 0);
}

#[test]
fn a_snapshot_holds_no_segment_of_before_or_after_its_state() {
    let geometry = geometry();
    let mut segments = Segments::new(geometry, 9, 1);
    for segment in 0..4 {
        segments.set_roomy(segment, true);
        segments.open(segment);
        // Segment n is referred to from state 10n + 1 to 10n + 5; the last one never.
        let state = u64::from(segment) * 10;
        if segment < 3 {
            segments.add(geometry.address(segment, 0), 5, state + 1);
            segments.subtract(geometry.address(segment, 0), 5, state + 3);
            segments.add(geometry.address(segment, 0), 5, state + 4);
            segments.subtract(geometry.address(segment, 0), 5, state + 5);
        }
        segments.close(segment);
    }
    let emptied = segments.take_emptied();
    segments.freed(emptied);
    let living = [0, 6, 10, 11, 14, 16, 26, 99];
    assert_eq!(segments.begin_punching(&pins(&living), 9), [0, 2, 3]);
    segments.punched(&[0, 2, 3]);
    assert_eq!(segments.counts(), (3, 1, 0));
    assert!(segments.begin_punching(&pins(&[14]), 9).is_empty(), "another one that reaches it");
    assert_eq!(segments.begin_punching(&pins(&[10, 16]), 9), [1]);
}
