//! Sizes, counts and budgets in the form of the command line.

use std::fmt;
use std::str::FromStr;

/// Under `all`, the budget is this many times the data, so that every store's overhead fits too.
const ALL_FACTOR: f64 = 4.0;
/// No budget is below this: stores need some memory to open at all.
const BUDGET_BYTES_MIN: u64 = 8 << 20;

/// How much memory a store may use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Budget {
    /// A share of the data's size, in percent.
    Percent(f64),
    /// Everything fits.
    All,
    /// A number of bytes.
    Bytes(u64),
}

/// Something that is no budget, size or count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BudgetError {
    /// Not a budget.
    #[error("{0:?}: want a share of the data as 10%, a size as 512MiB, or all")]
    Budget(String),
    /// Less than any store can be opened with.
    #[error("{0:?} is too little: at least {least} MiB", least = BUDGET_BYTES_MIN >> 20)]
    TooLittle(String),
    /// Not a size.
    #[error("{0:?}: want a size in bytes, or with a unit as 64k, 512MiB, 4G (powers of 1024)")]
    Size(String),
    /// Not a count.
    #[error("{0:?}: want a count above 0, as 5000, 100k, 10m or 1g (powers of 1000)")]
    Count(String),
}

impl Budget {
    /// Returns the budget for `data_bytes` of keys and values; 8 MiB at least, also if a share of
    /// the data is less.
    pub fn bytes(self, data_bytes: f64) -> u64 {
        let bytes = match self {
            Self::Percent(percent) => (data_bytes * percent / 100.0) as u64,
            Self::All => (data_bytes * ALL_FACTOR) as u64,
            Self::Bytes(bytes) => bytes,
        };
        bytes.max(BUDGET_BYTES_MIN)
    }
}

impl FromStr for Budget {
    type Err = BudgetError;

    fn from_str(text: &str) -> Result<Self, BudgetError> {
        let wrong = || BudgetError::Budget(text.to_owned());
        if text == "all" {
            return Ok(Self::All);
        }
        if let Some(percent) = text.strip_suffix('%') {
            let percent: f64 = percent.parse().map_err(|_| wrong())?;
            let valid = percent > 0.0 && percent <= 10_000.0;
            return if valid { Ok(Self::Percent(percent)) } else { Err(wrong()) };
        }
        match parse_bytes(text).map_err(|_| wrong())? {
            few if few < BUDGET_BYTES_MIN => Err(BudgetError::TooLittle(text.to_owned())),
            enough => Ok(Self::Bytes(enough)),
        }
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percent(percent) => write!(f, "{percent}%"),
            Self::All => f.write_str("all"),
            Self::Bytes(bytes) => write!(f, "{bytes}"),
        }
    }
}

/// A size in bytes: a number, and `k`, `m`, `g` or `t` (powers of 1024), also as `MiB` or `MB`.
///
/// # Errors
/// Anything else, or zero.
pub fn parse_bytes(text: &str) -> Result<u64, BudgetError> {
    let lower = text.to_ascii_lowercase();
    let number = lower.strip_suffix("ib").or_else(|| lower.strip_suffix('b')).unwrap_or(&lower);
    scaled(number, 1024).ok_or_else(|| BudgetError::Size(text.to_owned()))
}

/// A count: a number, and `k`, `m` or `g` (powers of 1000).
///
/// # Errors
/// Anything else, or zero.
pub fn parse_count(text: &str) -> Result<u64, BudgetError> {
    scaled(&text.to_ascii_lowercase(), 1000).ok_or_else(|| BudgetError::Count(text.to_owned()))
}

fn scaled(text: &str, base: u64) -> Option<u64> {
    let (number, power) = match text.char_indices().next_back()? {
        (at, 'k') => (&text[..at], 1),
        (at, 'm') => (&text[..at], 2),
        (at, 'g') => (&text[..at], 3),
        (at, 't') => (&text[..at], 4),
        _ => (text, 0),
    };
    let unit = base.pow(power);
    let whole: Option<u64> = number.parse().ok().and_then(|n: u64| n.checked_mul(unit));
    let value = match whole {
        Some(value) => value,
        // Fractions only with a unit: `1.5g`, never `1.5`.
        None if power > 0 && number.contains('.') => {
            let fraction: f64 = number.parse().ok()?;
            (fraction * unit as f64) as u64
        }
        None => return None,
    };
    (value > 0).then_some(value)
}
