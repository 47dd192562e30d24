//! Settings of engines: the options of an engine by name.
//!
//! An engine declares its settings in one table ([`settings!`](crate::settings!)). The options of a
//! database, those of a keyspace, the catalog, the command line and the benchmarks all use this
//! table. A program may use the engine's own `Options` instead, which are [`Settings`] of the
//! fields that differ from their defaults.
//!
//! Each value is a number, as the catalog stores it ([`SettingValue`]).
//!
//! # Invariants
//! - S1. Every value that the catalog has is an allowed one. So no keyspace keeps a database from
//!   opening.
//! - S2. Settings without any value are stored as none: settings have one encoding.

mod macros;
#[cfg(test)]
mod tests;
mod value;

use std::fmt;

use codec::{Corruption, Reader, Writer};

use crate::driver::Driver;
use crate::error::{Error, Result};
pub use value::SettingValue;

/// One setting of an engine.
#[derive(Debug)]
pub struct Setting {
    /// Its name: that of the field in the engine's `Options`.
    pub name: &'static str,
    /// Its values.
    pub kind: SettingKind,
    /// The allowed values, in words.
    pub allowed: &'static str,
    /// The meaning, in one sentence.
    pub help: &'static str,
    /// The level at which it can be set.
    pub scope: Scope,
}

/// The values of a setting.
#[derive(Debug)]
pub enum SettingKind {
    /// A number from the first to the second, both included.
    Number(u64, u64),
    /// A power of two in such a range.
    PowerOfTwo(u64, u64),
    /// `on` or `off`.
    Flag,
    /// A number from 0 to 1.
    Share,
    /// One of these words.
    Word(&'static [&'static str]),
    /// One of these words for each of [`Setting::LEVELS`] levels.
    Levels(&'static [&'static str]),
}

/// The level at which a setting can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// For a database, and for a keyspace of it. The catalog stores it under this number, which no
    /// other setting of the engine ever gets.
    Keyspace(u8),
    /// The same, and for a keyspace only when it is made.
    NewKeyspace(u8),
    /// For a database.
    Database,
    /// For a database, in comparisons of an engine with itself.
    Experiment,
}

/// Bits of a number that one level takes.
const LEVEL_BITS: usize = 4;

impl Setting {
    /// The levels of a setting of the kind [`SettingKind::Levels`].
    pub const LEVELS: usize = 7;

    /// Checks a table of settings when it is compiled: its length, and that no two settings have
    /// the same number in the catalog.
    ///
    /// # Panics
    /// If the table is none that an engine may have.
    #[doc(hidden)]
    pub const fn check_table(settings: &[Self]) {
        assert!(settings.len() <= Settings::MAX, "there is room for all settings");
        let mut seen = 0_u64;
        let mut place = 0;
        while place < settings.len() {
            if let Some(number) = settings[place].number() {
                assert!(seen & (1 << number) == 0, "a number belongs to one setting");
                seen |= 1 << number;
            }
            place += 1;
        }
    }

    /// Returns the number under which the catalog stores it, if a keyspace can have it.
    pub const fn number(&self) -> Option<u8> {
        match self.scope {
            Scope::Keyspace(number) | Scope::NewKeyspace(number) => Some(number),
            Scope::Database | Scope::Experiment => None,
        }
    }

    /// Returns whether `value` is one of its values.
    pub fn allows(&self, value: u64) -> bool {
        match &self.kind {
            SettingKind::Number(min, max) => (*min..=*max).contains(&value),
            SettingKind::PowerOfTwo(min, max) => {
                value.is_power_of_two() && (*min..=*max).contains(&value)
            }
            SettingKind::Flag => value <= 1,
            SettingKind::Share => (0.0..=1.0).contains(&f64::from_bits(value)),
            SettingKind::Word(words) => value < words.len() as u64,
            SettingKind::Levels(words) => levels_of(value)
                .is_some_and(|levels| levels.iter().all(|level| *level < words.len())),
        }
    }

