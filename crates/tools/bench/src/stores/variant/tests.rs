//! Names, good and bad.

use super::{Variant, is_ours};
use thermocline::{EngineKind, f2, flexdb, lsm};

fn parsed(name: &str) -> Variant {
    name.parse().expect("a name")
}

#[test]
fn a_name_is_an_engine_and_its_settings() {
    let plain = parsed("f2");
    assert_eq!((plain.engine, plain.settings.is_empty()), (EngineKind::F2, true));
    let changed = parsed("f2:single-log:read-cache-bytes=0:chunk_bytes=64:mutable-share=0.5");
    let expected = f2::Options {
        single_log: true,
        read_cache_bytes: Some(0),
        chunk_bytes: 64,
        mutable_share: 0.5,
        ..f2::Options::default()
    };
    assert_eq!(changed.settings, expected.into());
}

#[test]
fn parts_of_flexdb_are_otherwise() {
    let changed = parsed(
        "flexdb:tail-pairs-max=0:tail-percent-max=7:unscanned-tail-percent-max=9:\
         fragments-max=3:interval-pairs=64:memtable-bytes-max=65536:pairs=off:\
         defragments-when-idle=off",
    );
    let expected = flexdb::Options {
        tail_pairs_max: 0,
        tail_percent_max: 7,
        unscanned_tail_percent_max: 9,
        fragments_max: 3,
        interval_pairs: 64,
        pairs: false,
        memtable_bytes_max: 65536,
        defragments_when_idle: false,
        ..flexdb::Options::default()
    };
    assert_eq!((changed.engine, changed.settings), (EngineKind::FlexDb, expected.into()));
}

#[test]
fn lsm_compresses_nothing_unless_it_is_asked_to() {
    let changed = parsed("lsm:routing=random:lookup-index-bytes-max=0:range-index=off:merging=off");
    let expected = lsm::Options {
        compression: vec![lsm::Compression::None],
        routing: lsm::Routing::Random,
        lookup_index_bytes_max: 0,
        range_index: false,
        merging: false,
        ..lsm::Options::default()
    };
    assert_eq!((changed.engine, changed.settings), (EngineKind::Lsm, expected.into()));
    let zstd = parsed("lsm:compression=zstd").settings;
    assert_eq!(zstd.to_string(), "compression=zstd");
    let plain = EngineKind::Lsm.settings().with("compression", "none");
    assert_eq!(parsed("lsm").settings, plain.expect("a word"));
}

#[test]
fn other_names_are_refused() {
    let names = [
        "",
        "f3",
        "sqlite",
        "f2:",
        "f2:single",
        "f2:read-cache-bytes",
        "f2:chunk-bytes=7",
        "f2:scan-compaction",
        "memory:x=1",
        "lsm:merging=1",
        "flexdb:pairs=64",
    ];
    for name in names {
        assert!(name.parse::<Variant>().is_err(), "{name:?}");
    }
}

#[test]
fn ours_are_told_from_theirs() {
    assert!(is_ours("f2:single-log") && is_ours("memory"));
    assert!(is_ours("nova") && is_ours("nova:ranges=3@cluster=dev"));
    assert!(!is_ours("rocksdb") && !is_ours("") && !is_ours("nova2"));
}
