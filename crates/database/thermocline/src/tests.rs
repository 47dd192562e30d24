//! The catalog's and the write record's bytes, and runs of a whole database with power cuts.

mod crash;
mod racing_writes;
#[path = "../tests/small_parts.rs"]
mod small_parts;
#[path = "../tests/tunings.rs"]
mod tunings;

use engine::{Op, Settings};
use proptest::prelude::*;

use crate::catalog::{Catalog, Entry};
use crate::drivers::EngineKind;
use crate::options::KeyspaceOptions;
use crate::record;

/// The engines that a user has: the reference engine, the last one, is an engine of tests.
pub(crate) const ENGINES: &[EngineKind] = match EngineKind::ALL.split_last() {
    Some((_, engines)) => engines,
    None => &[],
};

#[test]
fn a_write_record_is_the_documented_bytes() {
    let mut bytes = Vec::new();
    record::encode(3, &Op::Put { key: b"k", value: b"v" }, &mut bytes);
    record::encode(300, &Op::Delete { key: b"old" }, &mut bytes);
    record::encode(3, &Op::DeleteRange { start: b"a", end: Some(b"c") }, &mut bytes);
    let documented =
        [1, 3, 1, b'k', 1, b'v', 2, 0xac, 2, 3, b'o', b'l', b'd', 3, 3, 1, b'a', 1, b'c'];
    assert_eq!(bytes, documented);
}

#[test]
fn a_record_that_ends_early_or_lies_is_refused() {
    let mut bytes = Vec::new();
    record::encode(3, &Op::Put { key: b"key", value: b"value" }, &mut bytes);
    for end in 1..bytes.len() {
        assert!(record::decode(&bytes[..end]).is_err(), "{end} bytes");
    }
    let damage = record::decode(&[9, 1, 0]).unwrap_err();
    assert!(damage.what.contains("unknown kind 9"), "{damage}");
    let declared = [1, 3, 0xff, 0xff, 0xff, 0xff, 0x0f];
    assert!(record::decode(&declared).is_err(), "a key of 4 GiB that is not there");
}

/// As documented: version 1 says nothing about memory.
#[test]
fn a_catalog_of_version_1_is_read() {
    let mut body = vec![7; 16];
    body.extend([2, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1]);
    body.extend([1, 0, 0, 0, 1, 2, b'f', b'2', 1, b's']);
    let mut bytes = codec::Format::new(*b"THERMOCL", 1, 0).header(0).encode().to_vec();
    bytes.extend(codec::crc32c(&body).to_le_bytes());
    bytes.extend(&body);
    let catalog = Catalog::decode(&bytes).unwrap();
    let options = KeyspaceOptions { engine: EngineKind::F2, journaled: true, ..Default::default() };
    assert_eq!(catalog.keyspaces, [Entry { id: 1, name: "s".to_owned(), options }]);
    assert_eq!((catalog.next_keyspace, catalog.newest.get()), (2, 9));
}

