//! Types of options, as numbers.

use super::{levels_of, of_levels};

/// A value of a setting, as a number. A flag is 0 or 1, a share its bits, and a word its place
/// among the words. A list of levels has four bits for each level.
pub trait SettingValue: Sized {
    /// Returns the number; none if there is no value.
    fn number(&self) -> Option<u64>;

    /// Returns the value of a number; none if it has no such value.
    fn of_number(number: u64) -> Option<Self>;
}

macro_rules! whole_numbers {
    ($($type:ty),*) => {
        $(
            impl SettingValue for $type {
                fn number(&self) -> Option<u64> {
                    u64::try_from(*self).ok()
                }

                fn of_number(number: u64) -> Option<Self> {
                    Self::try_from(number).ok()
                }
            }
        )*
    };
}

whole_numbers!(u16, u32, u64, usize);

impl SettingValue for bool {
    fn number(&self) -> Option<u64> {
        Some(u64::from(*self))
    }

    fn of_number(number: u64) -> Option<Self> {
        Some(number != 0)
    }
}

impl SettingValue for f64 {
    fn number(&self) -> Option<u64> {
        Some(self.to_bits())
    }

    fn of_number(number: u64) -> Option<Self> {
        Some(Self::from_bits(number))
    }
}

impl<T: SettingValue> SettingValue for Option<T> {
    fn number(&self) -> Option<u64> {
        self.as_ref().and_then(T::number)
    }

    fn of_number(number: u64) -> Option<Self> {
        T::of_number(number).map(Some)
    }
}

/// One value for each level; the last one holds for all levels below.
impl<T: SettingValue> SettingValue for Vec<T> {
    fn number(&self) -> Option<u64> {
        let levels: Option<Vec<u64>> = self.iter().map(SettingValue::number).collect();
        let levels = levels.filter(|levels| !levels.is_empty())?;
        // Too many levels are a number that is not allowed.
        Some(of_levels(levels.into_iter().map(|level| level as usize)).unwrap_or(u64::MAX))
    }

    fn of_number(number: u64) -> Option<Self> {
        levels_of(number)?.into_iter().map(|level| T::of_number(level as u64)).collect()
    }
}
