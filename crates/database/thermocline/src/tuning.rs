//! Options of a keyspace's engine that differ from the database's options.
//!
//! There are few: options that depend on a keyspace's data and that the catalog can keep, since a
//! keyspace is opened before any caller names it. All others are the database's.
//!
//! # Invariants
//! - T1. Every value that the catalog keeps is an allowed one, so that no keyspace keeps a database
//!   from opening.
//! - T2. A tuning without any option is kept as none: a tuning has one encoding.

mod settings;
#[cfg(test)]
mod tests;

use std::fmt;

use codec::{Corruption, Reader, Writer};

use crate::error::{Error, Result};
use crate::options::{EngineKind, KeyspaceOptions};
use settings::Setting;

/// Options of a keyspace's own engine. Each replaces the database's option of the same name
/// ([`crate::Options::lsm`] and so on); an option that is left out stays the database's.
/// [`KeyspaceOptions::tuning`] says which are kept, and from when on they hold. Shows as
/// `name=value`, separated by spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tuning {
    /// Of [`EngineKind::F2`].
    F2(F2Tuning),
    /// Of [`EngineKind::Lsm`].
    Lsm(LsmTuning),
    /// Of [`EngineKind::FlexDb`].
    FlexDb(FlexDbTuning),
}

/// Options that a keyspace of `f2` may have for itself: see those of the same name in
/// [`crate::f2::Options`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct F2Tuning {
    /// Bytes of a chunk of the cold index, 64 to 4096. Fixed when the keyspace is made.
    pub chunk_bytes: Option<u32>,
    /// Bytes of disk that the hot log should keep within, 1 MiB at least.
    pub disk_bytes_max: Option<u64>,
    /// The same for the cold log.
    pub cold_disk_bytes_max: Option<u64>,
}

/// Options that a keyspace of `lsm` may have for itself: see those of the same name in
/// [`crate::lsm::Options`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LsmTuning {
    /// How blocks are compressed, level by level: `[Compression::Zstd; 7]` is zstd in all of them.
    pub compression: Option<[lsm::Compression; lsm::Options::LEVELS]>,
    /// The kind of a table's filter.
    pub filter: Option<lsm::FilterKind>,
    /// Bits that a table's filter has for each key, 1 to 32.
    pub filter_bits_per_key: Option<u32>,
    /// Bytes of entries after which a data block ends, 512 to 1 MiB.
    pub block_bytes: Option<u32>,
    /// Bytes of data after which a table of a compaction ends, 64 KiB to 1 GiB.
    pub table_bytes: Option<u64>,
    /// Tables of Level 0 from which on they are compacted, 1 to 1024.
    pub level0_tables: Option<u32>,
    /// Tables in Level 0 from which on writers are slowed down, 1 to 1024.
    pub level0_tables_slow: Option<u32>,
    /// Bytes in Level 1 above which it is compacted, 64 KiB to 1 TiB.
    pub level1_bytes: Option<u64>,
    /// How many times larger a level is than the one above it, 2 to 100.
    pub level_ratio: Option<u32>,
}

/// Options that a keyspace of `flexdb` may have for itself: see those of the same name in
/// [`crate::flexdb::Options`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlexDbTuning {
    /// Pairs of an interval above which it is split, 2 to 4096.
    pub interval_pairs: Option<u32>,
    /// Bytes of an interval above which it is split, 512 to 1 MiB.
    pub interval_bytes: Option<u32>,
}

impl Tuning {
    /// Returns the engine whose options they are.
    pub const fn engine(&self) -> EngineKind {
        match self {
            Self::F2(_) => EngineKind::F2,
            Self::Lsm(_) => EngineKind::Lsm,
            Self::FlexDb(_) => EngineKind::FlexDb,
        }
    }

    /// Each one that is said, by its name, as people write it.
    pub fn said(&self) -> Vec<(&'static str, String)> {
        let shown = |(setting, value): (&Setting, u64)| (setting.name, setting.shown(value));
        settings::said(self).map(|(_, setting, value)| shown((setting, value))).collect()
    }

    /// Returns the bytes of a tuning, for a caller that keeps it elsewhere: as the catalog has it
    /// (`docs/formats/catalog.md`). No tuning and one without options have the same bytes.
    pub fn to_bytes(of: Option<Self>) -> Vec<u8> {
        let mut bytes = Vec::new();
        Self::encode(of, &mut Writer::new(&mut bytes));
        bytes
    }

    /// Reads a tuning of a keyspace of `engine` back from its bytes; returns none if it has no
    /// options.
    ///
    /// # Errors
    /// Bytes that no tuning of this engine has, and values that are not allowed; with the offset in
    /// `bytes`.
    pub fn of_bytes(
        engine: EngineKind,
        bytes: &[u8],
    ) -> std::result::Result<Option<Self>, Corruption> {
        let mut reader = Reader::new(bytes);
        let tuning = Self::decode(engine, &mut reader)?;
        reader.finish()?;
        Ok(tuning)
    }

    /// The same, or none where it says nothing [T2].
    fn if_any(self) -> Option<Self> {
        let is_any = settings::said(&self).next().is_some();
        is_any.then_some(self)
    }

