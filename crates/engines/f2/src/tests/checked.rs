//! The report of the offline check on the cold half: whole stores, and entries that lead astray.

use std::sync::Arc;

use codec::Corruption;
use device::{Device, Mode};
use engine::{Engine, Superblock};
use environment::Environment;

use super::stores::{Bench, key, value};
use super::two_logs::{KEYS, cold_store, push_out, small_cold};
use crate::address::LogAddress;
use crate::check::{DAMAGE_MAX, check};
use crate::checkpoint::{SUPERBLOCK, SUPERBLOCK_KIND};
use crate::cold_index::CHUNKS;
use crate::hybrid_log::stretches;
use crate::open::{COLD_LOG, HOT_LOG, StoredLog, decode_committed};
use crate::record::{WORD_BYTES, stamp};

/// Bits of an entry that hold its address.
const ADDRESS: u64 = (1 << 44) - 1;
/// Offset of the entries in a chunk's record: two words and the chunk's name come before them.
const ENTRIES_AT: usize = 3 * WORD_BYTES;

/// Flushes and closes a store; returns the device with its files.
pub(super) fn closed(bench: &Bench) -> Arc<dyn Device> {
    bench.store.flush().expect("flushes");
    bench.store.close().expect("closes");
    Arc::clone(&bench.device)
}

/// Returns a log of a closed store and its linked records: address, length, and the address that
/// the chain continues at.
pub(super) fn records_of(
    device: &Arc<dyn Device>,
    name: &'static str,
) -> (StoredLog, Vec<(LogAddress, usize, LogAddress)>) {
    let superblock = Superblock::open(&**device, SUPERBLOCK, SUPERBLOCK_KIND).expect("is there");
    let committed = decode_committed(&superblock).expect("is whole");
    let (span, units) = match name {
        HOT_LOG => (committed.hot, committed.identity.hot),
        COLD_LOG => (committed.cold, committed.identity.cold),
        _ => (committed.chunks, committed.identity.chunks),
    };
    let geometry = units.background_geometry();
    let log = StoredLog::open(device, &Environment::seeded(1), name, span, geometry);
    let log = log.expect("opens");
    let mut records = Vec::new();
    let walked = stretches(&log.segments, &geometry, span.begin, span.end, &mut |stretch| {
        stretch.records(&mut |at, stored| {
            if !stored.header.is_invalid() {
                records.push((at, stored.bytes, stored.header.previous()));
            }
            Ok(())
        })
    });
    walked.expect("is whole");
    (log, records)
}

/// Changes the record at an address, and returns its place. If `change` returns true, the record
/// gets a correct checksum again.
pub(super) fn change_record(
    device: &Arc<dyn Device>,
    log: &StoredLog,
    (at, bytes): (LogAddress, usize),
    change: impl FnOnce(&mut [u8]) -> bool,
) -> (String, u64) {
    let number = log.geometry.segment(at);
    let segment = log.segments.get(number).expect("its segment is there");
    let (name, offset) = (log.segments.file_name(number), segment.offset(at));
    let file = device.open(&name, Mode::Write).expect("opens");
    let mut record = vec![0; bytes];
    file.read_at(offset, &mut record).expect("reads");
    if change(&mut record) {
        stamp(&mut record, segment.salt(), at);
    }
    file.write_at(offset, &record).expect("writes");
    (name, offset)
}

/// Changes the first entry of the newest chunk, with a correct checksum, and returns the chunk's
/// place.
fn change_entry(device: &Arc<dyn Device>, change: impl Fn(u64) -> u64) -> (String, u64) {
    let (log, records) = records_of(device, CHUNKS);
    let (at, bytes, _) = *records.last().expect("there is a chunk");
    change_record(device, &log, (at, bytes), |record| {
        let entry = record[ENTRIES_AT..].first_chunk_mut().expect("the chunk has an entry");
        *entry = change(u64::from_le_bytes(*entry)).to_le_bytes();
        true
    })
}

/// Inverts a bit of the record's last word.
pub(super) fn rot(record: &mut [u8]) -> bool {
    let last = record.len() - WORD_BYTES;
    record[last] ^= 1;
    false
}

