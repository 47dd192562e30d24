//! Settings as text, as options, and as the catalog's bytes.

use std::sync::Arc;

use codec::SeqNo;
use device::Device;
use proptest::prelude::*;

use super::{EngineSettings, Scope, Setting, SettingKind, SettingValue, Settings};
use crate::contract::Capabilities;
use crate::driver::{CheckReport, Driver, MemoryUse};
use crate::error::Error;
use crate::salvage::Salvaged;
use crate::trials::Trials;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Color {
    Red,
    Blue,
}

impl SettingValue for Color {
    fn number(&self) -> Option<u64> {
        Some(*self as u64)
    }

    fn of_number(number: u64) -> Option<Self> {
        [Self::Red, Self::Blue].get(usize::try_from(number).ok()?).copied()
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Options {
    pages: usize,
    page_bytes: Option<u64>,
    share: f64,
    tidies: bool,
    color: Color,
    colors: Vec<Color>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            pages: 7,
            page_bytes: None,
            share: 0.5,
            tidies: true,
            color: Color::Red,
            colors: vec![Color::Red],
        }
    }
}

const COLORS: &[&str] = &["red", "blue"];

crate::settings! {
    Options, DRIVER;
    page_bytes: SettingKind::PowerOfTwo(64, 4096), "a power of two, from 64 to 4096",
        Scope::NewKeyspace(1), "Bytes of a page.";
    pages: SettingKind::Number(1, 100), "between 1 and 100", Scope::Keyspace(0), "Pages.";
    share: SettingKind::Share, "from 0 to 1", Scope::Database, "A share.";
    tidies: SettingKind::Flag, "on or off", Scope::Experiment, "Whether it tidies.";
    color: SettingKind::Word(COLORS), "red or blue", Scope::Keyspace(2), "A color.";
    colors: SettingKind::Levels(COLORS), "a color for each level", Scope::Keyspace(3), "Colors.";
}

static DRIVER: Driver = Driver {
    capabilities: Capabilities {
        name: "mine",
        ordered: true,
        deletes_ranges: false,
        orders_writes: false,
        flush_rewrites_all: false,
        counts_keys: false,
    },
    summary: "an engine without stores",
    settings: SETTINGS,
    defaults: Options::default_numbers,
    open: |_, _, _| Err(Error::Closed),
    formats: &[],
    opens_without_changes: false,
    check: |_: &Arc<dyn Device>| Ok(CheckReport::default()),
    counted: "pairs",
    salvage: |_, _| Ok(Salvaged { persisted: SeqNo::ZERO, ..Salvaged::default() }),
    memory: MemoryUse::Share { least_of_new: 1, least_of: |_| Ok(1) },
    descriptors: 0,
    opening_bytes: 0,
    rewritten_bytes: |_| Ok(0),
    trials: &Trials { crashed: &[], killed: || Settings::new(&DRIVER), work: &[] },
};

fn set(pairs: &[(&str, &str)]) -> Settings {
    let settings = Settings::new(&DRIVER);
    pairs.iter().fold(settings, |settings, (name, text)| settings.with(name, text).unwrap())
}

#[test]
fn options_are_the_settings_that_differ_from_the_default() {
    assert!(Settings::from(Options::default()).is_empty());
    let options = Options {
        pages: 9,
        page_bytes: Some(256),
        share: 0.25,
        tidies: false,
        color: Color::Blue,
        colors: vec![Color::Red, Color::Blue],
    };
    let settings = Settings::from(options.clone());
    let text = "page_bytes=256 pages=9 share=0.25 tidies=off color=blue colors=red,blue";
    assert_eq!(settings.to_string(), text);
    let again = Options::of_settings(&settings);
    let colors = [&[Color::Red][..], &[Color::Blue; Setting::LEVELS - 1]].concat();
    assert_eq!(again, Options { colors, ..options });
    assert_eq!(Settings::from(again), settings);
    assert_eq!(Options::of_settings(&Settings::new(&DRIVER)).pages, 7);
}

#[test]
fn a_setting_is_given_by_its_name_and_a_text() {
    let settings = set(&[("page-bytes", "64"), ("colors", "blue,red,blue"), ("tidies", "on")]);
    assert_eq!(settings.to_string(), "page_bytes=64 tidies=on colors=blue,red,blue");
    assert_eq!((settings.get("page_bytes"), settings.get("pages")), (Some(64), None));
    let bad = [
        ("pages", "0"),
        ("pages", "101"),
        ("pages", "many"),
        ("page_bytes", "100"),
        ("share", "1.5"),
        ("share", "NaN"),
        ("tidies", "yes"),
        ("color", "green"),
        ("colors", "red,green"),
        ("colors", "red,red,red,red,red,red,red,red"),
        ("colors", ""),
    ];
    for (name, text) in bad {
        let refused = Settings::new(&DRIVER).with(name, text).expect_err(name);
        let Error::BadOption { engine: "mine", option, .. } = refused else {
            panic!("{name}={text}: {refused:?}");
        };
        assert_eq!(option, name);
    }
    let unknown = Settings::new(&DRIVER).with("page", "1").expect_err("there is none");
    assert_eq!(
        unknown.to_string(),
        "engine mine has no setting page; it has: page_bytes, pages, share, tidies, color, colors"
    );
}

