//! Stores with other options than the usual ones: tuned, and with each part left out that may be.
//!
//! An optional part makes things faster, so a store's results must not depend on it: a mistake
//! elsewhere that the part hides shows here. Each variant runs each check; checks that take long
//! have fewer cases than for a store with everything.

use std::sync::Arc;

use conformance::{Check, Fixture, Suite, TrialFixture};
use device::Device;
use engine::{Engine, Host, Result};
use thermocline_lsm::trials::crashed;
use thermocline_lsm::{Compression, DRIVER, FilterKind, Options, Routing, Store};

/// A store with options of its own.
struct Variant {
    name: &'static str,
    options: fn() -> Options,
}

impl Fixture for Variant {
    fn name(&self) -> &'static str {
        self.name
    }

    fn flushes_keys_apart(&self) -> bool {
        TrialFixture::of(&DRIVER).flushes_keys_apart()
    }

    fn open(&self, host: Host) -> Result<Arc<dyn Engine>> {
        Ok(Arc::new(Store::open(host, (self.options)())?))
    }

    fn check(&self, device: &Arc<dyn Device>) -> Result<()> {
        TrialFixture::of(&DRIVER).check(device)
    }
}

/// Cases of a check that are enough for a variant, unless `THERMOCLINE_CASES` says how many.
fn cases(check: Check) -> u64 {
    match check {
        Check::Model | Check::Budget => 25,
        Check::Reservations => 10,
        Check::Crashes | Check::Registers => 8,
        Check::Counters | Check::Snapshots | Check::Crowd => 4,
        Check::Waits | Check::Errors | Check::OutOfFiles | Check::Unavailable => 1,
        Check::Damage | Check::Determinism => 1,
    }
}

/// Holds a variant to all checks.
fn conforms(name: &'static str, options: fn() -> Options) {
    let variable = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = variable("THERMOCLINE_SEED").unwrap_or(1);
    let fixture = Variant { name, options };
    for check in Check::ALL {
        let cases = variable("THERMOCLINE_CASES").unwrap_or(cases(check));
        match Suite::new(&fixture, env!("CARGO_PKG_NAME"), seed, cases).run(check) {
            Ok(cases) => println!("{name} {check}: {cases} cases passed"),
            Err(failure) => panic!("\n{failure}\nhere: variants::{name}\n"),
        }
    }
}

/// One test for each variant, under its name.
macro_rules! variants {
    ($($name:ident: $options:expr;)*) => {
        $(
            #[test]
            fn $name() {
                conforms(stringify!($name), || $options);
            }
        )*
    };
}

variants! {
    tuned_for_reads: Options {
        filter: FilterKind::Ribbon,
        filter_bits_per_key: 14,
        block_bytes: 256,
        level0_tables: 1,
        level_ratio: 4,
        compression: vec![Compression::None],
        ..crashed()
    };
    tuned_for_writes: Options {
        memtable_bytes_max: 16 << 10,
        slots_max: 2,
        level0_tables: 8,
        level0_tables_slow: 12,
        level_ratio: 8,
        range_deletes_max: 64,
        ..crashed()
    };
    tuned_for_room: Options {
        compression: vec![Compression::None, Compression::Lz4, Compression::Zstd],
        block_bytes: 2048,
        filter: FilterKind::Ribbon,
        filter_bits_per_key: 6,
        range_deletes_max: 0,
        ..crashed()
    };
    with_one_memtable: Options { routing: Routing::One, ..crashed() };
    with_memtables_at_random: Options { routing: Routing::Random, ..crashed() };
    without_duplicated_dranges: Options { duplicates: false, ..crashed() };
    without_lookup_index: Options { lookup_index_bytes_max: 0, ..crashed() };
    without_range_index: Options { range_index: false, ..crashed() };
    without_pairs: Options { pairs: false, ..crashed() };
    without_merging: Options { merging: false, ..crashed() };
    without_any_of_it: Options {
        routing: Routing::One,
        lookup_index_bytes_max: 0,
        range_index: false,
        pairs: false,
        merging: false,
        compression: vec![Compression::None],
        ..crashed()
    };
}