    /// Returns the tuning to store for a keyspace that had `stored` and now gets this one: this one
    /// replaces it, but options that were fixed when the keyspace was made stay.
    ///
    /// # Errors
    /// [`Error::FixedOption`].
    pub(crate) fn instead_of(self, stored: Option<Self>, keyspace: &str) -> Result<Option<Self>> {
        let Self::F2(mut named) = self else { return Ok(self.if_any()) };
        let fixed = match stored {
            Some(Self::F2(stored)) => stored.chunk_bytes,
            _ => None,
        };
        if named.chunk_bytes.is_some_and(|bytes| Some(bytes) != fixed) {
            let option = "chunk_bytes";
            return Err(Error::FixedOption { keyspace: keyspace.to_owned(), option });
        }
        named.chunk_bytes = fixed;
        Ok(Self::F2(named).if_any())
    }

    /// The options of `f2` with these before them.
    pub(crate) fn f2(of: Option<Self>, database: &f2::Options) -> f2::Options {
        let mut options = database.clone();
        let Some(Self::F2(own)) = of else { return options };
        set(&mut options.chunk_bytes, own.chunk_bytes);
        options.disk_bytes_max = own.disk_bytes_max.or(options.disk_bytes_max);
        options.cold_disk_bytes_max = own.cold_disk_bytes_max.or(options.cold_disk_bytes_max);
        options
    }

    /// The options of `lsm` with these before them.
    pub(crate) fn lsm(of: Option<Self>, database: &lsm::Options) -> lsm::Options {
        let mut options = database.clone();
        let Some(Self::Lsm(own)) = of else { return options };
        set(&mut options.compression, own.compression.map(Vec::from));
        set(&mut options.filter, own.filter);
        set(&mut options.filter_bits_per_key, own.filter_bits_per_key);
        set(&mut options.block_bytes, own.block_bytes.map(|bytes| bytes as usize));
        set(&mut options.table_bytes, own.table_bytes);
        set(&mut options.level0_tables, own.level0_tables.map(|tables| tables as usize));
        set(&mut options.level0_tables_slow, own.level0_tables_slow.map(|tables| tables as usize));
        set(&mut options.level1_bytes, own.level1_bytes);
        set(&mut options.level_ratio, own.level_ratio.map(u64::from));
        options
    }

    /// The options of `flexdb` with these before them.
    pub(crate) fn flexdb(of: Option<Self>, database: &flexdb::Options) -> flexdb::Options {
        let mut options = database.clone();
        let Some(Self::FlexDb(own)) = of else { return options };
        set(&mut options.interval_pairs, own.interval_pairs.map(|pairs| pairs as usize));
        set(&mut options.interval_bytes, own.interval_bytes);
        options
    }

    /// Writes the catalog's form of it: the number of options, then each with its number, in
    /// ascending order.
    pub(crate) fn encode(of: Option<Self>, writer: &mut Writer<'_>) {
        let said: Vec<_> = of.iter().flat_map(settings::said).collect();
        writer.put_varint(said.len() as u64);
        for (number, _, value) in said {
            writer.put_u8(number);
            writer.put_varint(value);
        }
    }

    /// Reads it back, of a keyspace of `engine`.
    ///
    /// # Errors
    /// Numbers that the engine has not, or out of order; values that are not allowed [T1].
    pub(crate) fn decode(
        engine: EngineKind,
        reader: &mut Reader<'_>,
    ) -> std::result::Result<Option<Self>, Corruption> {
        let known = settings::of(engine);
        let mut values = vec![None; known.len()];
        let mut next = 0;
        // Each takes two bytes at least.
        for _ in 0..reader.take_count(2)? {
            let number = reader.take_u8()?;
            let value = reader.take_varint_u64()?;
            let found = known.get(usize::from(number)).filter(|_| usize::from(number) >= next);
            let Some((setting, kept)) = found.zip(values.get_mut(usize::from(number))) else {
                let what = format!("no option {number} of engine {engine} belongs here");
                return Err(reader.corruption(what));
            };
            if !setting.allows(value) {
                let what = format!("option {} of a keyspace is {value}", setting.name);
                return Err(reader.corruption(what));
            }
            *kept = Some(value);
            next = usize::from(number) + 1;
        }
        Ok(settings::tuning(engine, &values).and_then(Self::if_any))
    }
}

impl KeyspaceOptions {
    /// Returns the same options in the form that is kept: a tuning without options becomes none,
    /// and so do zero bytes of memory.
    pub(crate) fn normal(self) -> Self {
        let memory_bytes = self.memory_bytes.filter(|bytes| *bytes > 0);
        Self { memory_bytes, tuning: self.tuning.and_then(Tuning::if_any), ..self }
    }

    /// Refuses a tuning that no keyspace with these could have.
    ///
    /// # Errors
    /// [`Error::OtherEngine`]; [`engine::Error::BadOption`].
    pub(crate) fn check_tuning(&self) -> Result<()> {
        let Some(tuning) = &self.tuning else { return Ok(()) };
        let (engine, of) = (self.engine, tuning.engine());
        if engine != of {
            return Err(Error::OtherEngine { engine, of });
        }
        let mut said = settings::said(tuning);
        match said.find(|(_, setting, value)| !setting.allows(*value)) {
            None => Ok(()),
            Some((_, Setting { name: option, allowed, .. }, _)) => {
                let engine = engine.name();
                Err(Error::Engine(engine::Error::BadOption { engine, option, allowed }))
            }
        }
    }
}

fn set<T>(option: &mut T, own: Option<T>) {
    if let Some(own) = own {
        *option = own;
    }
}

impl fmt::Display for Tuning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, value)) in self.said().into_iter().enumerate() {
            let space = if index == 0 { "" } else { " " };
            write!(f, "{space}{name}={value}")?;
        }
        Ok(())
    }
}
