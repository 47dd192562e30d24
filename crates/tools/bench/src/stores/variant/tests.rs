//! Names, good and bad.

use super::{Variant, is_ours, uncompressed};
use thermocline::{EngineKind, f2, flexdb, lsm};

#[test]
fn a_name_is_an_engine_and_its_settings() {
    let plain: Variant = "f2".parse().expect("a name");
    let (f2, lsm) = (f2::Options::default(), uncompressed());
    let flexdb = flexdb::Options::default();
    assert_eq!(plain, Variant { engine: EngineKind::F2, f2, lsm, flexdb });
    let changed: Variant = "f2:single-log:read-cache=0:chunk-bytes=64".parse().expect("a name");
    let expected = f2::Options {
        single_log: true,
        read_cache_bytes: Some(0),
        chunk_bytes: 64,
        ..f2::Options::default()
    };
    assert_eq!(changed.f2, expected);
}

#[test]
fn parts_of_flexdb_are_otherwise() {
    let name = "flexdb:tail=0:tail-percent=7:unscanned-percent=9:fragments=3:interval-pairs=64:memtable-bytes=4096:\
                pairs=off:tidying=off";
    let changed: Variant = name.parse().expect("a name");
    let expected = flexdb::Options {
        tail_pairs_max: 0,
        tail_percent_max: 7,
        unscanned_tail_percent_max: 9,
        fragments_max: 3,
        interval_pairs: 64,
        pairs: false,
        memtable_bytes_max: 4096,
        tidies_when_idle: false,
        ..flexdb::Options::default()
    };
    assert_eq!((changed.engine, changed.flexdb), (EngineKind::FlexDb, expected));
}

#[test]
fn parts_of_lsm_are_left_out() {
    let name = "lsm:dranges=random:lookup-index=off:range-index=off:merging=off:duplicates=off:\
                pairs=off:tidying=off";
    let changed: Variant = name.parse().expect("a name");
    let expected = lsm::Options {
        routing: lsm::Routing::Random,
        lookup_index_bytes_max: 0,
        range_index: false,
        merging: false,
        duplicates: false,
        pairs: false,
        tidies_when_idle: false,
        ..uncompressed()
    };
    assert_eq!((changed.engine, changed.lsm), (EngineKind::Lsm, expected));
    assert_eq!(uncompressed().compression, [lsm::Compression::None]);
    let single: Variant = "lsm:dranges=off".parse().expect("a name");
    assert_eq!(single.lsm.routing, lsm::Routing::One);
}

#[test]
fn other_names_are_refused() {
    let names = [
        "",
        "f3",
        "f2:",
        "f2:single",
        "f2:read-cache",
        "f2:chunk-bytes=7",
        "memory:x=1",
        "lsm:merging",
        "flexdb:pairs=64",
    ];
    for name in names {
        assert!(name.parse::<Variant>().is_err(), "{name:?}");
    }
}

#[test]
fn ours_are_told_from_theirs() {
    assert!(is_ours("f2:single-log") && is_ours("memory"));
    assert!(!is_ours("rocksdb") && !is_ours(""));
}
