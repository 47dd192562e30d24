//! The sizes of keys and values, and the bytes of a key.
//!
//! A shape is written `K+V` (bytes), or `K+pareto` for MixGraph's value sizes. The shapes that the
//! papers use: `8+100` (F2), `24+1000` (HashKV, Nova-LSM), `27+127` (UDB), `48+43` (ZippyDB),
//! `28+396` (SYS, FlexDB), `48+pareto` (MixGraph). Two more have values of many sizes:
//! `24+mix:40:1000:1:2` has values of 40 and of 1,000 bytes, 1 to 2 by number, as HashKV's
//! experiment on selective separation. `24+zipf:40:8192` has sizes from 40 to 8,192 by Zipf's law.

mod keys;
#[cfg(test)]
mod tests;

pub use keys::{KeyOrder, Keys, hash};

use std::fmt;
use std::str::FromStr;

use crate::distribution::GeneralizedPareto;
use crate::value::VALUE_BYTES_MIN;

/// The longest key that a shape may ask for, in bytes.
pub const KEY_BYTES_MAX: usize = 4096;
/// The shortest key, in bytes: it holds the item's number.
pub const KEY_BYTES_MIN: usize = 8;
/// The longest value that a shape may ask for, in bytes.
pub const VALUE_BYTES_MAX: usize = 16 << 20;

/// Sizes of keys and values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Bytes of every key.
    pub key_bytes: usize,
    /// Bytes of values.
    pub value: ValueBytes,
}

/// How many bytes values have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueBytes {
    /// Always this number.
    Fixed(usize),
    /// Drawn for each key and version.
    Pareto(GeneralizedPareto),
    /// One of two, drawn for each key.
    Mix(Mix),
    /// Drawn for each key and version, from the first number to the second. The first is the most
    /// frequent, and the others follow Zipf's law with exponent 0.99.
    Zipf(usize, usize),
}

/// Values of two sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Bytes of the first kind, and of the second.
    pub bytes: [usize; 2],
    /// How many of the first kind there are for how many of the second.
    pub parts: [u32; 2],
}

impl Shape {
    /// F2's: 8 bytes and 100.
    pub const F2: Self = Self { key_bytes: 8, value: ValueBytes::Fixed(100) };
    /// HashKV's and Nova-LSM's: 24 bytes and 1000.
    pub const NOVA: Self = Self { key_bytes: 24, value: ValueBytes::Fixed(1000) };
    /// UDB's, as FlexDB has it: 27 bytes and 127.
    pub const UDB: Self = Self { key_bytes: 27, value: ValueBytes::Fixed(127) };
    /// MixGraph's: 48 bytes and Pareto sizes.
    pub const MIXGRAPH: Self =
        Self { key_bytes: 48, value: ValueBytes::Pareto(GeneralizedPareto::VALUE_SIZES) };

    /// The size of the value that version `version` of a key has.
    pub fn value_bytes(&self, key_hash: u64, version: u32) -> usize {
        match self.value {
            ValueBytes::Fixed(bytes) => bytes,
            ValueBytes::Pareto(sizes) => {
                let u = unit(key_hash ^ (u64::from(version) << 32));
                (sizes.quantile(u) as usize).max(VALUE_BYTES_MIN)
            }
            ValueBytes::Mix(Mix { bytes: [first, second], parts: [of_first, of_second] }) => {
                let share = f64::from(of_first) / (f64::from(of_first) + f64::from(of_second));
                if unit(key_hash) < share { first } else { second }
            }
            ValueBytes::Zipf(least, most) => {
                let u = unit(key_hash ^ (u64::from(version) << 32));
                least + zipf_rank(u, most - least + 1) - 1
            }
        }
    }

    /// Bytes of a key and its value, on average.
    pub fn pair_bytes(&self) -> f64 {
        self.key_bytes as f64
            + match self.value {
                ValueBytes::Fixed(bytes) => bytes as f64,
                // The floor of 8 bytes weighs about a byte more than the distribution's own mean.
                ValueBytes::Pareto(_) | ValueBytes::Zipf(..) => self.sampled_mean(),
                ValueBytes::Mix(Mix { bytes, parts }) => {
                    let [first, second] =
                        [0, 1].map(|kind| bytes[kind] as f64 * f64::from(parts[kind]));
                    (first + second) / (f64::from(parts[0]) + f64::from(parts[1]))
                }
            }
    }