#[test]
fn settings_of_a_keyspace_come_before_those_of_the_database() {
    let database = set(&[("pages", "1"), ("color", "blue")]);
    let own = set(&[("pages", "2")]);
    assert_eq!(own.over(&database), set(&[("pages", "2"), ("color", "blue")]));
    let all = EngineSettings::from(database).with(own);
    assert_eq!(all.of(&DRIVER), own, "the last ones replace those before");
    assert_eq!(EngineSettings::default().of(&DRIVER), Settings::new(&DRIVER));
}

#[test]
fn a_keyspace_has_only_settings_of_keyspaces_and_keeps_those_of_a_new_one() {
    assert_eq!(set(&[("pages", "2"), ("page_bytes", "64")]).check_of_keyspace(), Ok(()));
    for name in ["share", "tidies"] {
        let text = if name == "share" { "0.1" } else { "off" };
        let refused = set(&[(name, text)]).check_of_keyspace();
        assert!(matches!(refused, Err(Error::BadOption { option, .. }) if option == name));
    }
    // Options of a program are not checked until here.
    let typed = Settings::from(Options { pages: 1000, ..Options::default() });
    assert!(matches!(
        typed.check_of_keyspace(),
        Err(Error::BadOption { option: "pages", allowed: "between 1 and 100", .. })
    ));
    let stored = set(&[("page_bytes", "64"), ("pages", "2")]);
    let changed = set(&[("color", "blue")]).instead_of(Some(stored));
    assert_eq!(changed, Ok(Some(set(&[("page_bytes", "64"), ("color", "blue")]))));
    assert_eq!(set(&[("page_bytes", "64")]).instead_of(Some(stored)).map(|_| ()), Ok(()));
    assert_eq!(set(&[("page_bytes", "128")]).instead_of(Some(stored)), Err("page_bytes"));
    assert_eq!(set(&[("page_bytes", "64")]).instead_of(None), Err("page_bytes"));
    assert_eq!(set(&[]).instead_of(Some(set(&[("pages", "2")]))), Ok(None));
}

#[test]
fn the_catalog_has_them_by_number() {
    let settings = set(&[("colors", "blue,red"), ("page_bytes", "64"), ("pages", "2")]);
    let bytes = Settings::to_bytes(Some(settings));
    assert_eq!(bytes, [3, 0, 2, 1, 64, 3, 1]);
    assert_eq!(Settings::of_bytes(&DRIVER, &bytes), Ok(Some(settings)));
    assert_eq!(Settings::to_bytes(None), [0]);
    assert_eq!(Settings::to_bytes(Some(set(&[]))), [0]);
    assert_eq!(Settings::of_bytes(&DRIVER, &[0]), Ok(None));
    let bad: [&[u8]; 7] = [
        // Unknown, out of order, twice, not allowed, of another kind, too short, and too long.
        &[1, 4, 1],
        &[2, 1, 64, 0, 2],
        &[2, 0, 2, 0, 2],
        &[1, 0, 0],
        &[1, 2, 2],
        &[2, 0, 2],
        &[0, 0],
    ];
    for bytes in bad {
        assert!(Settings::of_bytes(&DRIVER, bytes).is_err(), "{bytes:?}");
    }
}

proptest! {
    #[test]
    fn allowed_values_survive_text_and_bytes(
        wanted in prop::collection::vec(prop::option::of(any::<u64>()), SETTINGS.len()),
    ) {
        let mut settings = Settings::new(&DRIVER);
        for (place, (setting, wanted)) in SETTINGS.iter().zip(wanted).enumerate() {
            let below = |value: u64| (0..64).map(move |bits| value >> bits);
            let value = wanted.and_then(|value| below(value).find(|value| setting.allows(*value)));
            settings.put(place, value);
        }
        let mut again = Settings::new(&DRIVER);
        for (setting, value) in settings.iter() {
            again.set(setting.name, &setting.shown(value)).unwrap();
        }
        prop_assert_eq!(&again, &settings);
        let decoded = Settings::of_bytes(&DRIVER, &Settings::to_bytes(Some(settings))).unwrap();
        let numbered = |all: Option<Settings>| {
            let said = |all: Settings| {
                let all: Vec<_> = all.iter().map(|(one, value)| (one.number(), value)).collect();
                all.into_iter().filter(|(number, _)| number.is_some()).collect::<Vec<_>>()
            };
            all.map(said).unwrap_or_default()
        };
        prop_assert_eq!(numbered(decoded), numbered(Some(settings)));
    }
}
