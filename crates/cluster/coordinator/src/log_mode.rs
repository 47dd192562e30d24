//! The options of a keyspace: how the write logs of its ranges are kept.

use std::fmt;

use codec::{Corruption, Reader};

/// The version of the encoding.
const VERSION: u8 = 1;

/// How the write logs of a keyspace's ranges are kept, and so when a write is acknowledged. The
/// manifest logs are always durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogMode {
    /// A write is acknowledged once enough StoCs have synced it.
    #[default]
    Durable,
    /// A write is acknowledged once enough StoCs have it in memory. It survives the loss of the
    /// other StoCs, and no power cut of all of them.
    Memory,
    /// A write is acknowledged once its owner has it in memory. It is lost with the owner, until a
    /// flush. For experiments.
    None,
}

impl LogMode {
    const ALL: [Self; 3] = [Self::Durable, Self::Memory, Self::None];

    /// Returns the mode of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.to_string() == name)
    }

    /// Returns the bytes of the options of a keyspace with this mode. The options of a durable one
    /// are empty.
    pub fn to_options(self) -> Vec<u8> {
        match self {
            Self::Durable => Vec::new(),
            Self::Memory => vec![VERSION, 1],
            Self::None => vec![VERSION, 2],
        }
    }

    /// Decodes the options of a keyspace.
    ///
    /// # Errors
    /// The damage; that a newer release wrote them.
    pub fn of_options(options: &[u8]) -> Result<Self, Corruption> {
        if options.is_empty() {
            return Ok(Self::Durable);
        }
        let mut fields = Reader::new(options);
        let version = fields.take_u8()?;
        if version != VERSION {
            let what = format!("options of keyspaces have version {VERSION}, not {version}");
            return Err(fields.corruption(what));
        }
        let mode = match fields.take_u8()? {
            1 => Self::Memory,
            2 => Self::None,
            other => return Err(fields.corruption(format!("{other} is no mode of a log"))),
        };
        fields.finish()?;
        Ok(mode)
    }
}

impl fmt::Display for LogMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Durable => "durable",
            Self::Memory => "memory",
            Self::None => "none",
        })
    }
}
