//! The decimal numbers that INCRBYFLOAT adds.
//!
//! A number is kept as the digits that its text spells, so every sum is exact. The sum is rounded
//! once, to [`FRACTION_DIGITS`] digits after the point, to the even digit if it is in the middle.
//!
//! Redis adds 80-bit floats and prints the same number of digits. If a float holds both numbers and
//! their sum exactly, both servers print the same text. Otherwise Redis prints the rounding error
//! of the float, and this server does not.

use std::cmp::Ordering;
use std::iter::repeat_n;

/// Digits after the point that a sum keeps.
const FRACTION_DIGITS: i32 = 17;
/// Bytes of the longest text that can be a number.
const TEXT_BYTES_MAX: usize = 5119;
/// Digits before the point of the largest number. Redis's floats end in the same power of ten.
const WHOLE_DIGITS_MAX: i32 = 4932;
/// Power of ten below which only 0 is a number, about the end of Redis's floats.
const LEAST_POWER: i32 = -4950;
/// Exponents beyond this are read as this: the number is out of range, or 0, with both.
const EXPONENT_MAX: i32 = 1_000_000;

/// A number of INCRBYFLOAT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decimal {
    Finite(Digits),
    /// An infinity of either sign. It can be read, but no sum with it is a number.
    Infinite,
}

/// A finite number: the digits, times ten to the `exponent`.
///
/// # Invariants
/// D1. Neither the first nor the last digit is 0. The number 0 has no digits, the exponent 0 and no
///     sign.
/// D2. The number is below 10^[`WHOLE_DIGITS_MAX`] and, if it is not 0, at least
///     10^[`LEAST_POWER`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Digits {
    is_negative: bool,
    /// Values from 0 to 9, the most significant one first.
    digits: Vec<u8>,
    exponent: i32,
}

impl Decimal {
    /// Zero, the value of an absent key.
    pub(crate) const ZERO: Self =
        Self::Finite(Digits { is_negative: false, digits: Vec::new(), exponent: 0 });

    /// Returns the number that `text` spells: `[sign] digits [. digits] [e exponent]` or an
    /// infinity.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let (is_negative, rest) = sign(text);
        if rest.eq_ignore_ascii_case(b"inf") || rest.eq_ignore_ascii_case(b"infinity") {
            return Some(Self::Infinite);
        }
        let mut parts = rest.splitn(2, |byte| byte.eq_ignore_ascii_case(&b'e'));
        let mantissa = parts.next()?;
        let exponent = parts.next().map_or(Some(0), parse_exponent)?;
        let mut parts = mantissa.splitn(2, |&byte| byte == b'.');
        let (whole, fraction) = (parts.next()?, parts.next().unwrap_or_default());
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let digits = whole.iter().chain(fraction);
        let digits: Option<Vec<u8>> =
            digits.map(|byte| byte.is_ascii_digit().then(|| byte - b'0')).collect();
        let exponent = exponent - i32::try_from(fraction.len()).ok()?;
        Digits::new(is_negative, digits?, exponent).checked().map(Self::Finite)
    }

    /// Returns the sum, or `None` if it is not a finite number in range.
    pub(crate) fn add(&self, other: &Self) -> Option<Self> {
        let (Self::Finite(a), Self::Finite(b)) = (self, other) else { return None };
        let sum = a.add(b).rounded();
        (sum.power() <= WHOLE_DIGITS_MAX).then_some(Self::Finite(sum))
    }

    /// Returns plain notation, without zeros at the end and without a point if no digits follow it.
    pub(crate) fn to_text(&self) -> String {
        match self {
            Self::Finite(digits) => digits.to_text(),
            Self::Infinite => "inf".to_owned(),
        }
    }
}

/// Splits an optional sign off `text`; returns whether it is a minus.
fn sign(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    }
}