/// Makes the chain continue at another address.
fn lead_to(previous: LogAddress) -> impl FnOnce(&mut [u8]) -> bool {
    move |record| {
        record[..6].copy_from_slice(&previous.get().to_le_bytes()[..6]);
        true
    }
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

/// A closed store with chains of several records in its hot log.
fn chained() -> Arc<dyn Device> {
    let bench = cold_store(small_cold());
    for round in 0..4 {
        for number in 0..40 {
            // The value gets longer each time, so that it is not changed in place.
            bench.put(&key(number), &value(number, round, 8 + 8 * round as usize));
        }
    }
    closed(&bench)
}

#[test]
fn every_kind_of_damage_is_reported_at_once_with_its_place() {
    let device = chained();
    assert_eq!(check(&device).expect("is checked").damage, []);
    let (hot, records) = records_of(&device, HOT_LOG);
    let mut linked = records.iter().filter(|(_, _, to)| *to >= hot.span.begin && to.get() > 0);
    let (first, last) = (linked.next().expect("a chain"), linked.next_back().expect("chains"));
    let other = records.iter().find(|(at, _, _)| *at < last.0 && *at != last.2);
    let other = other.expect("a record of another chain").0;
    let unhurt = records[records.len() / 2 + 1..].iter().find(|it| it.0 > first.0 && *it != last);
    let unhurt = unhurt.expect("a record between");
    let wanted = [
        (
            change_record(&device, &hot, (first.0, first.1), lead_to(first.2.plus(16))),
            "where no record begins",
        ),
        (change_record(&device, &hot, (unhurt.0, unhurt.1), rot), "checksum does not match"),
        (
            change_record(&device, &hot, (last.0, last.1), lead_to(other)),
            "at a record of another chain",
        ),
        (
            change_entry(&device, |entry| entry & !ADDRESS | 1),
            "where no record of the cold log begins",
        ),
        {
            let (cold, records) = records_of(&device, COLD_LOG);
            let (at, bytes, _) = records[records.len() / 2];
            (change_record(&device, &cold, (at, bytes), rot), "checksum does not match")
        },
    ];
    let report = check(&device).expect("is checked");
    for ((file, offset), what) in &wanted {
        let at = |it: &&Corruption| (&it.file, it.offset) == (file, *offset);
        let found: Vec<&Corruption> = report.damage.iter().filter(at).collect();
        let [found] = found[..] else { panic!("{file} {offset}: {found:?}") };
        assert!(found.what.contains(what), "{found}");
    }
    assert_eq!(report.damage.len(), wanted.len(), "{:?}", report.damage);
    assert_eq!(report.further_damage, 0);
    assert!(report.records as usize > records.len(), "what lies behind damage was read");
}

#[test]
fn a_damaged_chunk_is_reported_with_its_place() {
    let device = chained();
    let (log, records) = records_of(&device, CHUNKS);
    for (at, bytes, _) in [records[0], records[records.len() / 2], records[records.len() - 1]] {
        let (file, offset) = change_record(&device, &log, (at, bytes), rot);
        let damage = check(&device).expect("is checked").damage;
        let [damage] = &damage[..] else { panic!("{damage:?}") };
        assert_eq!((&damage.file, damage.offset), (&file, offset), "{damage}");
        assert!(damage.what.contains("checksum does not match"), "{damage}");
        // The second change restores the byte.
        change_record(&device, &log, (at, bytes), rot);
        assert_eq!(check(&device).expect("is checked").damage, []);
    }
}

#[test]
fn a_damaged_head_and_a_damaged_superblock_are_reported_with_their_places() {
    let device = chained();
    let turn = |name: &str, offset: u64| {
        let file = device.open(name, Mode::Write).expect("opens");
        let mut byte = [0];
        file.read_at(offset, &mut byte).expect("reads");
        file.write_at(offset, &[!byte[0]]).expect("writes");
    };
    let whole = check(&device).expect("is checked");
    for name in [HOT_LOG, COLD_LOG, CHUNKS] {
        let (log, _) = records_of(&device, name);
        let file = log.segments.file_name(log.geometry.segment(log.span.begin));
        turn(&file, 20);
        let report = check(&device).expect("is checked");
        let [damage] = &report.damage[..] else { panic!("{:?}", report.damage) };
        assert_eq!((&damage.file, damage.offset), (&file, 0), "{damage}");
        assert!(name == CHUNKS || report.records < whole.records, "its records are lost");
        turn(&file, 20);
    }
    assert_eq!(check(&device).expect("is checked"), whole);
    turn(SUPERBLOCK, 4096 + 100);
    let report = check(&device).expect("is checked");
    let [damage] = &report.damage[..] else { panic!("{:?}", report.damage) };
    assert_eq!((&damage.file[..], report.records), (SUPERBLOCK, 0));
    assert!((4096..8192).contains(&damage.offset), "{damage}");
}

#[test]
fn a_segment_that_is_missing_or_cut_short_does_not_end_the_check() {
    let device = chained();
    let whole = check(&device).expect("is checked");
    let files = || device.list("").expect("lists").into_iter().map(|entry| entry.name);
    let gone = files().find(|name| name.starts_with(COLD_LOG)).expect("a segment");
    let cut = files().rfind(|name| name.starts_with(HOT_LOG)).expect("a segment");
    device.remove(&gone).expect("removes");
    let file = device.open(&cut, Mode::Write).expect("opens");
    file.set_len(file.len().expect("a length") - 4096).expect("cuts");
    let report = check(&device).expect("is checked");
    let told: Vec<_> = report.damage.iter().map(|it| (it.file.clone(), &it.what[..])).collect();
    let wanted = [(cut, "a segment is cut short"), (gone, "a segment of the log is missing")];
    assert_eq!(told, wanted);
    assert!(report.records > 0 && report.records < whole.records);
}

#[test]
fn what_lies_behind_the_end_of_a_log_is_nothing() {
    let device = chained();
    let whole = check(&device).expect("is checked");
    let names: Vec<_> =
        device.list("").expect("lists").into_iter().map(|entry| entry.name).collect();
    for log in [HOT_LOG, COLD_LOG, CHUNKS] {
        let last = names.iter().rfind(|name| name.starts_with(log)).expect("a segment");
        let file = device.open(last, Mode::Write).expect("opens");
        file.write_at(file.len().expect("a length"), &vec![0xa5; 5000]).expect("writes");
    }
    assert_eq!(check(&device).expect("is checked"), whole);
    let bench = Bench::open_on(device, small_cold());
    for number in 0..40 {
        assert_eq!(bench.get(&key(number)), Some(value(number, 3, 32)), "{number}");
    }
}

#[test]
fn damage_beyond_what_is_listed_is_counted() {
    let device = chained();
    let (cold, records) = records_of(&device, COLD_LOG);
    // One of two is lost, so that each is a place of its own.
    let lost: Vec<_> = records.iter().step_by(2).collect();
    assert!(lost.len() > DAMAGE_MAX, "{}", lost.len());
    for (at, bytes, _) in &lost {
        change_record(&device, &cold, (*at, *bytes), rot);
    }
    let report = check(&device).expect("is checked");
    assert_eq!(report.damage.len(), DAMAGE_MAX);
    assert_eq!(report.further_damage as usize, lost.len() - DAMAGE_MAX);
}

#[test]
fn what_leads_to_a_missing_segment_is_not_told_again() {
    let device = chained();
    let (log, records) = records_of(&device, HOT_LOG);
    let segment = |at| log.geometry.segment(at);
    let leads_back = |(at, _, to): &&(LogAddress, usize, LogAddress)| {
        *to >= log.span.begin && *to != LogAddress::NONE && segment(*to) < segment(*at)
    };
    let to = records.iter().find(leads_back).expect("a chain over two segments").2;
    let gone = log.segments.file_name(segment(to));
    device.remove(&gone).expect("removes");
    let report = check(&device).expect("is checked");
    let told: Vec<_> = report.damage.iter().map(|it| (&it.file, &it.what[..])).collect();
    assert_eq!(told, [(&gone, "a segment of the log is missing")]);
    assert!(report.records > 0);
}
