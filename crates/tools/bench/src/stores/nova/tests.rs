//! Names of stores on a cluster, good and bad.

use super::{Name, Variant, check_name};
use thermocline::{EngineKind, lsm};

#[test]
fn a_name_has_ranges_and_settings_of_lsm() {
    let plain: Name = "nova".parse().expect("a name");
    assert_eq!((plain.ranges, plain.has_settings), (None, false));
    assert_eq!(plain.of_range, "lsm".parse::<Variant>().expect("a name"));
    let changed: Name = "nova:ranges=6:merging=off".parse().expect("a name");
    let expected = lsm::Options {
        compression: vec![lsm::Compression::None],
        merging: false,
        ..lsm::Options::default()
    };
    assert_eq!((changed.ranges, changed.has_settings), (Some(6), true));
    assert_eq!(changed.of_range.engine, EngineKind::Lsm);
    assert_eq!(changed.of_range.settings, expected.into());
}

#[test]
fn other_settings_are_refused() {
    for name in [
        "nova:",
        "nova:ranges",
        "nova:ranges=0",
        "nova:ranges=1001",
        "nova:ranges=two",
        "nova:merging=1",
        "nova:single-log",
    ] {
        assert!(check_name(name).is_err(), "{name:?}");
    }
}
