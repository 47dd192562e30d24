//! Layers win in their order, and nothing that is unknown or refused passes.

use super::settings::SETTINGS;
use super::{Effective, Origin, Scope, parse_file};

fn variables(pairs: &[(&str, &str)]) -> impl Iterator<Item = (String, String)> + use<> {
    let owned = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
    pairs.iter().map(owned).collect::<Vec<_>>().into_iter()
}

fn entry(effective: &Effective, wanted: &str) -> (String, Origin) {
    let mut entries = effective.entries(Scope::Server);
    let (_, text, origin) = entries.find(|(key, ..)| *key == wanted).expect("a known key");
    (text.to_owned(), origin.clone())
}

#[test]
fn every_default_is_allowed_by_its_own_check() {
    for setting in SETTINGS {
        (setting.check)(setting.default).unwrap();
    }
    let effective = Effective::gather(None, variables(&[]), &vec![]).unwrap();
    let database = effective.database().unwrap();
    let expected = thermocline::Options::default();
    assert_eq!(database.memory_bytes, super::values::memory("auto").unwrap());
    assert_eq!(super::values::memory_of("auto", None).unwrap(), expected.memory_bytes);
    assert_eq!(database.durability, expected.durability);
    assert_eq!(database.sync_interval, expected.sync_interval);
    assert_eq!(database.io, expected.io);
    assert_eq!(database.engines, expected.engines);
    assert_eq!(database.journal_bytes, expected.journal_bytes);
    assert_eq!(database.background_threads, expected.background_threads);
    assert_eq!(effective.keyspace().unwrap(), thermocline::KeyspaceOptions::default());
}

#[test]
fn file_then_variable_then_flag() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.toml");
    let path = path.to_str().unwrap();
    #[expect(clippy::disallowed_methods, reason = "writes what the test reads")]
    std::fs::write(path, "memory = \"9mb\"\nport = 1\nthreads = 3\nio = \"direct\"\n").unwrap();
    let set = [("THERMOCLINE_PORT", "2"), ("THERMOCLINE_THREADS", "4"), ("HOME", "/")];
    let flags = vec![("threads", "5".to_owned())];
    let effective = Effective::gather(Some(path), variables(&set), &flags).unwrap();
    assert_eq!(entry(&effective, "memory"), ("9mb".into(), Origin::File(path.into())));
    let variable = Origin::Variable("THERMOCLINE_PORT".into());
    assert_eq!(entry(&effective, "port"), ("2".into(), variable));
    assert_eq!(entry(&effective, "threads"), ("5".into(), Origin::Flag));
    assert_eq!(entry(&effective, "durability"), ("flushed".into(), Origin::Default));

    let named = [("THERMOCLINE_CONFIG", path)];
    let effective = Effective::gather(None, variables(&named), &vec![]).unwrap();
    assert_eq!(entry(&effective, "threads").0, "3", "the variable names the file");
}

#[test]
fn unknown_keys_name_the_nearest_known_one() {
    let error = parse_file("memroy = \"1gb\"").unwrap_err();
    assert_eq!(error, "unknown key \"memroy\"; the nearest known one is \"memory\"");
    let set = [("THERMOCLINE_DURABLITY", "synced")];
    let error = Effective::gather(None, variables(&set), &vec![]).unwrap_err();
    assert!(error.ends_with("the nearest known one is THERMOCLINE_DURABILITY"), "{error}");
    let error = parse_file("[server]\nport = 1").unwrap_err();
    assert!(error.starts_with("unknown key \"server\""), "{error}");
}

#[test]
fn a_refused_value_says_where_it_stands_even_if_a_later_layer_replaces_it() {
    let set = [("THERMOCLINE_MEMORY", "lots")];
    let flags = vec![("memory", "1gb".to_owned())];
    let error = Effective::gather(None, variables(&set), &flags).unwrap_err();
    assert!(error.starts_with("variable THERMOCLINE_MEMORY: \"lots\" is no size"), "{error}");
    let error = parse_file("a = 1\nb = = 2").unwrap_err();
    assert!(error.starts_with("line 2: "), "{error}");
    assert!(parse_file("memory = true").unwrap_err().contains("text or a whole number"));
    let error = Effective::gather(Some("/nowhere/t.toml"), variables(&[]), &vec![]).unwrap_err();
    assert!(error.starts_with("/nowhere/t.toml: "), "{error}");
}