    /// Returns a value as text. `text` has the form that [`Setting::parse`] takes.
    pub fn shown(&self, value: u64) -> String {
        match &self.kind {
            SettingKind::Number(..) | SettingKind::PowerOfTwo(..) => value.to_string(),
            SettingKind::Flag => if value == 0 { "off" } else { "on" }.to_owned(),
            SettingKind::Share => f64::from_bits(value).to_string(),
            SettingKind::Word(words) => word(words, value as usize).to_owned(),
            SettingKind::Levels(words) => {
                let levels = levels_of(value).unwrap_or_default();
                let mut names: Vec<&str> = levels.iter().map(|level| word(words, *level)).collect();
                // The last word holds for all levels below.
                while let [.., above, last] = names.as_slice()
                    && above == last
                {
                    names.pop();
                }
                names.join(",")
            }
        }
    }

    /// Returns the value of a text: a number, `on` or `off`, or a word. With several levels, words
    /// with commas between them, of which the last one holds for all levels below.
    pub fn parse(&self, text: &str) -> Option<u64> {
        let value = match &self.kind {
            SettingKind::Number(..) | SettingKind::PowerOfTwo(..) => text.parse().ok()?,
            SettingKind::Flag => ["off", "on"].iter().position(|word| *word == text)? as u64,
            SettingKind::Share => text.parse::<f64>().ok()?.to_bits(),
            SettingKind::Word(words) => place(words, text)? as u64,
            SettingKind::Levels(words) => {
                let levels: Option<Vec<usize>> =
                    text.split(',').map(|text| place(words, text)).collect();
                of_levels(levels?.into_iter())?
            }
        };
        self.allows(value).then_some(value)
    }
}

