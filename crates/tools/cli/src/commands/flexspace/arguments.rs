//! The command line of `thermocline flexspace`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::arguments::{Shared, With};

#[derive(Debug, Subcommand)]
pub(crate) enum FlexspaceCommand {
    /// Make a space, empty or with the bytes of a file
    Create(With<Create>),
    /// Put bytes at an offset; all behind them moves back
    Insert(With<Insert>),
    /// Take bytes out; all behind them moves up
    Collapse(With<Collapse>),
    /// Write the bytes to standard output
    Cat(With<Cat>),
    /// Print figures of spaces
    Stat(With<Stat>),
    /// Rewrite scattered bytes so that they are contiguous, and free the unused space
    Defrag(With<Defrag>),
    /// Verify every byte of spaces that are not open; changes nothing
    Check(With<Check>),
    /// Have a space, or a directory of spaces, seen as files until it is unmounted
    Mount(With<Mount>),
}

impl FlexspaceCommand {
    /// Returns the arguments that it shares with the other commands.
    pub(crate) fn shared(&self) -> &Shared {
        match self {
            Self::Create(with) => &with.shared,
            Self::Insert(with) => &with.shared,
            Self::Collapse(with) => &with.shared,
            Self::Cat(with) => &with.shared,
            Self::Stat(with) => &with.shared,
            Self::Defrag(with) => &with.shared,
            Self::Check(with) => &with.shared,
            Self::Mount(with) => &with.shared,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Create {
    /// The space: a directory, which is made
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Its first bytes; - takes those of standard input
    #[arg(long, value_name = "INPUT")]
    pub(crate) from: Option<PathBuf>,
    /// Bytes of a segment, a power of two from 16kb to 1gb; no piece is longer than 1/32 of it
    #[arg(long, value_name = "SIZE", default_value = "4mb", value_parser = amount)]
    pub(crate) segment: u64,
}

#[derive(Debug, Args)]
pub(crate) struct Insert {
    /// The space
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Offset in bytes from the beginning, like 4096 or 10mb, or end
    #[arg(value_name = "OFFSET", value_parser = place)]
    pub(crate) offset: Place,
    /// The bytes; standard input unless given
    #[arg(value_name = "INPUT")]
    pub(crate) input: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Collapse {
    /// The space
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The first byte that goes
    #[arg(value_name = "OFFSET", value_parser = amount)]
    pub(crate) offset: u64,
    /// How many go, like 4096 or 10mb; or end: all from there on
    #[arg(value_name = "LENGTH", value_parser = place)]
    pub(crate) length: Place,
}

#[derive(Debug, Args)]
pub(crate) struct Cat {
    /// The space
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) range: Range,
}

#[derive(Debug, Args)]
pub(crate) struct Stat {
    /// The spaces
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Defrag {
    /// The space
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) range: Range,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The spaces
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Mount {
    /// The space, or a directory whose directories are spaces
    #[arg(value_name = "FILE_OR_DIR")]
    pub(crate) source: PathBuf,
    /// The directory where it is to be seen
    #[arg(value_name = "MOUNTPOINT")]
    pub(crate) at: PathBuf,
    /// Bytes of a segment of files that are made, a power of two from 16kb to 1gb
    #[arg(long, value_name = "SIZE", default_value = "4mb", value_parser = amount)]
    pub(crate) segment: u64,
    /// Let other users in; takes root, or user_allow_other in /etc/fuse.conf
    #[arg(long)]
    pub(crate) allow_other: bool,
    /// Allow no changes
    #[arg(long)]
    pub(crate) read_only: bool,
}

/// A part of a space.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Range {
    /// The first byte
    #[arg(long, value_name = "OFFSET", default_value = "0", value_parser = amount)]
    pub(crate) offset: u64,
    /// How many bytes
    #[arg(long, value_name = "LENGTH", default_value = "end", value_parser = place)]
    pub(crate) length: Place,
}

/// A number of bytes, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    At(u64),
    End,
}

impl Place {
    /// The number, of which the end is `end`.
    pub(super) fn or(self, end: u64) -> u64 {
        match self {
            Self::At(bytes) => bytes,
            Self::End => end,
        }
    }
}

/// A number of bytes, also of 1024 or more of them.
fn amount(text: &str) -> Result<u64, String> {
    let refused = || {
        format!(
            "{text:?} is no number of bytes: a whole number, then nothing, kb, mb, gb or tb \
             (powers of 1024), like 10mb"
        )
    };
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(refused()),
    };
    let number: u64 = number.parse().map_err(|_| refused())?;
    number.checked_mul(1 << shift).ok_or_else(refused)
}

fn place(text: &str) -> Result<Place, String> {
    if text == "end" {
        return Ok(Place::End);
    }
    amount(text).map(Place::At).map_err(|why| why + ", or end")
}