#[test]
fn what_clients_may_take_comes_out_of_the_memory() {
    let shares = |memory: &str, clients: &str| {
        let flags = vec![("memory", memory.to_owned()), ("client-memory", clients.to_owned())];
        let effective = Effective::gather(None, variables(&[]), &flags).unwrap();
        let (database, server) = effective.serving()?;
        Ok::<_, String>((database.memory_bytes, server.client_memory_bytes))
    };
    assert_eq!(shares("400mb", "auto"), Ok((300 << 20, 100 << 20)));
    assert_eq!(shares("400mb", "50mb"), Ok((350 << 20, 50 << 20)));
    assert!(shares("400mb", "400mb").unwrap_err().contains("has to be smaller"));
    for clients in ["auto", "1mb"] {
        let error = shares("8mb", clients).unwrap_err();
        let (_, advice) = error.split_once("--memory ").expect("what would do");
        let advised = advice.split(' ').next().unwrap();
        assert!(shares(advised, clients).is_ok(), "{error}");
    }
}

#[test]
fn clients_and_metrics_do_not_share_a_port() {
    let serving = |metrics: &str| {
        let flags = vec![("port", "7000".to_owned()), ("metrics", metrics.to_owned())];
        Effective::gather(None, variables(&[]), &flags).unwrap().serving().map(drop)
    };
    assert!(serving("127.0.0.1:7000").unwrap_err().contains("127.0.0.1:7000"));
    assert_eq!(serving("127.0.0.1:7001"), Ok(()));
}

#[test]
fn each_level_has_its_compression() {
    for text in ["zstd", "none,lz4,zstd", "lz4,none"] {
        let flags = vec![("compression", text.to_owned())];
        let effective = Effective::gather(None, variables(&[]), &flags).unwrap();
        let settings = thermocline::EngineKind::Lsm.settings().with("compression", text).unwrap();
        assert_eq!(settings.to_string(), format!("compression={text}"));
        assert_eq!(effective.database().unwrap().engines, settings.into());
        assert_eq!(effective.serving().unwrap().0.engines, settings.into());
    }
    assert_eq!(super::values::compression("lz4").unwrap(), Default::default(), "the default");
    let error = super::values::compression("lz4,gzip").unwrap_err();
    assert!(error.contains("\"lz4,gzip\"") && error.contains("none, lz4 or zstd"), "{error}");
    assert!(super::values::compression("lz4,lz4,lz4,lz4,lz4,lz4,lz4,lz4").is_err());
}

#[test]
fn engines_have_settings() {
    use thermocline::EngineKind::{F2, HashKv, Lsm};
    let of = |text: &str| {
        let flags = vec![("engine-settings", text.to_owned()), ("compression", "zstd".to_owned())];
        Effective::gather(None, variables(&[]), &flags)?.database().map(|it| it.engines)
    };
    let zstd = Lsm.settings().with("compression", "zstd").unwrap();
    assert_eq!(of("none"), Ok(zstd.into()));
    let hashkv = HashKv.settings().with("disk_bytes_max", "10737418240").unwrap();
    let hashkv = hashkv.with("reserve_percent", "50").unwrap();
    let f2 = F2.settings().with("single_log", "on").unwrap();
    let lsm = zstd.with("block_bytes", "8192").unwrap();
    let all = thermocline::EngineSettings::from(hashkv).with(f2).with(lsm);
    let text = "hashkv:disk-bytes-max=10gb:reserve-percent=50;f2:single-log;lsm:block-bytes=8kb";
    for driver in [HashKv, F2, Lsm].map(|engine| engine.driver()) {
        assert_eq!(of(text).unwrap().of(driver), all.of(driver));
    }
    for text in [
        "",
        "hashkv",
        "rocksdb:block-bytes=4096",
        "hashkv:reserve-percent=401",
        "hashkv:disk-bytes-max=much",
        "hashkv:chunk-bytes=128",
        "f2:chunk-bytes=128;",
    ] {
        let error = of(text).unwrap_err();
        assert!(!error.is_empty(), "{text:?}");
    }
}

#[test]
fn memory_may_be_a_share_of_what_the_process_may_use() {
    const MIB: u64 = 1 << 20;
    let memory = |text: &str, allowed: u64| super::values::memory_of(text, Some(allowed));
    assert_eq!(memory("auto", 64 << 30), Ok(1 << 30));
    assert_eq!(memory("auto", 512 * MIB), Ok(256 * MIB), "of a small container half");
    assert_eq!(memory("auto", 10 * MIB), Ok(8 * MIB), "less than that nothing can be opened with");
    assert_eq!(memory("75%", 400 * MIB), Ok(300 * MIB));
    assert_eq!(memory("512mb", 256 * MIB), Ok(512 * MIB), "who names a size gets it");
    let error = memory("1%", 400 * MIB).unwrap_err();
    assert_eq!(error, "\"1%\" is too little memory: at least 8mb");
    let error = super::values::memory_of("50%", None).unwrap_err();
    assert_eq!(error, "\"50%\": the system does not say of what");
}

