//! The table of settings of an engine.

/// Declares the settings of an engine. The result is a table `SETTINGS` of fields of its `Options`,
/// and conversions between options and [`Settings`](crate::Settings).
///
/// The first line has the type of the options and the engine's [`Driver`](crate::Driver). Each
/// further line has a field, its kind, its allowed values in words, its scope, and its meaning.
#[macro_export]
macro_rules! settings {
    (
        $options:ident, $driver:path;
        $($field:ident: $kind:expr, $allowed:literal, $scope:expr, $help:literal;)*
    ) => {
        /// The settings that [`DRIVER`] has.
        static SETTINGS: &[$crate::Setting] = &[$(
            $crate::Setting {
                name: stringify!($field),
                kind: $kind,
                allowed: $allowed,
                help: $help,
                scope: $scope,
            },
        )*];

        const _: () = $crate::Setting::check_table(SETTINGS);

        impl $options {
            /// Returns the numbers of the defaults, in the order of the settings.
            fn default_numbers() -> Vec<Option<u64>> {
                let usual = Self::default();
                // Without `..`: a field without a setting does not compile.
                let Self { $($field),* } = &usual;
                vec![$($crate::SettingValue::number($field)),*]
            }

            /// Returns the options that have the values of `settings`, and defaults otherwise.
            pub(crate) fn of_settings(settings: &$crate::Settings) -> Self {
                let mut options = Self::default();
                let mut values = settings.values();
                $(
                    if let Some(value) = values.next().flatten()
                        && let Some(value) = $crate::SettingValue::of_number(value)
                    {
                        options.$field = value;
                    }
                )*
                options
            }
        }

        /// The fields that differ from their defaults.
        impl From<$options> for $crate::Settings {
            fn from(options: $options) -> Self {
                let (usual, mut settings) = ($options::default(), Self::new(&$driver));
                let numbers = [$(
                    (
                        $crate::SettingValue::number(&options.$field),
                        $crate::SettingValue::number(&usual.$field),
                    ),
                )*];
                for (place, (own, usual)) in numbers.into_iter().enumerate() {
                    if own != usual {
                        settings.put(place, own);
                    }
                }
                settings
            }
        }

        /// Settings of this engine alone.
        impl From<$options> for $crate::EngineSettings {
            fn from(options: $options) -> Self {
                $crate::Settings::from(options).into()
            }
        }
    };
}

/// Implements [`SettingValue`](crate::SettingValue) for a type whose values are words, given in the
/// order of the words.
#[macro_export]
macro_rules! setting_words {
    ($type:ty: $($value:expr),*) => {
        impl $crate::SettingValue for $type {
            fn number(&self) -> Option<u64> {
                let place = [$($value),*].iter().position(|value| value == self);
                place.map(|place| place as u64)
            }

            fn of_number(number: u64) -> Option<Self> {
                [$($value),*].get(usize::try_from(number).ok()?).copied()
            }
        }
    };
}
