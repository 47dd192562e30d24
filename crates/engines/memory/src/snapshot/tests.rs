//! Tests of the snapshot format alone.

use std::fmt::Write as _;
use std::sync::Arc;

use codec::{Reader, SeqNo};
use device::{Device, Mode};
use environment::Environment;
use memory_budget::MemoryBudget;
use workers::{Group, Pool};

use super::format::{
    self, Block, BlockHeader, Committed, Head, Identity, Summary, Totals, file_name, file_number,
};
use super::load::load;
use super::reader;
use super::writer::SnapshotWriter;
use crate::map::LeafBuilder;

const IDENTITY: Identity = Identity { number: 7, nonce: 0x1122_3344_5566_7788 };
const PERSISTED: SeqNo = SeqNo::new(42);

fn write(device: &dyn Device, pairs: &[(&[u8], &[u8])], block_bytes: usize) -> Summary {
    let budget = Arc::new(MemoryBudget::new(0));
    let writer = SnapshotWriter::create(device, IDENTITY, PERSISTED, block_bytes, &budget);
    let mut writer = writer.expect("begins");
    for (key, value) in pairs {
        writer.push(key, value).expect("writes");
    }
    writer.finish().expect("ends")
}

fn bytes(device: &dyn Device) -> Vec<u8> {
    let file = device.open(&file_name(IDENTITY.number), Mode::Read).expect("opens");
    let mut bytes = vec![0; file.len().expect("has a length") as usize];
    file.read_at(0, &mut bytes).expect("reads");
    bytes
}

#[test]
fn the_page_s_example_is_what_is_written() {
    let device = device::memory();
    let summary = write(&*device, &[(b"a", b"1"), (b"bc", b"two")], 1 << 20);
    let totals = Totals { blocks: 1, pairs: 2, pair_bytes: 7 };
    assert_eq!(summary, Summary { identity: IDENTITY, bytes: 3 * 4096, totals });
    let written = bytes(&*device);
    let mut lines = String::new();
    for at in [0, 16, 32, 4080, 4096, 4112, 8192, 8208, 8224] {
        let hex: Vec<_> = written[at..at + 16].iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(lines, "{at:>6}  {}", hex.join(" ")).expect("strings take all");
    }
    let page = include_str!("../../../../../docs/formats/memory-snapshot.md");
    assert!(page.contains(&lines), "the page should show:\n{lines}");
}

#[test]
fn pairs_of_all_sizes_come_back_from_blocks_of_all_sizes() {
    let long = vec![1; 300_000];
    let pairs: Vec<(Vec<u8>, Vec<u8>)> = (0..400_u32)
        .map(|number| {
            let key = format!("{number:05}").into_bytes();
            let len = [0, 1, 100, 127, 128, 4096, 9000][number as usize % 7];
            (key, vec![number as u8; len])
        })
        .chain([(b"x".to_vec(), long.clone()), (long, Vec::new())].into_iter().take(1))
        .collect();
    let borrowed: Vec<_> = pairs.iter().map(|(key, value)| (&**key, &**value)).collect();
    for block_bytes in [1, 500, 4096, 1 << 20] {
        let device = device::memory();
        let summary = write(&*device, &borrowed, block_bytes);
        let mut found = Vec::new();
        reader::read(&*device, &summary, PERSISTED, &mut |key, value| {
            found.push((key.to_vec(), value.to_vec()));
        })
        .expect("reads");
        assert_eq!(found, pairs);
        assert_eq!(summary.bytes, bytes(&*device).len() as u64);
    }
}

/// Pairs with values of all sizes under keys that begin alike.
fn many_pairs() -> Vec<(Vec<u8>, Vec<u8>)> {
    let pair = |number: u32| {
        let group = number / 150;
        let key = format!("tenant/{group:04}/account/{:07}", number * 7).into_bytes();
        let len = [3, 0, 90, 1024, 1025, 9000][(number % 211) as usize % 6];
        (key, vec![number as u8; len])
    };
    (0..1200).map(pair).collect()
}

fn three_threads() -> (Pool, Group) {
    let pool = Pool::start(&Environment::seeded(1), 3, &telemetry::Registry::default());
    let pool = pool.expect("threads start");
    let group = pool.group("load");
    (pool, group)
}

#[test]
fn what_workers_load_is_what_one_thread_loads() {
    let pairs = many_pairs();
    let (_pool, group) = three_threads();
    let borrowed: Vec<_> = pairs.iter().map(|(key, value)| (&**key, &**value)).collect();
    for block_bytes in [1, 500, 9000, 100_000, 1 << 24] {
        let device = device::memory();
        let summary = write(&*device, &borrowed, block_bytes);
        let loaded = load(&*device, &group, &summary, PERSISTED);
        let leaves = loaded.expect("the file is whole").finish();
        assert_eq!(leaves[0].0, b"", "the first leaf begins where keys begin");
        let mut found = Vec::new();
        for (at, (low, leaf)) in leaves.iter().enumerate() {
            let high = leaves.get(at + 1).map(|(high, _)| high.as_slice());
            for index in 0..leaf.len() {
                let key = leaf.key(index);
                assert!(*low <= key && high.is_none_or(|high| key.as_slice() < high), "{key:?}");
                assert_eq!(leaf.find(&key), Ok(index));
                let value = leaf.newest(index).expect("no tombstone is loaded");
                found.push((key, value.bytes().to_vec()));
            }
        }
        assert!(found == pairs, "blocks of {block_bytes} bytes");
        let mut alone = LeafBuilder::default();
        pairs.iter().for_each(|(key, value)| alone.push(key, value));
        let least = alone.finish().len();
        let most = least + 2 * summary.totals.blocks as usize;
        assert!((least..=most).contains(&leaves.len()), "{} leaves, {least} alone", leaves.len());
    }
}