fn word(words: &[&'static str], place: usize) -> &'static str {
    words.get(place).copied().unwrap_or_default()
}

fn place(words: &[&str], text: &str) -> Option<usize> {
    words.iter().position(|word| *word == text)
}

/// Returns the number of these levels, the lowest bits for the first one. The last one holds for
/// all levels below.
fn of_levels(levels: impl DoubleEndedIterator<Item = usize> + ExactSizeIterator) -> Option<u64> {
    if levels.len() > Setting::LEVELS {
        return None;
    }
    let missing = Setting::LEVELS - levels.len();
    let mut levels = levels.rev().peekable();
    let last = *levels.peek()?;
    let all = std::iter::repeat_n(last, missing).chain(levels);
    Some(all.fold(0, |number, level| (number << LEVEL_BITS) | level as u64))
}

/// Returns the levels of a number.
fn levels_of(number: u64) -> Option<[usize; Setting::LEVELS]> {
    if number >> (LEVEL_BITS * Setting::LEVELS) != 0 {
        return None;
    }
    let level = |index: usize| (number >> (LEVEL_BITS * index)) & ((1 << LEVEL_BITS) - 1);
    Some(std::array::from_fn(|index| level(index) as usize))
}

/// Values of settings of one engine. A setting without a value has the value of the database, or
/// its default. Shows as `name=value`, separated by spaces.
#[derive(Clone, Copy)]
pub struct Settings {
    driver: &'static Driver,
    /// In the order of the engine's settings.
    values: [u64; Settings::MAX],
    /// A bit for each setting that has a value.
    have: u32,
}

impl Settings {
    /// The most settings of an engine.
    pub const MAX: usize = 24;

    /// Returns settings of an engine without any value.
    pub const fn new(driver: &'static Driver) -> Self {
        Self { driver, values: [0; Self::MAX], have: 0 }
    }

    /// Returns the name of the engine.
    pub fn engine(&self) -> &'static str {
        self.driver.name()
    }

    /// Returns the engine.
    #[doc(hidden)]
    pub fn driver(&self) -> &'static Driver {
        self.driver
    }

    /// Returns the same settings with one more value, given as text.
    ///
    /// # Errors
    /// As [`Settings::set`].
    pub fn with(mut self, name: &str, text: &str) -> Result<Self> {
        self.set(name, text)?;
        Ok(self)
    }

    /// Sets a value, given as text ([`Setting::parse`]). A hyphen in the name counts as `_`.
    ///
    /// # Errors
    /// [`Error::NoSetting`]; [`Error::BadOption`] with the allowed values.
    pub fn set(&mut self, name: &str, text: &str) -> Result<()> {
        let (engine, written) = (self.driver.name(), name.replace('-', "_"));
        let mut known = self.driver.settings.iter().enumerate();
        let Some((place, setting)) = known.find(|(_, setting)| setting.name == written) else {
            let names = self.driver.settings.iter().map(|setting| setting.name);
            let known = names.collect::<Vec<_>>().join(", ");
            return Err(Error::NoSetting { engine, name: name.to_owned(), known });
        };
        let value = setting.parse(text).ok_or_else(|| setting.refusal(engine))?;
        self.put(place, Some(value));
        Ok(())
    }

    /// Sets a setting by its place in the engine's table.
    #[doc(hidden)]
    pub fn put(&mut self, place: usize, value: Option<u64>) {
        let Some(kept) = self.values.get_mut(place) else { return };
        *kept = value.unwrap_or_default();
        self.have &= !(1 << place);
        self.have |= u32::from(value.is_some()) << place;
    }

    /// Returns the value of a setting by its place in the engine's table.
    fn at(&self, place: usize) -> Option<u64> {
        self.values.get(place).copied().filter(|_| self.have & (1 << place) != 0)
    }

    /// Returns the value of a setting, if it has one.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.iter().find(|(setting, _)| setting.name == name).map(|(_, value)| value)
    }

    /// Returns all values, in the order of the engine's table.
    pub fn values(&self) -> impl Iterator<Item = Option<u64>> + use<> {
        let settings = *self;
        (0..self.driver.settings.len()).map(move |place| settings.at(place))
    }

    /// Returns the settings that have a value, in the order of the engine's table.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Setting, u64)> + use<> {
        let all = self.driver.settings.iter().zip(self.values());
        all.filter_map(|(setting, value)| Some((setting, value?)))
    }

    /// Returns whether no setting has a value.
    pub fn is_empty(&self) -> bool {
        self.have == 0
    }

    /// Returns the same settings, or none if no setting has a value (S2).
    pub fn if_any(self) -> Option<Self> {
        (!self.is_empty()).then_some(self)
    }

    /// Returns the settings of `base`, where these take precedence. They are of the same engine.
    pub fn over(&self, base: &Self) -> Self {
        debug_assert_eq!(self.driver.name(), base.driver.name());
        let mut all = *base;
        for (place, own) in self.values().enumerate() {
            all.put(place, own.or(base.at(place)));
        }
        all
    }

    /// Refuses values that are not allowed.
    ///
    /// # Errors
    /// [`Error::BadOption`] with the allowed values.
    pub fn check(&self) -> Result<()> {
        let mut all = self.iter();
        match all.find(|(setting, value)| !setting.allows(*value)) {
            Some((setting, _)) => Err(setting.refusal(self.engine())),
            None => Ok(()),
        }
    }

    /// Refuses settings that no keyspace could have.
    ///
    /// # Errors
    /// As [`Settings::check`]; [`Error::BadOption`] if a setting is set for a database only.
    pub fn check_of_keyspace(&self) -> Result<()> {
        match self.iter().find(|(setting, _)| setting.number().is_none()) {
            Some((setting, _)) => {
                let (engine, option) = (self.engine(), setting.name);
                Err(Error::BadOption { engine, option, allowed: "set for the database" })
            }
            None => self.check(),
        }
    }

    /// Returns the settings to store for a keyspace that had `stored` and now gets these: these
    /// replace them, but settings of a new keyspace stay.
    ///
    /// # Errors
    /// The name of a setting of a new keyspace that would change.
    pub fn instead_of(
        mut self,
        stored: Option<Self>,
    ) -> std::result::Result<Option<Self>, &'static str> {
        for (place, setting) in self.driver.settings.iter().enumerate() {
            if !matches!(setting.scope, Scope::NewKeyspace(_)) {
                continue;
            }
            let (own, fixed) = (self.at(place), stored.and_then(|stored| stored.at(place)));
            if own.is_some() && own != fixed {
                return Err(setting.name);
            }
            self.put(place, fixed);
        }
        Ok(self.if_any())
    }

    /// Writes the catalog's form: the number of settings, then each with its number, in ascending
    /// order. Only settings of keyspaces have numbers.
    pub fn encode(of: Option<Self>, writer: &mut Writer<'_>) {
        let said = of.into_iter().flat_map(|settings| settings.iter());
        let mut said: Vec<(u8, u64)> =
            said.filter_map(|(setting, value)| Some((setting.number()?, value))).collect();
        said.sort_unstable();
        writer.put_varint(said.len() as u64);
        for (number, value) in said {
            writer.put_u8(number);
            writer.put_varint(value);
        }
    }

    /// Reads the catalog's form of a keyspace of an engine.
    ///
    /// # Errors
    /// Numbers that the engine does not have, or out of order; values that are not allowed (S1).
    pub fn decode(
        driver: &'static Driver,
        reader: &mut Reader<'_>,
    ) -> std::result::Result<Option<Self>, Corruption> {
        let engine = driver.name();
        let mut settings = Self::new(driver);
        let mut next = 0;
        // Each takes two bytes at least.
        for _ in 0..reader.take_count(2)? {
            let number = reader.take_u8()?;
            let value = reader.take_varint_u64()?;
            let has_number = |setting: &Setting| setting.number() == Some(number);
            let found = driver.settings.iter().position(has_number);
            let Some(place) = found.filter(|_| u16::from(number) >= next) else {
                let what = format!("no option {number} of engine {engine} belongs here");
                return Err(reader.corruption(what));
            };
            let setting = &driver.settings[place];
            if !setting.allows(value) {
                let what = format!("option {} of a keyspace is {value}", setting.name);
                return Err(reader.corruption(what));
            }
            settings.put(place, Some(value));
            next = u16::from(number) + 1;
        }
        Ok(settings.if_any())
    }

    /// Returns the bytes of settings as the catalog stores them (`docs/formats/catalog.md`), for a
    /// caller that stores them elsewhere. None, and settings without values, have the same bytes.
    pub fn to_bytes(of: Option<Self>) -> Vec<u8> {
        let mut bytes = Vec::new();
        Self::encode(of, &mut Writer::new(&mut bytes));
        bytes
    }

    /// Reads such bytes of a keyspace of an engine.
    ///
    /// # Errors
    /// As [`Settings::decode`], with the offset in `bytes`.
    pub fn of_bytes(
        driver: &'static Driver,
        bytes: &[u8],
    ) -> std::result::Result<Option<Self>, Corruption> {
        let mut reader = Reader::new(bytes);
        let settings = Self::decode(driver, &mut reader)?;
        reader.finish()?;
        Ok(settings)
    }
}