    fn sampled_mean(&self) -> f64 {
        const SAMPLES: u32 = 10_000;
        let sum: usize = (0..SAMPLES).map(|sample| self.value_bytes(0, sample)).sum();
        sum as f64 / f64::from(SAMPLES)
    }
}

/// Returns a number from 0 to 1 that is drawn by a seed.
fn unit(seed: u64) -> f64 {
    (keys::mix(seed) >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
}

/// Returns the rank from 1 to `n` at the quantile `u` of Zipf's law with exponent 0.99: that of the
/// continuous law, rounded.
fn zipf_rank(u: f64, n: usize) -> usize {
    const LEFT: f64 = 1.0 - 0.99;
    // The integral of x to the power of -0.99, from a half on.
    let (begin, end) = (0.5_f64.powf(LEFT), (n as f64 + 0.5).powf(LEFT));
    let x = (begin + u * (end - begin)).powf(1.0 / LEFT);
    (x.round() as usize).clamp(1, n)
}

/// A shape that cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "shape {0:?}: want KEY+VALUE in bytes, as 8+100, or KEY+pareto, KEY+mix:40:1000:1:2 or \
     KEY+zipf:40:8192; keys of {KEY_BYTES_MIN} to {KEY_BYTES_MAX}, values of {VALUE_BYTES_MIN} to \
     {VALUE_BYTES_MAX} (fewer bytes could not be verified)"
)]
pub struct ShapeError(String);

impl FromStr for Shape {
    type Err = ShapeError;

    fn from_str(text: &str) -> Result<Self, ShapeError> {
        let parsed = text.split_once('+').and_then(|(key, value)| {
            let key_bytes: usize = key.parse().ok()?;
            let value = parse_value(value)?;
            let valid = (KEY_BYTES_MIN..=KEY_BYTES_MAX).contains(&key_bytes);
            valid.then_some(Self { key_bytes, value })
        });
        parsed.ok_or_else(|| ShapeError(text.to_owned()))
    }
}

/// Parses what follows the plus sign.
fn parse_value(text: &str) -> Option<ValueBytes> {
    let mut words = text.split(':');
    let kind = words.next()?;
    let bytes = |text: &str| {
        let bytes: usize = text.parse().ok()?;
        (VALUE_BYTES_MIN..=VALUE_BYTES_MAX).contains(&bytes).then_some(bytes)
    };
    let numbers: Vec<&str> = words.collect();
    match (kind, &numbers[..]) {
        ("pareto", []) => Some(ValueBytes::Pareto(GeneralizedPareto::VALUE_SIZES)),
        ("mix", [first, second, of_first, of_second]) => {
            let parts = [of_first.parse().ok()?, of_second.parse().ok()?];
            let mix = Mix { bytes: [bytes(first)?, bytes(second)?], parts };
            (parts[0] > 0 && parts[1] > 0).then_some(ValueBytes::Mix(mix))
        }
        ("zipf", [least, most]) => {
            let (least, most) = (bytes(least)?, bytes(most)?);
            (least <= most).then_some(ValueBytes::Zipf(least, most))
        }
        (fixed, []) => bytes(fixed).map(ValueBytes::Fixed),
        _ => None,
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value {
            ValueBytes::Fixed(bytes) => write!(f, "{}+{bytes}", self.key_bytes),
            ValueBytes::Pareto(_) => write!(f, "{}+pareto", self.key_bytes),
            ValueBytes::Mix(Mix { bytes: [first, second], parts: [of_first, of_second] }) => {
                write!(f, "{}+mix:{first}:{second}:{of_first}:{of_second}", self.key_bytes)
            }
            ValueBytes::Zipf(least, most) => write!(f, "{}+zipf:{least}:{most}", self.key_bytes),
        }
    }
}
