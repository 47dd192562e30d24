//! The seed of a random test: drawn, or set to replay a failure.

use environment::Seed;

/// Returns the number in the environment variable `variable`, if it is one.
pub(crate) fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|number| number.parse().ok())
}

/// Returns the seed of the test `name`, and the command that replays it, with `settings` that the
/// test read from the environment.
pub(crate) fn seed(name: &str, settings: &str) -> Seed {
    let seed = number("THERMOCLINE_SEED").map_or_else(Seed::from_entropy, Seed::from);
    let number = seed.get();
    println!(
        "{name}: seed {number}; to replay, THERMOCLINE_SEED={number}{settings} cargo test -p \
         thermocline-flexspace {name}"
    );
    seed
}