/// As documented: version 4 ends an entry with its settings, version 5 with the name of a merge
/// operator.
#[test]
fn a_catalog_of_version_4_has_no_merge_operators_and_one_of_version_5_has() {
    let decoded = |version, merge: &[u8]| {
        let mut body = vec![7; 16];
        body.extend([2, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1]);
        body.extend([1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        body.extend([6, b'f', b'l', b'e', b'x', b'd', b'b', 1, b's', 1, 0, 64]);
        body.extend(merge);
        let mut bytes = codec::Format::new(*b"THERMOCL", version, 0).header(0).encode().to_vec();
        bytes.extend(codec::crc32c(&body).to_le_bytes());
        bytes.extend(&body);
        Catalog::decode(&bytes)
            .map(|catalog| (catalog.keyspaces[0].options, catalog.encode(), bytes))
    };
    let settings = flexdb::Options { interval_pairs: 64, ..flexdb::Options::default() };
    let settings = Some(settings.into());
    let mut options =
        KeyspaceOptions { engine: EngineKind::FlexDb, settings, ..Default::default() };
    assert_eq!(decoded(4, b"").unwrap().0, options);
    assert_eq!(decoded(5, &[0]).unwrap().0, options);
    options.merge = Some("add".parse().unwrap());
    let (found, again, bytes) = decoded(5, &[3, b'a', b'd', b'd']).unwrap();
    assert_eq!((found, again), (options, bytes));
    for bad in [&[][..], &[4, b'a', b'd', b'd'], &[1, b' '], &[1, 0xff]] {
        assert!(decoded(5, bad).is_err(), "{bad:?}");
    }
}

/// Another build wrote it: nothing is damaged.
#[test]
fn a_catalog_with_an_engine_of_another_build_is_refused_by_name() {
    let mut catalog = Catalog::new([7; 16]);
    let options = KeyspaceOptions { engine: EngineKind::FlexDb, ..Default::default() };
    catalog.keyspaces.push(Entry { id: 1, name: "s".to_owned(), options });
    let bytes = catalog.encode();
    let (head, body) = bytes.split_at(codec::FileHeader::LEN + 4);
    let at = body.windows(6).position(|bytes| bytes == b"flexdb").unwrap();
    let mut body = body.to_vec();
    body[at..at + 6].copy_from_slice(b"sqlite");
    let mut other = head[..codec::FileHeader::LEN].to_vec();
    other.extend(codec::crc32c(&body).to_le_bytes());
    other.extend(&body);
    let refused = Catalog::decode(&other).unwrap_err();
    assert_eq!(refused, crate::Error::UnknownEngine { name: "sqlite".to_owned() });
}

proptest! {
    #[test]
    fn records_round_trip(
        steps in prop::collection::vec(
            (any::<u32>(), any::<bool>(), prop::collection::vec(any::<u8>(), 0..20),
             prop::option::of(prop::collection::vec(any::<u8>(), 0..20))), 0..10),
    ) {
        let steps: Vec<(u32, Op<'_>)> = steps
            .iter()
            .map(|(id, is_range, key, value)| match (is_range, value) {
                (true, end) => (*id, Op::DeleteRange { start: key, end: end.as_deref() }),
                (false, Some(value)) => (*id, Op::Put { key, value }),
                (false, None) => (*id, Op::Delete { key }),
            })
            .collect();
        let mut bytes = Vec::new();
        let mut bound = 0;
        for (keyspace, step) in &steps {
            record::encode(*keyspace, step, &mut bytes);
            bound += record::encoded_bytes_max(step);
        }
        prop_assert!(bytes.len() as u64 <= bound);
        prop_assert_eq!(record::decode(&bytes).unwrap(), steps);
    }

    #[test]
    fn catalogs_round_trip_and_no_bytes_panic(
        ids in prop::collection::vec(any::<u32>(), 0..5),
        journaled: bool,
        expiring: bool,
        merge in prop::option::of("[a-z0-9._-]{1,32}"),
        interval_pairs in prop::option::of(2..=4096usize),
        memory_bytes in prop::option::of(1..=u64::MAX),
        noise in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let settings = interval_pairs.and_then(|interval_pairs| {
            let options = flexdb::Options { interval_pairs, ..flexdb::Options::default() };
            Settings::from(options).if_any()
        });
        let merge = merge.map(|name| name.parse().unwrap());
        let mut catalog = Catalog::new([7; 16]);
        for id in ids {
            let options = KeyspaceOptions {
                engine: EngineKind::FlexDb,
                journaled,
                memory_bytes,
                expiring,
                merge,
                settings,
            };
            catalog.keyspaces.push(Entry { id, name: format!("k{id}"), options });
        }
        prop_assert_eq!(&Catalog::decode(&catalog.encode()).unwrap(), &catalog);
        prop_assert!(Catalog::decode(&noise).is_err());
        let mut tail = catalog.encode();
        tail.truncate(20);
        tail.extend_from_slice(&noise);
        prop_assert!(Catalog::decode(&tail).is_err());
    }
}
