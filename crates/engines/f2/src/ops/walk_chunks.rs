//! A walk over two logs, in stretches of chunks of the cold index and chains of the hot index.
//!
//! A stretch of chunks is walked at a time, together with the chains that belong to the same
//! positions.
//!
//! Both indexes are ordered by position, so some chunks and some chains together hold all keys
//! between two positions. The hot log's record of a key takes precedence; it is read first too,
//! since records move from there to the cold log, never back.

use std::ops::ControlFlow;
use std::sync::Arc;

use engine::{Result, Visit};
use workers::StopToken;

use super::walk::{Cut, Place};
use super::walk_versions::{CHAINS_MIN, Version, Versions};
use crate::address::LogAddress;
use crate::cold::{Cold, Gone};
use crate::position::Position;
use crate::store::Shared;

/// Pairs of a stretch of the walk, about, which are in memory at the same time: enough that their
/// reads overlap. Fewer if there is no room for them, but one chunk's at least.
const PAIRS_MIN: usize = 64;
const PAIRS_MAX: usize = 512;
const CHUNKS_MAX: usize = 4096;

/// The result of collecting the records that some chunks name.
enum Collected {
    All,
    /// There is no room for all of them.
    TooMuch,
    /// One moved meanwhile, so the chunks are to be looked up again.
    Moved,
}

impl Shared {
    pub(super) fn walk_chunks(
        self: &Arc<Self>,
        cold: &Cold,
        from: Option<Place<'_>>,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        let mut next = Some(from.map_or(Position::FIRST, |(position, _)| position));
        let (mut chunks, mut chains) = (1, CHAINS_MIN);
        let mut gone = Gone::default();
        while let Some(begin) = next {
            // The hot log is read first, so the end of the stretch has to be known before.
            let end = cold.index.end_of_chunks(begin, chunks);
            let mut versions = self.no_versions();
            let truncations = self.hot.truncations();
            let may_end = chunks > 1;
            let last = end.map(|end| self.hot.index.chain_at(end));
            let after = self.hot.index.chain_at(begin).before();
            let Some(cut) = self.chain_versions(after, last, chains, &mut versions)? else {
                chains /= 2;
                continue;
            };
            // By the hot log's part alone: fewer chains would only read the same chunk more often.
            chains = versions.next_chains(chains);
            // If the hot log has more chains here, the stretch ends behind these.
            let end = match cut {
                Cut::Behind(chain) => {
                    [end, self.hot.index.position_behind(chain)].into_iter().flatten().min()
                }
                Cut::AtEnd => end,
            };
            if self.hot.truncations() != truncations {
                // A record that was left behind because of a newer one may be missing: once more
                // [O3].
                continue;
            }
            let walked = cold.index.next_chunks(begin, chunks)?;
            let end = [end, walked.next].into_iter().flatten().min();
            // An entry has the upper bits of its key's position. So it is before the end if the key
            // is, and keys of an entry before `first` are before the begin.
            let first = walked.entries.iter().map(|(at, _)| *at).filter(|at| *at <= begin).max();
            let is_named = |at: Position| {
                first.is_none_or(|first| at >= first) && end.is_none_or(|end| at < end)
            };
            let named = walked.entries.iter().filter(|(at, _)| is_named(*at));
            let named: Vec<LogAddress> = named.map(|(_, at)| *at).collect();
            match self.cold_versions(cold, &named, may_end, &mut versions)? {
                Collected::All => {}
                Collected::TooMuch => {
                    chunks /= 2;
                    continue;
                }
                Collected::Moved => {
                    gone.again()?;
                    continue;
                }
            }
            let place = |key: &[u8]| self.hot.index.position(self.hash(key));
            let is_there = |at: Position| at >= begin && end.is_none_or(|end| at < end);
            versions.retain(|key| is_there(place(key)));
            chunks = match versions.len() {
                _ if versions.has_no_room() => (chunks / 2).max(1),
                few if few < PAIRS_MIN && versions.has_room_for_twice() => {
                    (chunks * 2).min(CHUNKS_MAX)
                }
                many if many > PAIRS_MAX => (chunks / 2).max(1),
                _ => chunks,
            };
            if self.visit_versions(versions, from, visit)? == ControlFlow::Break(()) {
                return Ok(());
            }
            next = end;
        }
        Ok(())
    }

    /// Adds the records of the cold log whose keys the hot one does not have.
    fn cold_versions(
        &self,
        cold: &Cold,
        named: &[LogAddress],
        may_end: bool,
        versions: &mut Versions,
    ) -> Result<Collected> {
        let mut found: Vec<Option<(Vec<u8>, Version)>> = named.iter().map(|_| None).collect();
        let wanted = named.iter().copied().enumerate().map(|(number, at)| (at, number));
        let (mut is_whole, mut is_too_much) = (true, false);
        cold.each_record(wanted, &StopToken::default(), &mut |number, _, stored| {
            is_whole &= stored.is_some();
            is_too_much |= may_end && versions.is_overfull();
            if let Some(stored) = stored.filter(|_| !is_too_much) {
                versions.count_key(stored.key);
                let version = versions.keep(stored.value.unwrap_or_default());
                found[number] = Some((stored.key.to_vec(), version));
            }
            Ok(())
        })?;
        if is_too_much {
            return Ok(Collected::TooMuch);
        }
        // In the chunk's order, in which the newest of a key comes first.
        for (key, version) in found.into_iter().flatten() {
            versions.add_counted(key, version);
        }
        Ok(if is_whole { Collected::All } else { Collected::Moved })
    }
}
