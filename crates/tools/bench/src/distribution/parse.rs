//! Distributions by name: `zipfian`, `zipfian-ordered`, `uniform`, `latest`, `hotspot:X:Y`,
//! `composite`, `sequential`.

use std::fmt;
use std::str::FromStr;

use super::Distribution;

/// A distribution or a skew that does not exist.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DistributionError {
    /// No distribution has this name.
    #[error(
        "unknown distribution {0:?}: zipfian, zipfian-ordered, uniform, latest, hotspot:KEYS%:ACCESSES%, \
         composite, sequential"
    )]
    Unknown(String),
    /// A hotspot's shares are not percentages.
    #[error("hotspot {0:?}: want hotspot:X:Y, where X% of the keys (above 0) take Y% of accesses")]
    Hotspot(String),
    /// F2's alpha is out of range.
    #[error("alpha {0}: want at least 1 (alpha 100 is theta 0.99)")]
    Alpha(f64),
}

/// Zipf's exponent for F2's skew scale: `1 - 1 / alpha`.
///
/// # Errors
/// `alpha` is below 1 or not a number.
pub fn theta_from_alpha(alpha: f64) -> Result<f64, DistributionError> {
    if alpha >= 1.0 { Ok(1.0 - 1.0 / alpha) } else { Err(DistributionError::Alpha(alpha)) }
}

impl FromStr for Distribution {
    type Err = DistributionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "zipfian" => return Ok(Self::Zipfian),
            "zipfian-ordered" => return Ok(Self::ZipfianOrdered),
            "uniform" => return Ok(Self::Uniform),
            "latest" => return Ok(Self::Latest),
            "composite" => return Ok(Self::Composite),
            "sequential" => return Ok(Self::Sequential),
            _ => {}
        }
        let Some(shares) = text.strip_prefix("hotspot:") else {
            return Err(DistributionError::Unknown(text.to_owned()));
        };
        let parsed = shares.split_once(':').and_then(|(keys, accesses)| {
            let keys_percent: f64 = keys.parse().ok()?;
            let accesses_percent: f64 = accesses.parse().ok()?;
            let valid = keys_percent > 0.0
                && keys_percent <= 100.0
                && (0.0..=100.0).contains(&accesses_percent);
            valid.then_some(Self::Hotspot { keys_percent, accesses_percent })
        });
        parsed.ok_or_else(|| DistributionError::Hotspot(text.to_owned()))
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zipfian => f.write_str("zipfian"),
            Self::ZipfianOrdered => f.write_str("zipfian-ordered"),
            Self::Uniform => f.write_str("uniform"),
            Self::Latest => f.write_str("latest"),
            Self::Hotspot { keys_percent, accesses_percent } => {
                write!(f, "hotspot:{keys_percent}:{accesses_percent}")
            }
            Self::Composite => f.write_str("composite"),
            Self::Sequential => f.write_str("sequential"),
        }
    }
}
