//! Tables of several fragments.

use std::collections::BTreeSet;
use std::sync::Arc;

use device::{Buffer, Device, File, Mode, Request, SyncKind, Work};
use logc::testing::{Behaviour, RANGE, World};
use proptest::prelude::*;
use stoc::Kind;

use super::device_of;
use crate::Stripes;
use crate::stripes::STRIPE_BYTES;

proptest! {
    /// The parts of a table are all bytes of its fragments, each once and in their order.
    #[test]
    fn parts_are_the_bytes_of_fragments(
        rho in 1_u32..5,
        bytes in 1_u64..40,
        length in 0_u64..400,
        from in 0_u64..400,
    ) {
        let stripes = Stripes { rho, bytes };
        let count = stripes.fragments(length);
        let mut ends = vec![0; count];
        let mut next = 0;
        for part in stripes.parts(0, length) {
            let end = ends.get_mut(part.fragment).expect("there is such a fragment");
            prop_assert_eq!((part.of_table, part.offset), (next, *end));
            *end += part.bytes;
            next += part.bytes;
        }
        prop_assert_eq!(next, length);
        let lengths: Vec<u64> = (0..count).map(|part| stripes.length_of(part, length)).collect();
        prop_assert_eq!(lengths, ends);
        // The parts of a piece are those of the whole, cut.
        let from = from.min(length);
        for part in stripes.parts(from, length - from) {
            let whole = stripes.parts(0, length).find(|whole| {
                (whole.of_table..whole.of_table + whole.bytes).contains(&part.of_table)
            });
            let whole = whole.expect("the table has the byte");
            prop_assert_eq!(part.fragment, whole.fragment);
            prop_assert_eq!(part.offset - whole.offset, part.of_table - whole.of_table);
        }
    }
}

fn bytes_of(length: usize) -> Vec<u8> {
    (0..length as u32).map(|at| (at / 11) as u8).collect()
}

/// F3: a table of three stripes is on six StoCs, two for each fragment. It is read from the others
/// when one StoC of each fragment is away.
#[test]
fn a_large_table_has_fragments_on_different_stocs() {
    let world = World::new(6);
    let device = device_of(&world, 1);
    let content = bytes_of(5 << 20);
    let table = device.open_blocks("table", Mode::CreateNew).expect("it is new");
    for (offset, part) in (0..).step_by(900_000).zip(content.chunks(900_000)) {
        table.write_at(offset, part).expect("all StoCs are up");
    }
    let mut read = vec![0; 3 << 20];
    table.read_at(100, &mut read).expect("it is in memory");
    assert!(content.get(100..100 + read.len()) == Some(&*read));
    table.sync(SyncKind::All).expect("all StoCs are up");
    device.sync_dir("").expect("all StoCs are up");
    let files = |node| {
        let files = world.stoc(node).list(RANGE).into_iter();
        files.filter(|file| file.name.kind == Kind::Data).map(|file| file.name.part)
    };
    let parts: Vec<u16> = (1..=6).flat_map(files).collect();
    assert_eq!(parts.len(), 6);
    assert!((1..=6).all(|node| files(node).count() == 1), "{parts:?}");
    assert_eq!(parts.iter().copied().collect::<BTreeSet<_>>(), BTreeSet::from([0, 1, 2]));
    drop((table, device));
    for part in 0..3 {
        let first = (1..=6).find(|node| files(*node).any(|found| found == part));
        let first = first.expect("it has two copies");
        world.set(first, Behaviour::Away);
        let device = device_of(&world, u64::from(part) + 2);
        assert!(super::content(&device, "table") == content);
        // Over the end of a stripe, by a queue.
        let file: Arc<dyn File> = device.open("table", Mode::Read).expect("it is there");
        let mut queue = device.queue(4).expect("it is in memory");
        let offset = STRIPE_BYTES - 1_000;
        let work = Work::Read { offset, buffer: Buffer::zeroed(5_000) };
        assert!(queue.submit(Request { tag: 9, file, work }).is_ok());
        let mut completions = Vec::new();
        assert_eq!(queue.wait(1, &mut completions), Ok(1));
        let done = completions.pop().expect("there is one");
        assert!(done.result.is_ok());
        let buffer = done.buffer.expect("it comes back");
        assert!(content.get(offset as usize..offset as usize + 5_000) == Some(&*buffer));
        world.set(first, Behaviour::Up);
    }
}
