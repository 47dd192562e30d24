//! Numbers as Redis reads and writes them in values and arguments.

/// The integer that `text` spells, if it spells one strictly: an optional minus, no plus, no
/// leading zeros, no spaces, within 64 bits.
pub(crate) fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    match digits {
        [] => return None,
        [b'0'] => return (!negative).then_some(0),
        [b'0', ..] => return None,
        _ if digits.len() > 19 => return None,
        _ => {}
    }
    let mut magnitude = 0_u64;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        magnitude = magnitude.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
    }
    if negative { 0_i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// The unsigned number that `text` spells in decimal digits.
pub(crate) fn parse_u64(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok().filter(|_| text.first() != Some(&b'+'))
}

/// How many digits behind the point are kept, and the power of ten that goes with it.
const FRACTION_DIGITS: usize = 17;
const SCALE: i128 = 10_i128.pow(FRACTION_DIGITS as u32);

/// A finite decimal number for INCRBYFLOAT: exact to 17 digits behind the point while it is below
/// 10^20 in magnitude, and a double beyond.
///
/// Redis adds with 80-bit floats and prints 17 digits behind the point. Decimal fixed point gives
/// the same digits for every sum that those floats hold exactly enough, and 0.1 + 0.2 is 0.3.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Decimal {
    Fixed(i128),
    Double(f64),
}

/// Fixed point ends here: 10^20, scaled.
const FIXED_MAX: i128 = 100_000_000_000_000_000_000 * SCALE;

impl Decimal {
    /// Zero, what a missing key counts as.
    pub(crate) const ZERO: Self = Self::Fixed(0);

    /// The number that `text` spells, in plain or scientific notation; infinities are numbers here
    /// (the sum is refused), "nan" is not.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let double: f64 = text.parse().ok()?;
        if double.is_nan() {
            return None;
        }
        Some(Self::parse_fixed(text.as_bytes()).unwrap_or(Self::Double(double)))
    }

    /// `[sign] digits [. digits]`, when it fits.
    fn parse_fixed(text: &[u8]) -> Option<Self> {
        let (negative, digits) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, text),
        };
        let mut parts = digits.splitn(2, |&byte| byte == b'.');
        let whole = parts.next()?;
        let fraction = parts.next().unwrap_or_default();
        if whole.len() > 20 || fraction.len() > FRACTION_DIGITS {
            return None;
        }
        let mut value = 0_i128;
        let padding = std::iter::repeat_n(&b'0', FRACTION_DIGITS - fraction.len());
        for &digit in whole.iter().chain(fraction).chain(padding) {
            if !digit.is_ascii_digit() {
                return None;
            }
            value = value.checked_mul(10)?.checked_add(i128::from(digit - b'0'))?;
        }
        (value < FIXED_MAX).then_some(Self::Fixed(if negative { -value } else { value }))
    }

    fn to_double(self) -> f64 {
        match self {
            Self::Fixed(value) => value as f64 / SCALE as f64,
            Self::Double(value) => value,
        }
    }

    /// The sum, or `None` where it is no finite number.
    pub(crate) fn add(self, other: Self) -> Option<Self> {
        if let (Self::Fixed(a), Self::Fixed(b)) = (self, other) {
            let sum = a + b;
            if sum.abs() < FIXED_MAX {
                return Some(Self::Fixed(sum));
            }
        }
        let sum = self.to_double() + other.to_double();
        sum.is_finite().then_some(Self::Double(sum))
    }

    /// Plain notation, no trailing zeros, no point without digits behind it.
    pub(crate) fn to_text(self) -> String {
        match self {
            Self::Fixed(value) => {
                let sign = if value < 0 { "-" } else { "" };
                let (whole, fraction) = (value.abs() / SCALE, value.abs() % SCALE);
                let digits = format!("{fraction:017}");
                let digits = digits.trim_end_matches('0');
                let point = if digits.is_empty() { "" } else { "." };
                format!("{sign}{whole}{point}{digits}")
            }
            Self::Double(value) => format!("{value}"),
        }
    }
}

#[cfg(test)]
mod tests;
