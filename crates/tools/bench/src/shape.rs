//! The sizes of keys and values, and the bytes of a key.
//!
//! A shape is written `K+V` (bytes), or `K+pareto` for MixGraph's value sizes. The shapes that the
//! papers use: `8+100` (F2), `24+1000` (HashKV, Nova-LSM), `27+127` (UDB), `48+43` (ZippyDB),
//! `28+396` (SYS, FlexDB), `48+pareto` (MixGraph).

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
                let drawn = keys::mix(key_hash ^ (u64::from(version) << 32));
                let u = (drawn >> 11) as f64 * (1.0 / (1_u64 << 53) as f64);
                (sizes.quantile(u) as usize).max(VALUE_BYTES_MIN)
            }
        }
    }

    /// Bytes of a key and its value, on average.
    pub fn pair_bytes(&self) -> f64 {
        self.key_bytes as f64
            + match self.value {
                ValueBytes::Fixed(bytes) => bytes as f64,
                // The floor of 8 bytes weighs about a byte more than the distribution's own mean.
                ValueBytes::Pareto(_) => self.sampled_mean(),
            }
    }

    fn sampled_mean(&self) -> f64 {
        const SAMPLES: u32 = 10_000;
        let sum: usize = (0..SAMPLES).map(|sample| self.value_bytes(0, sample)).sum();
        sum as f64 / f64::from(SAMPLES)
    }
}

/// A shape that cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "shape {0:?}: want KEY+VALUE in bytes, as 8+100, or KEY+pareto; keys of {KEY_BYTES_MIN} to \
     {KEY_BYTES_MAX}, values of {VALUE_BYTES_MIN} to {VALUE_BYTES_MAX} (fewer bytes could not be \
     verified)"
)]
pub struct ShapeError(String);

impl FromStr for Shape {
    type Err = ShapeError;

    fn from_str(text: &str) -> Result<Self, ShapeError> {
        let parsed = text.split_once('+').and_then(|(key, value)| {
            let key_bytes: usize = key.parse().ok()?;
            let value = if value == "pareto" {
                ValueBytes::Pareto(GeneralizedPareto::VALUE_SIZES)
            } else {
                let bytes: usize = value.parse().ok()?;
                if !(VALUE_BYTES_MIN..=VALUE_BYTES_MAX).contains(&bytes) {
                    return None;
                }
                ValueBytes::Fixed(bytes)
            };
            let valid = (KEY_BYTES_MIN..=KEY_BYTES_MAX).contains(&key_bytes);
            valid.then_some(Self { key_bytes, value })
        });
        parsed.ok_or_else(|| ShapeError(text.to_owned()))
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value {
            ValueBytes::Fixed(bytes) => write!(f, "{}+{bytes}", self.key_bytes),
            ValueBytes::Pareto(_) => write!(f, "{}+pareto", self.key_bytes),
        }
    }
}