impl Setting {
    fn refusal(&self, engine: &'static str) -> Error {
        Error::BadOption { engine, option: self.name, allowed: self.allowed }
    }
}

impl PartialEq for Settings {
    fn eq(&self, other: &Self) -> bool {
        self.driver.name() == other.driver.name() && self.values().eq(other.values())
    }
}

impl Eq for Settings {}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (setting, value)) in self.iter().enumerate() {
            let space = if index == 0 { "" } else { " " };
            write!(f, "{space}{}={}", setting.name, setting.shown(value))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {{ {self} }}", self.driver.name())
    }
}

/// Settings of several engines. Each engine has at most one [`Settings`], and none is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineSettings(Vec<Settings>);

impl EngineSettings {
    /// Returns the same, with these settings of one engine in place of its settings before.
    #[must_use]
    pub fn with(mut self, settings: impl Into<Settings>) -> Self {
        let settings = settings.into();
        self.0.retain(|other| other.driver.name() != settings.driver.name());
        self.0.extend(settings.if_any());
        self
    }

    /// Refuses values that are not allowed.
    ///
    /// # Errors
    /// As [`Settings::check`].
    pub fn check(&self) -> Result<()> {
        self.0.iter().try_for_each(Settings::check)
    }

    /// Returns the settings of an engine.
    #[doc(hidden)]
    pub fn of(&self, driver: &'static Driver) -> Settings {
        let found = self.0.iter().find(|settings| settings.driver.name() == driver.name());
        found.copied().unwrap_or_else(|| Settings::new(driver))
    }
}

impl From<Settings> for EngineSettings {
    fn from(settings: Settings) -> Self {
        Self::default().with(settings)
    }
}
