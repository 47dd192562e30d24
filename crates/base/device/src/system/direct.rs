//! Whether, and in what units, a file system takes direct I/O.

use rustix::fs::{self, AtFlags, OFlags, StatxFlags};
use rustix::io::Errno;

use crate::buffer::Buffer;
use crate::error::{Error, Operation, Result};
use crate::file::File;

use super::errors::explain;
use super::file::SystemFile;
use super::root::Root;

/// The unit if the kernel does not report one: a multiple of every block size that is in use.
const DEFAULT_ALIGNMENT: usize = 4096;

/// `STATX_DIOALIGN`, since Linux 6.1.
const DIOALIGN: StatxFlags = StatxFlags::from_bits_retain(0x2000);

/// A file that is made for a moment if the file system has no unnamed ones.
const PROBE: &str = "direct-io-probe";

/// How much a bounce buffer holds.
const BOUNCE_BYTES: usize = 1 << 20;

/// Returns the unit of direct I/O beneath `root`, or `None` if there is none.
pub(super) fn alignment(root: &Root) -> Result<Option<usize>> {
    let unnamed = OFlags::RDWR | OFlags::TMPFILE | OFlags::DIRECT;
    let probe = match root.open_unnamed(unnamed) {
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT) => {
            let made = root.open_file(PROBE, OFlags::RDWR | OFlags::CREATE);
            made.and_then(|_| {
                let probe = root.open_file(PROBE, OFlags::RDWR | OFlags::DIRECT);
                super::names::remove(root, PROBE)?;
                probe
            })
        }
        outcome => outcome.map_err(|errno| explain(Operation::Open, "", errno)),
    };
    let probe = match probe {
        Ok(probe) => probe,
        Err(Error::Io { code, .. }) if code == Errno::INVAL.raw_os_error() => return Ok(None),
        // It cannot be written to, so it cannot be tried out either.
        Err(Error::Io { code, .. })
            if [Errno::ROFS, Errno::ACCESS, Errno::PERM]
                .iter()
                .any(|errno| errno.raw_os_error() == code) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let Ok(stat) = fs::statx(&probe, "", AtFlags::EMPTY_PATH, DIOALIGN) else {
        return Ok(Some(DEFAULT_ALIGNMENT));
    };
    if stat.stx_mask & DIOALIGN.bits() == 0 {
        return Ok(Some(DEFAULT_ALIGNMENT));
    }
    let unit = stat.stx_dio_mem_align.max(stat.stx_dio_offset_align) as usize;
    // Zero says that there is no direct I/O; a larger unit than buffers have is of no use.
    let usable = stat.stx_dio_offset_align > 0 && unit <= Buffer::ALIGNMENT;
    Ok((usable && unit.is_power_of_two()).then_some(unit))
}

/// Returns whether a transfer can bypass the page cache without a copy.
pub(super) fn is_aligned(unit: usize, offset: u64, bytes: &[u8]) -> bool {
    fits(unit, offset, bytes.len()) && bytes.as_ptr().addr().is_multiple_of(unit)
}

/// The same, of a buffer whose memory is aligned.
pub(super) fn fits(unit: usize, offset: u64, len: usize) -> bool {
    offset.is_multiple_of(unit as u64) && len.is_multiple_of(unit)
}

/// Returns the whole units around `len` bytes at `offset`: their beginning, and their bytes.
pub(super) fn window(unit: usize, offset: u64, len: usize) -> (u64, usize) {
    let before = (offset % unit as u64) as usize;
    (offset - before as u64, (before + len).next_multiple_of(unit))
}

impl SystemFile {
    /// Reads a range that is not aligned through buffers that are.
    pub(super) fn read_bounced(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let unit = self.alignment();
        let whole_end = offset.saturating_add(into.len() as u64);
        let (_, most) = window(unit, offset, into.len().min(BOUNCE_BYTES));
        let mut bounce = Buffer::zeroed(most + unit);
        let (mut at, mut rest) = (offset, into);
        while !rest.is_empty() {
            let (piece, later) = rest.split_at_mut(rest.len().min(BOUNCE_BYTES));
            let (start, len) = window(unit, at, piece.len());
            let before = (at - start) as usize;
            let needed = before + piece.len();
            let got = self.read_some(start, &mut bounce[..len], needed)?;
            if got < needed {
                return Err(self.ends_before(whole_end));
            }
            piece.copy_from_slice(&bounce[before..needed]);
            at += piece.len() as u64;
            rest = later;
        }
        Ok(())
    }

    /// Writes aligned ranges from memory that is not.
    pub(super) fn write_bounced(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut bounce = Buffer::zeroed(bytes.len().min(BOUNCE_BYTES));
        let mut at = offset;
        for piece in bytes.chunks(BOUNCE_BYTES) {
            bounce[..piece.len()].copy_from_slice(piece);
            self.write_whole(at, &bounce[..piece.len()])?;
            at += piece.len() as u64;
        }
        Ok(())
    }
}