fn parse_exponent(text: &[u8]) -> Option<i32> {
    let (is_negative, digits) = sign(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let exponent = digits.iter().fold(0_i32, |exponent, digit| {
        exponent.saturating_mul(10).saturating_add(i32::from(digit - b'0')).min(EXPONENT_MAX)
    });
    Some(if is_negative { -exponent } else { exponent })
}

impl Digits {
    /// Returns the number with invariant D1 established.
    fn new(is_negative: bool, mut digits: Vec<u8>, mut exponent: i32) -> Self {
        while digits.pop_if(|last| *last == 0).is_some() {
            exponent += 1;
        }
        let zeros = digits.iter().take_while(|digit| **digit == 0).count();
        digits.drain(..zeros);
        if digits.is_empty() {
            return Self { is_negative: false, digits, exponent: 0 };
        }
        Self { is_negative, digits, exponent }
    }

    /// Returns the power of ten just above the first digit.
    fn power(&self) -> i32 {
        self.exponent + self.digits.len() as i32
    }

    /// Returns the number if it satisfies D2.
    fn checked(self) -> Option<Self> {
        let is_zero = self.digits.is_empty();
        let in_range = (LEAST_POWER + 1..=WHOLE_DIGITS_MAX).contains(&self.power());
        (is_zero || in_range).then_some(self)
    }

    /// Returns the digits at the powers from `low` on, the least significant one first.
    fn spread(&self, low: i32, width: usize) -> Vec<u8> {
        let below = (self.exponent - low).max(0) as usize;
        let digits = repeat_n(0, below).chain(self.digits.iter().rev().copied());
        digits.chain(std::iter::repeat(0)).take(width).collect()
    }

    /// Returns the exact sum, which may be out of range.
    fn add(&self, other: &Self) -> Self {
        if self.digits.is_empty() {
            return other.clone();
        }
        if other.digits.is_empty() {
            return self.clone();
        }
        let low = self.exponent.min(other.exponent);
        // One more digit for the carry.
        let width = (self.power().max(other.power()) - low + 1) as usize;
        let (mine, theirs) = (self.spread(low, width), other.spread(low, width));
        let (is_negative, mut sum) = if self.is_negative == other.is_negative {
            (self.is_negative, add_digits(&mine, &theirs))
        } else if mine.iter().rev().cmp(theirs.iter().rev()) == Ordering::Less {
            (other.is_negative, subtract_digits(&theirs, &mine))
        } else {
            (self.is_negative, subtract_digits(&mine, &theirs))
        };
        sum.reverse();
        Self::new(is_negative, sum, low)
    }

    /// Returns the nearest number with [`FRACTION_DIGITS`] digits after the point, of two equally
    /// near ones the one whose last digit is even.
    fn rounded(mut self) -> Self {
        let excess = -FRACTION_DIGITS - self.exponent;
        if excess <= 0 {
            return self;
        }
        let Some(kept) = self.digits.len().checked_sub(excess as usize) else {
            return Self::new(false, Vec::new(), 0);
        };
        let dropped = self.digits.split_off(kept);
        let is_odd = self.digits.last().is_some_and(|digit| digit % 2 == 1);
        // By D1 the last digit is not 0, so a second digit makes a 5 more than the middle.
        let goes_up = match dropped.as_slice() {
            [5] => is_odd,
            [first, ..] => *first >= 5,
            [] => false,
        };
        if goes_up {
            let nines = self.digits.iter().rev().take_while(|digit| **digit == 9).count();
            let at = self.digits.len() - nines;
            self.digits.truncate(at);
            match self.digits.last_mut() {
                Some(digit) => *digit += 1,
                None => self.digits.push(1),
            }
            self.digits.extend(repeat_n(0, nines));
        }
        Self::new(self.is_negative, self.digits, -FRACTION_DIGITS)
    }

    fn to_text(&self) -> String {
        if self.digits.is_empty() {
            return "0".to_owned();
        }
        let zeros = |count: i32| repeat_n('0', count.max(0) as usize);
        let digits = || self.digits.iter().map(|digit| char::from(b'0' + digit));
        let mut text = String::from(if self.is_negative { "-" } else { "" });
        let whole = self.power().max(0) as usize;
        if whole == 0 {
            text.push_str("0.");
            text.extend(zeros(-self.power()).chain(digits()));
            return text;
        }
        text.extend(digits().take(whole));
        text.extend(zeros(self.exponent));
        if self.exponent < 0 {
            text.push('.');
            text.extend(digits().skip(whole));
        }
        text
    }
}

/// Returns the sum of two numbers of equal width, the least significant digit first. The width has
/// room for it.
fn add_digits(a: &[u8], b: &[u8]) -> Vec<u8> {
    let mut carry = 0;
    let digit = |(a, b): (&u8, &u8)| {
        let sum = a + b + carry;
        carry = sum / 10;
        sum % 10
    };
    a.iter().zip(b).map(digit).collect()
}

/// Returns the difference of two numbers of equal width, of which `b` is not the larger one.
fn subtract_digits(a: &[u8], b: &[u8]) -> Vec<u8> {
    let mut borrow = 0;
    let digit = |(a, b): (&u8, &u8)| {
        let difference = 10 + a - b - borrow;
        borrow = 1 - difference / 10;
        difference % 10
    };
    a.iter().zip(b).map(digit).collect()
}

#[cfg(test)]
mod tests;
