//! Releasing disk space of the chunk log: chunks that the directory still names are appended again,
//! then the log begins behind them.
//!
//! 1. The directory is searched for words that lead below the new beginning, a slice of the log at
//!    a time, and their chunks are read in the order of their addresses.
//! 2. Each is appended as the directory's present level has it: of a chunk that a doubling has
//!    split in two, two are made [N2]. One without entries is forgotten instead: all its older
//!    versions are below the beginning too [N4].
//! 3. When no word leads below the new beginning, the log begins there [N3]. New versions are
//!    appended above it, so no word leads below it later.
//!
//! The segments are removed by the checkpoint that no longer needs them.

use engine::Result;
use workers::StopToken;

use super::ColdIndex;
use super::apply::Growth;
use super::chunk::{Name, Prefix};
use super::directory::Word;
use super::plan::{is_wanted, plan};
use super::read_chunks::Outcome;
use crate::address::LogAddress;

/// Addresses that are compacted together: the names of their chunks are kept in memory.
const SLICE_BYTES: u64 = 16 << 20;

impl ColdIndex {
    /// Whether compaction of the chunk log has anything to do, be it now or later.
    pub(crate) fn is_compaction_wanted(&self) -> bool {
        is_wanted(&self.figures(), &self.log.geometry)
    }

    /// Returns the address up to which the chunk log is to be compacted now, if at all.
    pub(crate) fn compaction_due(&self) -> Option<LogAddress> {
        let (begin, flushed) = (self.log.begin(), self.log.flushed());
        plan(&self.figures(), begin, flushed, &self.log.geometry)
    }

    /// Copies the chunks that the directory names below `until`, which is on disk, to the tail of
    /// the chunk log. Then the log begins at `until`. `false`: it was stopped, and the beginning
    /// did not move. One compaction at a time; blocks, so the caller is not protected.
    /// `note_progress` is called from time to time with the address that it has reached.
    ///
    /// # Errors
    /// Damage with its place; the storage's.
    pub(crate) fn compact(
        &self,
        until: LogAddress,
        stop: &StopToken,
        note_progress: &dyn Fn(LogAddress),
    ) -> Result<bool> {
        // Versions that may still be installed are above the safely read-only part.
        debug_assert!(until <= self.log.flushed(), "N3");
        let mut value = Vec::new();
        let mut slice_begin = self.log.begin();
        while slice_begin < until {
            let slice_end = slice_begin.plus(SLICE_BYTES).min(until);
            loop {
                let named = self.named_below(slice_end);
                if named.is_empty() {
                    break;
                }
                // In the order of positions, so the chunks that are done can be anywhere in the
                // slice.
                let slice_bytes = slice_end.get() - slice_begin.get();
                let done = |chunks: u64| slice_bytes * chunks / named.len() as u64;
                let note = &|chunks| note_progress(slice_begin.plus(done(chunks)));
                if !self.renew(&named, slice_end, stop, &mut value, note)? {
                    return Ok(false);
                }
            }
            note_progress(slice_end);
            slice_begin = slice_end;
        }
        // Readers that know of an older word look at the directory again [N3]. Readers that are
        // concurrent with this hold the file.
        self.log.shift_begin(until);
        Ok(true)
    }

    /// Returns the chunks that the directory names below `until`, in the order of positions.
    fn named_below(&self, until: LogAddress) -> Vec<Prefix> {
        let level = self.directory.level();
        let names = (0..self.directory.chunks()).map(|number| Name { level, number });
        let mut named: Vec<Prefix> = names
            // If the level has changed meanwhile, the search is made again.
            .filter(|name| {
                self.directory.load_at(*name).is_none_or(|word| leads_below(word, until))
            })
            .map(Name::first)
            .collect();
        named.sort_unstable();
        named
    }

    fn renew(
        &self,
        named: &[Prefix],
        until: LogAddress,
        stop: &StopToken,
        value: &mut Vec<u8>,
        note: &dyn Fn(u64),
    ) -> Result<bool> {
        let prefix_of = |index: usize| named.get(index).copied();
        let mut met = 0;
        self.with_chunks(0..named.len(), &prefix_of, stop, &mut |group, chunk| {
            // One that has to be asked for again is met again.
            met = (met + (group.end - group.first) as u64).min(named.len() as u64);
            note(met);
            let Some(chunk) = chunk.filter(|_| leads_below(group.word, until)) else {
                return Ok(Outcome::Done);
            };
            let entries = chunk.part(group.name);
            if !entries.is_empty() {
                return self.install(group.name, group.word, &entries, Growth::default(), value);
            }
            let changer = self.directory.changer();
            let is_forgotten = changer.has_level(group.name)
                && changer.replace(group.name, group.word, Word::NONE);
            Ok(if is_forgotten { Outcome::Done } else { Outcome::Again })
        })
    }
}

fn leads_below(word: Word, until: LogAddress) -> bool {
    word != Word::NONE && word.address() < until
}
