//! Stores with other options than the usual ones.

use std::sync::Arc;

use conformance::{Check, Suite};
use device::Device;
use engine::{Engine, Host, Result};
use thermocline_hashkv::{Options, Policy, Store};

use crate::crates::suite::Fixture;
use crate::fixture::{HashKvFixture, index_options, options};

/// A store with options of its own.
struct Variant {
    name: &'static str,
    options: fn() -> Options,
}

impl Fixture for Variant {
    fn name(&self) -> &'static str {
        self.name
    }

    fn open(&self, host: Host) -> Result<Arc<dyn Engine>> {
        Ok(Arc::new(Store::open_with(host, (self.options)(), index_options())?))
    }

    fn check(&self, device: &Arc<dyn Device>) -> Result<()> {
        HashKvFixture.check(device)
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
    with_all_values_apart: Options { separation_bytes: 0, ..options() };
    with_all_values_in_the_index: Options { separation_bytes: 64 << 10, ..options() };
    with_one_group: Options { groups_max: 1, ..options() };
    with_a_bound: Options { disk_bytes_max: Some(2 << 20), ..options() };
    with_whole_groups_collected: Options { policy: Policy::Group, ..options() };
}
