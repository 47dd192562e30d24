//! A walk over two logs: a stretch of chunks of the cold index at a time, and beside it the chains of
//! the hot index that belong to the same positions.
//!
//! Both indexes are ordered by position, so some chunks and some chains together hold whatever keys there
//! are between two positions. What the hot log has of a key comes first; it is read first too, since
//! records move from there to the cold log, never back.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Acquire;

use engine::{Result, Visit};
use workers::StopToken;

use super::walk::{Place, Versions};
use crate::address::LogAddress;
use crate::cold::{Cold, Gone};
use crate::position::Position;
use crate::store::Shared;

/// A stretch of the walk has about so many pairs, which are in memory at once: enough that their
/// reads overlap.
const PAIRS_MIN: usize = 64;
const PAIRS_MAX: usize = 512;
const CHUNKS_MAX: usize = 4096;

impl Shared {
    pub(super) fn walk_chunks(
        &self,
        cold: &Cold,
        from: Option<Place<'_>>,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        let mut next = Some(from.map_or(Position::FIRST, |(position, _)| position));
        let mut chunks = 1;
        let mut gone = Gone::default();
        while let Some(begin) = next {
            // The hot log is read first, so where the stretch ends has to be known before.
            let end = cold.index.end_of_chunks(begin, chunks);
            let mut versions = Versions::default();
            let truncations = self.truncations.load(Acquire);
            self.hot_versions(begin, end, &mut versions)?;
            if self.truncations.load(Acquire) != truncations {
                // What was left behind for the sake of a newer record may be missing: once more [O3].
                continue;
            }
            let walked = cold.index.next_chunks(begin, chunks)?;
            let end = [end, walked.next].into_iter().flatten().min();
            let named: Vec<LogAddress> = walked.entries.iter().map(|(_, at)| *at).collect();
            if !self.cold_versions(cold, &named, &mut versions)? {
                gone.again()?;
                continue;
            }
            let place = |key: &[u8]| self.index.position(self.hash(key));
            let is_there = |at: Position| at >= begin && end.is_none_or(|end| at < end);
            versions.0.retain(|(key, _)| is_there(place(key)));
            chunks = match versions.0.len() {
                few if few < PAIRS_MIN => (chunks * 2).min(CHUNKS_MAX),
                many if many > PAIRS_MAX => (chunks / 2).max(1),
                _ => chunks,
            };
            if self.visit_versions(versions, from, visit) == ControlFlow::Break(()) {
                return Ok(());
            }
            next = end;
        }
        Ok(())
    }

    /// What the hot log has from `begin` to `end`, and perhaps a little more.
    fn hot_versions(
        &self,
        begin: Position,
        end: Option<Position>,
        versions: &mut Versions,
    ) -> Result<()> {
        let last = end.map(|end| self.index.chain_at(end));
        let mut after = self.index.chain_at(begin).before();
        loop {
            let mut chain_versions = Versions::default();
            match self.next_chain_versions(after, &mut chain_versions)? {
                Some(chain) if last.is_none_or(|last| chain <= last) => after = Some(chain),
                _ => return Ok(()),
            }
            versions.0.append(&mut chain_versions.0);
        }
    }

    /// Adds what the cold log has of keys that the hot one has nothing of. `false`: a record moved
    /// meanwhile, so the chunk is to be looked up again.
    fn cold_versions(
        &self,
        cold: &Cold,
        named: &[LogAddress],
        versions: &mut Versions,
    ) -> Result<bool> {
        let mut found: Vec<Option<(Vec<u8>, Vec<u8>)>> = named.iter().map(|_| None).collect();
        let wanted = named.iter().copied().enumerate().map(|(number, at)| (at, number));
        let mut is_whole = true;
        cold.each_record(wanted, &StopToken::default(), &mut |number, _, stored| {
            is_whole &= stored.is_some();
            found[number] = stored
                .map(|stored| (stored.key.to_vec(), stored.value.unwrap_or_default().to_vec()));
            Ok(())
        })?;
        // In the chunk's order, in which the newest of a key comes first.
        for (key, value) in found.into_iter().flatten() {
            versions.add(key, Some(value));
        }
        Ok(is_whole)
    }
}
