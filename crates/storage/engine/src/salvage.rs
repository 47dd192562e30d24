//! The result of reading a store although it is damaged.

use std::fmt;
use std::ops::ControlFlow;

use codec::{Corruption, SeqNo};

use crate::batch::Op;
use crate::error::{Error, Result};

/// Pieces that are listed; of more only the number is kept.
const LOST_MAX: usize = 100;

/// A callback for each undamaged write, in such an order that the newest of a key is last; it
/// breaks to stop the reading.
pub type SalvageSink<'a> = dyn FnMut(Op<'_>) -> ControlFlow<()> + 'a;

/// A piece of a store that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The defect, and its place.
    pub damage: Corruption,
    /// The keys that it may have had, as far as that is known.
    pub keys: Option<LostKeys>,
}

/// Keys from the one to the other, both included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostKeys {
    /// None may be less.
    pub from: Vec<u8>,
    /// None may be greater, if this is known.
    pub to: Option<Vec<u8>>,
}

impl LostKeys {
    /// Returns the keys from the least of both to the greatest.
    fn with(self, other: Self) -> Self {
        let to = self.to.zip(other.to).map(|(one, another)| one.max(another));
        Self { from: self.from.min(other.from), to }
    }
}

impl fmt::Display for LostKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "keys from \"{}\"", self.from.escape_ascii())?;
        match &self.to {
            Some(to) => write!(f, " to \"{}\"", to.escape_ascii()),
            None => write!(f, " on"),
        }
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.keys {
            Some(keys) => write!(f, "{}: {keys}", self.damage),
            None => write!(f, "{}", self.damage),
        }
    }
}

/// The result of reading a damaged store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// Every write up to this was in the store's files; zero where nothing says so any more.
    pub persisted: SeqNo,
    /// The first unreadable pieces.
    pub lost: Vec<Lost>,
    /// How many more there are.
    pub further_lost: u64,
    /// Whether unreadable pieces may have been newer than the returned writes: then some keys have
    /// an older value, or are back although they were deleted.
    pub may_be_outdated: bool,
}

impl Salvaged {
    /// Notes a piece that cannot be read, and the keys that it may have had. If the last piece has
    /// the same damage, it gets these keys too. So does the last one of a full list: no key that is
    /// lost is without a name.
    pub fn lose(&mut self, damage: Corruption, keys: Option<LostKeys>) {
        let is_full = self.lost.len() >= LOST_MAX;
        let last = self.lost.last_mut().filter(|last| is_full || last.damage == damage);
        let Some(last) = last else {
            self.lost.push(Lost { damage, keys });
            return;
        };
        self.further_lost += u64::from(last.damage != damage);
        last.keys = match (last.keys.take(), keys) {
            (Some(known), Some(more)) => Some(known.with(more)),
            _ => None,
        };
    }

    /// Returns the value that was to be read, unless it is damaged, which is noted.
    ///
    /// # Errors
    /// Any failure that is not damage. If a file is missing, or its length has changed, damage is
    /// all that can be said.
    pub fn sound<T>(
        &mut self,
        read: Result<T>,
        keys: impl FnOnce() -> Option<LostKeys>,
    ) -> Result<Option<T>> {
        match read.map_err(as_damage) {
            Ok(value) => Ok(Some(value)),
            Err(Error::Corruption(damage)) => {
                self.lose(damage, keys());
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// Returns the same failure; as damage, if a file of a store is missing, or ends too soon.
pub fn as_damage(error: Error) -> Error {
    match error {
        Error::Device(device::Error::NotFound { name }) => {
            Corruption::new("the file is missing", 0).at(&name, 0).into()
        }
        Error::Device(device::Error::UnexpectedEnd { name, end }) => {
            Corruption::new("the file ends too soon: there should be more up to this", end)
                .at(&name, 0)
                .into()
        }
        other => other,
    }
}
