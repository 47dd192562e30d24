//! Budgets parse, groups are found in both layouts.

use std::path::Path;

use super::cgroup::{Version, find};
use super::*;

#[test]
fn budgets_parse() {
    assert_eq!("10%".parse(), Ok(Budget::Percent(10.0)));
    assert_eq!("2.5%".parse(), Ok(Budget::Percent(2.5)));
    assert_eq!("all".parse(), Ok(Budget::All));
    assert_eq!("512MiB".parse(), Ok(Budget::Bytes(512 << 20)));
    assert_eq!("1.5g".parse(), Ok(Budget::Bytes(3 << 29)));
    for text in ["", "%", "0%", "-1%", "ten", "1.5", "0", "99999999999999t", "NaN%"] {
        assert!(text.parse::<Budget>().is_err(), "{text:?}");
    }
    assert_eq!("8m".parse(), Ok(Budget::Bytes(8 << 20)));
    for text in ["2", "8000000", "7.9MiB"] {
        let refused = text.parse::<Budget>().unwrap_err();
        assert_eq!(refused.to_string(), format!("{text:?} is too little: at least 8 MiB"));
    }
    assert_eq!(Budget::Percent(10.0).bytes(1e9), 100_000_000);
    assert_eq!(Budget::Percent(10.0).bytes(1e6), 8 << 20);
    assert!(Budget::All.bytes(1e9) > 2_000_000_000);
}

#[test]
fn counts_and_sizes_have_their_own_thousands() {
    assert_eq!(parse_count("10m"), Ok(10_000_000));
    assert_eq!(parse_count("1.5k"), Ok(1500));
    assert_eq!(parse_bytes("64k"), Ok(65_536));
    assert_eq!(parse_bytes("100B"), Ok(100));
    assert!(parse_count("0").is_err() && parse_count("-5").is_err() && parse_count("m").is_err());
}

#[test]
fn version_one_is_found_below_its_mount() {
    let membership = "9:name=systemd:/\n4:memory:/box/a\n0::/\n";
    let mounts = "31 25 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                  32 25 0:28 / /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory\n";
    let (version, home, _) = find(membership, mounts).unwrap();
    assert_eq!(version, Version::One);
    assert_eq!(home, Path::new("/sys/fs/cgroup/memory/box/a"));
}

#[test]
fn version_two_is_found_and_a_mount_root_is_cut_off() {
    let mounts = "30 23 0:26 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup rw,nsdelegate\n";
    let (version, home, _) = find("0::/docker/x/run\n", mounts).unwrap();
    assert_eq!(version, Version::Two);
    assert_eq!(home, Path::new("/sys/fs/cgroup/run"));
    assert!(find("0::/a\n", "").is_none());
}