#[test]
fn refused_values() {
    let refused = [
        ("memory", &["", "0", "1", "7mb", "8388607", "1.5gb", "-1", "1xb", "20000000tb", "gb"][..]),
        ("memory", &["%", "0%", "101%", "-5%", "1.5%", "half", "50 %"]),
        ("sync-interval", &["", "1", "0s", "1d", "soon", "99999999999999999h"]),
        ("durability", &["", "none", "Synced"]),
        ("engine", &["rocksdb", "sqlite", "nova"]),
        ("io", &["mmap"]),
        ("compression", &["", "gzip", "LZ4", "lz4,", "none,none,none,none,none,none,none,lz4"]),
        ("port", &["-1", "65536", "redis"]),
        ("listen", &["localhost", "127.0.0.1:1"]),
        ("metrics", &["9121", "on"]),
        ("threads", &["0", "-1", "many"]),
        ("clients-max", &["0", "auto"]),
        ("background-threads", &["0", "257", "1000000"]),
        ("idle-timeout", &["500ms", "1500ms", "0s"]),
        ("auth-deadline", &["off"]),
        ("password-file", &[""]),
        ("backups", &[""]),
        ("domain", &["", "rack 1", "rack\n"]),
        ("stoc-choice", &["", "in turn"]),
        ("copies", &["", "0", "4", "two"]),
        ("rho", &["", "0", "17", "-1"]),
        ("log-ensemble", &["0", "2", "4", "5"]),
        ("stoc-timeout", &["", "0s", "off"]),
        ("throttle-mb-per-s", &["", "0", "-1", "4mb"]),
        ("throttle-ms-per-operation", &["0", "2ms"]),
    ];
    for (key, texts) in refused {
        for text in texts {
            let flags = vec![(key, (*text).to_owned())];
            let error = Effective::gather(None, variables(&[]), &flags).unwrap_err();
            assert!(error.starts_with(&format!("--{key}: ")), "{key} {text:?}: {error}");
        }
    }
}

#[test]
fn ranges_and_throttles_have_their_settings() {
    let of = |flags: &[(&'static str, &str)]| {
        let flags = flags.iter().map(|(key, text)| (*key, (*text).to_owned())).collect();
        Effective::gather(None, variables(&[]), &flags).unwrap()
    };
    let expected = ltc::RangeOptions::default();
    let default = of(&[]).ranges().unwrap();
    assert_eq!(format!("{default:?}"), format!("{expected:?}"));
    let ranges = of(&[("copies", "1"), ("log-ensemble", "1"), ("stoc-timeout", "20s")]).ranges();
    let ranges = ranges.unwrap();
    assert_eq!((ranges.copies, ranges.ensemble, ranges.quorum), (1, 1, 1));
    assert_eq!(ranges.slow, std::time::Duration::from_secs(20));
    assert_eq!(of(&[]).throttle(), Ok(None));
    let throttle = of(&[("throttle-mb-per-s", "4"), ("throttle-ms-per-operation", "2")]).throttle();
    let throttle = throttle.unwrap().expect("it is throttled");
    assert_eq!(throttle.bytes_per_s.map(u64::from), Some(4_000_000));
    assert_eq!(throttle.operation, std::time::Duration::from_millis(2));
    let throttle = of(&[("throttle-ms-per-operation", "1")]).throttle().unwrap();
    assert_eq!(throttle.expect("it is throttled").bytes_per_s, None);
}

#[test]
fn sizes_and_times_have_the_units_they_say() {
    use super::values::{bytes, duration};
    use std::time::Duration;
    assert_eq!(bytes("512").unwrap(), 512);
    assert_eq!(bytes("3kb").unwrap(), 3 << 10);
    assert_eq!(bytes("2MB").unwrap(), 2 << 20);
    assert_eq!(bytes("1gib").unwrap(), 1 << 30);
    assert_eq!(duration("250ms").unwrap(), Duration::from_millis(250));
    assert_eq!(duration("2m").unwrap(), Duration::from_secs(120));
}
