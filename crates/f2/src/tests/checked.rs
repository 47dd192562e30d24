//! What the offline check says of the cold half: whole stores, and entries that lead astray.

use std::sync::Arc;

use device::{Device, Mode};
use engine::{Engine, Superblock};
use environment::Environment;

use super::stores::{Bench, key, value};
use super::two_logs::{KEYS, cold_store, push_out, small_cold};
use crate::check;
use crate::checkpoint::{SUPERBLOCK, SUPERBLOCK_KIND};
use crate::cold_index::CHUNKS;
use crate::hybrid_log::stretches;
use crate::open::{StoredLog, decode_standing};
use crate::record::{WORD_BYTES, stamp};

/// Bits of an entry that are its address.
const ADDRESS: u64 = (1 << 44) - 1;
/// A chunk's record has two words and its name before the entries.
const ENTRIES_AT: usize = 3 * WORD_BYTES;

/// What a store leaves when it is closed.
fn closed(bench: &Bench) -> Arc<dyn Device> {
    bench.store.flush().expect("flushes");
    bench.store.close().expect("closes");
    Arc::clone(&bench.device)
}

/// Changes the first entry of the newest chunk, with a checksum that is right, and answers where the
/// chunk lies.
fn change_entry(device: &Arc<dyn Device>, change: impl Fn(u64) -> u64) -> (String, u64) {
    let superblock = Superblock::open(&**device, SUPERBLOCK, SUPERBLOCK_KIND).expect("is there");
    let standing = decode_standing(&superblock).expect("is whole");
    let geometry = standing.identity.chunks.background_geometry();
    let environment = Environment::seeded(1);
    let log = StoredLog::open(device, &environment, CHUNKS, standing.chunks, geometry);
    let StoredLog { segments, span, .. } = log.expect("opens");
    let mut newest = None;
    let walked = stretches(&segments, &geometry, span.begin, span.end, &mut |stretch| {
        stretch.records(&mut |at, stored| {
            newest = Some((at, stored.bytes)).filter(|_| !stored.header.is_invalid()).or(newest);
            Ok(())
        })
    });
    walked.expect("is whole");
    let (at, bytes) = newest.expect("there is a chunk");
    let segment = segments.get(geometry.segment(at)).expect("its segment is there");
    let (name, offset) = (segments.file_name(geometry.segment(at)), segment.offset(at));
    let file = device.open(&name, Mode::Write).expect("opens");
    let mut record = vec![0; bytes];
    file.read_at(offset, &mut record).expect("reads");
    let entry = record[ENTRIES_AT..].first_chunk_mut().expect("the chunk has an entry");
    *entry = change(u64::from_le_bytes(*entry)).to_le_bytes();
    stamp(&mut record, segment.salt(), at);
    file.write_at(offset, &record).expect("writes");
    (name, offset)
}

#[test]
fn a_store_that_compacts_is_whole_and_its_dead_are_counted() {
    let bench = cold_store(small_cold());
    for version in 1..4 {
        for number in 0..KEYS {
            bench.put(&key(number), &value(number, version, 8));
        }
    }
    (0..KEYS).step_by(3).for_each(|number| bench.delete(&key(number)));
    push_out(&bench);
    assert!(bench.figure("cold_compactions") > 0);
    let report = check(&closed(&bench)).expect("is checked");
    assert_eq!(report.damage, []);
    assert!(report.entries >= KEYS / 3 * 2 && report.dead > 0, "{report:?}");
    assert!(report.dead + report.entries < report.records, "the rest is hot: {report:?}");
}

#[test]
fn an_entry_that_leads_astray_is_reported_with_its_place() {
    type Change = fn(u64) -> u64;
    let cases: [(Change, &str); 5] = [
        (|entry| entry, ""),
        (|entry| entry + 1, "no record of the cold log begins"),
        (|entry| entry & !ADDRESS | 1, "no record of the cold log begins"),
        (|entry| entry | ADDRESS, "no record of the cold log begins"),
        (|entry| entry ^ (ADDRESS + 1), "a record of a key with another hash"),
    ];
    for (change, what) in cases {
        let device = closed(&cold_store(small_cold()));
        let (file, offset) = change_entry(&device, change);
        let damage = check(&device).expect("is checked").damage;
        if what.is_empty() {
            assert_eq!(damage, [], "stamped as it was");
            continue;
        }
        let [damage] = &damage[..] else { panic!("{what}: {damage:?}") };
        assert_eq!((&damage.file, damage.offset), (&file, offset), "{damage}");
        assert!(damage.what.contains(what), "{damage}");
    }
}
