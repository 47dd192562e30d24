//! A file of the device beneath, some of whose blocks are others.
//!
//! # Invariants
//! - P1. A byte is that of its block here, if there is one; else that beneath, up to where the file
//!   was never cut; else zero.
//! - P2. Bytes here past the file's end are zero, so that growing it shows zeros.

use std::collections::BTreeMap;
use std::sync::Arc;

use sync::locks::RwLock;

use crate::error::{Error, Operation, Result};
use crate::file::{File, Mode, SyncKind};

/// Bytes that are copied for a write to one of them.
const BLOCK_BYTES: usize = 4096;
const BLOCK: u64 = BLOCK_BYTES as u64;

/// The differences of a file from the one beneath; all handles to it share them.
#[derive(Debug)]
pub(super) struct Changes(RwLock<State>);

#[derive(Debug)]
struct State {
    len: u64,
    /// The end of the bytes beneath that are shown.
    shown: u64,
    /// None is zeros, so that a long hole takes little memory.
    blocks: BTreeMap<u64, Option<Box<[u8]>>>,
}

impl Changes {
    /// Of a file of `len` bytes.
    pub(super) fn none(len: u64) -> Self {
        Self(RwLock::new(State { len, shown: len, blocks: BTreeMap::new() }))
    }
}

/// A handle to it.
#[derive(Debug)]
pub(super) struct PatchedFile {
    pub(super) base: Arc<dyn File>,
    pub(super) changes: Arc<Changes>,
    pub(super) mode: Mode,
}

/// Returns the parts of a range by blocks: the block, the part's place in it, and its place in the
/// range.
fn parts(offset: u64, len: u64) -> impl Iterator<Item = (u64, std::ops::Range<usize>, usize)> {
    let end = offset + len;
    let first = offset / BLOCK;
    (first..end.div_ceil(BLOCK).max(first)).map(move |block| {
        let begin = block * BLOCK;
        let (from, to) = (offset.max(begin), end.min(begin + BLOCK));
        (block, (from - begin) as usize..(to - begin) as usize, (from - offset) as usize)
    })
}

impl PatchedFile {
    /// Reads the bytes that are shown from `offset` in blocks without a change.
    fn read_beneath(&self, state: &State, offset: u64, into: &mut [u8]) -> Result<()> {
        let shown = state.shown.saturating_sub(offset).min(into.len() as u64) as usize;
        let (shown, behind) = into.split_at_mut(shown);
        behind.fill(0);
        if shown.is_empty() { Ok(()) } else { self.base.read_at(offset, shown) }
    }

    /// Changes a range: `fill` is called with each part of it, and with the part's place in the
    /// range.
    fn change(
        &self,
        state: &mut State,
        (offset, len): (u64, u64),
        mut fill: impl FnMut(&mut [u8], usize),
    ) -> Result<()> {
        for (block, part, at) in parts(offset, len) {
            if !state.blocks.contains_key(&block) {
                let mut bytes = vec![0; BLOCK_BYTES].into_boxed_slice();
                if part.len() < BLOCK_BYTES {
                    self.read_beneath(state, block * BLOCK, &mut bytes)?;
                }
                state.blocks.insert(block, Some(bytes));
            }
            if let Some(bytes) = state.blocks.get_mut(&block) {
                let bytes = bytes.get_or_insert_with(|| vec![0; BLOCK_BYTES].into_boxed_slice());
                fill(&mut bytes[part], at);
            }
        }
        Ok(())
    }

    fn check_writable(&self) -> Result<()> {
        if self.mode != Mode::Read {
            return Ok(());
        }
        let code = rustix::io::Errno::BADF.raw_os_error();
        Err(Error::Io { operation: Operation::Write, name: self.base.name().to_owned(), code })
    }
}

impl File for PatchedFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let state = self.changes.0.read();
        let end = offset.saturating_add(into.len() as u64);
        if end > state.len {
            return Err(Error::UnexpectedEnd { name: self.base.name().to_owned(), end });
        }
        self.read_beneath(&state, offset, into)?;
        for (block, part, at) in parts(offset, into.len() as u64) {
            match state.blocks.get(&block) {
                Some(Some(bytes)) => into[at..at + part.len()].copy_from_slice(&bytes[part]),
                Some(None) => into[at..at + part.len()].fill(0),
                None => {}
            }
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.check_writable()?;
        let mut state = self.changes.0.write();
        let fill = |part: &mut [u8], at: usize| part.copy_from_slice(&bytes[at..at + part.len()]);
        self.change(&mut state, (offset, bytes.len() as u64), fill)?;
        if !bytes.is_empty() {
            state.len = state.len.max(offset + bytes.len() as u64);
        }
        Ok(())
    }

    fn sync(&self, _: SyncKind) -> Result<()> {
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        Ok(self.changes.0.read().len)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.check_writable()?;
        let mut state = self.changes.0.write();
        state.len = len;
        state.shown = state.shown.min(len);
        drop(state.blocks.split_off(&len.div_ceil(BLOCK)));
        if let Some(Some(bytes)) = state.blocks.get_mut(&(len / BLOCK)) {
            bytes[(len % BLOCK) as usize..].fill(0);
        }
        Ok(())
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.check_writable()?;
        let mut state = self.changes.0.write();
        state.len = state.len.max(offset.saturating_add(len));
        Ok(())
    }

    fn punch(&self, offset: u64, len: u64) -> Result<()> {
        self.check_writable()?;
        let mut state = self.changes.0.write();
        let end = offset.saturating_add(len).min(state.len).max(offset);
        // The blocks that are punched as a whole, and the bytes before and behind them.
        let first = offset.next_multiple_of(BLOCK).min(end);
        let last = (end / BLOCK * BLOCK).max(first);
        for (begin, end) in [(offset, first), (last, end)].into_iter().filter(|it| it.0 < it.1) {
            self.change(&mut state, (begin, end - begin), |part, _| part.fill(0))?;
        }
        state.blocks.extend((first / BLOCK..last / BLOCK).map(|block| (block, None)));
        Ok(())
    }

    fn alignment(&self) -> usize {
        self.base.alignment()
    }

    fn name(&self) -> &str {
        self.base.name()
    }
}
