//! Into which level an ingested table goes: a pure function of the version and of what is under
//! way.
//!
//! Its entries are newer than all that is there. So it may lie in a level if neither that level nor
//! any above it has a key between its smallest and its largest, and no job may put one there: V2
//! and V3 hold. In Level 0 it may lie always, as the youngest. Of these levels it takes the lowest,
//! where it need not be merged again; but none below the one in which a tree of such a size ends,
//! or each later write would have to come down through empty levels.

#[cfg(all(test, not(shuttle)))]
mod tests;

use super::plan_compaction::{Claim, level_bytes_max};
use crate::options::Options;
use crate::table::Summary;
use crate::version::{LEVELS, Version};

/// Where a table goes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) level: usize,
    /// What keeps jobs away until it is there. None for Level 0, which tables come to at any time.
    pub(super) claim: Option<Claim>,
}

/// The places of tables that lie one behind the other, beside those who hold `claims`.
pub(super) fn plan_ingest(
    version: &Version,
    options: &Options,
    claims: &[Claim],
    tables: &[Summary],
) -> Vec<Place> {
    let bytes = tables.iter().map(|table| table.stored_bytes).sum();
    let last = last_level(version, options, bytes);
    tables.iter().map(|table| place(version, claims, table, last)).collect()
}

/// The level in which the tree ends, with so many bytes more.
fn last_level(version: &Version, options: &Options, bytes: u64) -> usize {
    let present = (1..LEVELS).rev().find(|level| !version.level(*level).is_empty());
    let has_room = |level: &usize| {
        (version.level_bytes(*level) + bytes) as f64 <= level_bytes_max(options, *level)
    };
    let wanted = (1..LEVELS).find(has_room).unwrap_or(LEVELS - 1);
    present.unwrap_or(1).max(wanted)
}

fn place(version: &Version, claims: &[Claim], table: &Summary, last: usize) -> Place {
    let (smallest, largest) = (&table.properties.smallest, &table.properties.largest);
    let is_free = |level: &usize| {
        let here = Claim::of(*level..=*level, smallest, largest);
        version.overlapping(*level, smallest, largest).is_empty()
            && !claims.iter().any(|claim| claim.meets(&here))
    };
    let free = (0..=last).take_while(is_free).count();
    let level = free.saturating_sub(1);
    let claim = (level > 0).then(|| Claim::of(0..=level, smallest, largest));
    Place { level, claim }
}