#[test]
fn of_several_damages_the_first_in_the_file_is_reported() {
    let pairs = many_pairs();
    let (_pool, group) = three_threads();
    let borrowed: Vec<_> = pairs.iter().map(|(key, value)| (&**key, &**value)).collect();
    let device = device::memory();
    let summary = write(&*device, &borrowed, 4096);
    let whole = bytes(&*device);
    let units = whole.len() / 4096;
    let file = device.open(&file_name(IDENTITY.number), Mode::Write).expect("opens");
    for first in (0..units).step_by(7) {
        let mut damaged = whole.clone();
        // In the header of one unit, where a block's length or kind may be, and beyond.
        for unit in [first, first + 1, first + 5, units - 1] {
            let at = (unit.min(units - 1) * 4096) + 4 + unit % 11;
            damaged[at] ^= 0x41;
        }
        file.write_at(0, &damaged).expect("writes");
        let place = |error| match error {
            engine::Error::Corruption(place) => place,
            other => panic!("{other}"),
        };
        let alone = reader::read(&*device, &summary, PERSISTED, &mut |_, _| {});
        let together = load(&*device, &group, &summary, PERSISTED);
        let (alone, together) =
            (place(alone.expect_err("damaged")), place(together.expect_err("damaged")));
        assert_eq!(alone, together);
        assert!(alone.offset < (first as u64 + 1) * 4096, "{alone}");
    }
}

#[test]
fn what_a_writer_takes_is_in_the_budget_while_it_writes() {
    let budget = Arc::new(MemoryBudget::new(1));
    for finishes in [true, false] {
        let device = device::memory();
        let writer = SnapshotWriter::create(&*device, IDENTITY, PERSISTED, 10_000, &budget);
        let mut writer = writer.expect("a writer is not refused memory");
        let mut most = 0;
        for number in 0..200_u32 {
            writer.push(&number.to_be_bytes(), &[7; 500]).expect("writes");
            most = most.max(budget.used());
        }
        assert!((20_000..80_000).contains(&most), "{most} bytes for blocks of 10,000");
        if finishes {
            writer.finish().expect("ends");
        } else {
            drop(writer);
        }
        assert_eq!(budget.used(), 0);
    }
}

#[test]
fn a_whole_file_that_is_not_the_one_named_is_refused() {
    let device = device::memory();
    let summary = write(&*device, &[(b"a", b"1")], 100);
    let read = |summary: &Summary, persisted| {
        reader::read(&*device, summary, persisted, &mut |_, _| {}).is_ok()
    };
    assert!(read(&summary, PERSISTED));
    assert!(!read(&summary, SeqNo::new(41)), "it holds more than is persisted");
    let nonce = IDENTITY.nonce + 1;
    let others = [
        Summary { identity: Identity { nonce, ..IDENTITY }, ..summary },
        Summary { bytes: summary.bytes - 4096, ..summary },
        Summary { totals: Totals { pairs: 2, ..summary.totals }, ..summary },
    ];
    for other in others {
        assert!(!read(&other, PERSISTED), "{other:?}");
    }
}

#[test]
fn keys_out_of_order_are_refused() {
    for pairs in [[(&b"b"[..], &b""[..]), (b"a", b"")], [(b"a", b"1"), (b"a", b"2")]] {
        for block_bytes in [1, 1000] {
            let device = device::memory();
            let summary = write(&*device, &pairs, block_bytes);
            let result = reader::read(&*device, &summary, PERSISTED, &mut |_, _| {});
            let error = result.expect_err("keys ascend").to_string();
            assert!(error.contains("out of order"), "{error}");
        }
    }
}

#[test]
fn a_block_in_another_place_fails_its_checksum() {
    let mut bytes = vec![0; format::BLOCK_HEADER_BYTES];
    format::put_pair(&mut bytes, b"key", b"value");
    format::seal_pairs(&mut bytes, 1, IDENTITY, 4096);
    let header = BlockHeader::decode(&bytes).expect("a header");
    let Ok(Block::Pairs(1, payload)) = header.open(&bytes, IDENTITY, 4096) else {
        panic!("the block is whole")
    };
    let mut payload = Reader::new(payload);
    assert_eq!(format::take_pair(&mut payload), Ok((&b"key"[..], &b"value"[..])));
    assert!(header.open(&bytes, IDENTITY, 8192).is_err());
    let other = Identity { number: 8, ..IDENTITY };
    assert!(header.open(&bytes, other, 4096).is_err());
}

#[test]
fn standings_and_heads_come_back() {
    let totals = Totals { blocks: 1, pairs: 2, pair_bytes: 3 };
    let summary = Summary { identity: IDENTITY, bytes: 4, totals };
    for snapshot in [None, Some(summary)] {
        let committed = Committed { persisted: PERSISTED, snapshot };
        let bytes = committed.encode();
        assert_eq!(Committed::decode(&bytes), Ok(committed));
        for len in 0..bytes.len() {
            assert!(Committed::decode(&bytes[..len]).is_err(), "cut to {len} bytes");
        }
    }
    let head = Head { identity: IDENTITY, persisted: PERSISTED };
    assert_eq!(Head::decode(&head.encode()), Ok(head));
}

#[test]
fn only_names_that_we_give_are_ours() {
    assert_eq!(file_number(&file_name(7)), Some(7));
    assert_eq!(file_number(&file_name(u64::MAX)), Some(u64::MAX));
    for name in ["snapshot-7", "snapshot-", "superblock", "snapshot-0000000000000000000x"] {
        assert_eq!(file_number(name), None, "{name}");
    }
}
