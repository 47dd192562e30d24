//! The level of an ingested table: a pure function of the version and of the jobs under way.
//!
//! Its entries are newer than all others in the store. So it may be in a level if neither that
//! level nor any above it has a key between its smallest and its largest, and no job may put one
//! there: V2 and V3 hold. It may always be in Level 0, as the youngest. Of the possible levels it
//! takes the lowest, so that it need not be merged again. But it takes none below the level in
//! which a tree of this size ends, or each later write would have to move down through empty
//! levels.

#[cfg(all(test, not(shuttle)))]
mod tests;

use super::compaction::CompactionClaim;
use super::targets::Targets;
use crate::shape::Shape;
use crate::table::Summary;
use crate::version::Version;

/// The level that a table goes to.
#[derive(Debug, PartialEq, Eq)]
pub struct Place {
    /// The level.
    pub level: usize,
    /// Keeps jobs away until the table is there. None for Level 0, which tables may enter at any
    /// time.
    pub claim: Option<CompactionClaim>,
}

/// Returns the places of tables that follow each other, with these `claims` held by others.
pub fn plan_ingest(
    version: &Version,
    shape: &Shape,
    claims: &[CompactionClaim],
    tables: &[Summary],
) -> Vec<Place> {
    let bytes = tables.iter().map(|table| table.stored_bytes).sum();
    let last = Targets::of(version, shape, bytes).last();
    tables.iter().map(|table| place(version, claims, table, last)).collect()
}

fn place(version: &Version, claims: &[CompactionClaim], table: &Summary, last: usize) -> Place {
    let (smallest, largest) = (&table.properties.smallest, &table.properties.largest);
    let is_free = |level: &usize| {
        let here = CompactionClaim::of(*level..=*level, smallest, largest);
        version.overlapping(*level, smallest, largest).is_empty()
            && !claims.iter().any(|claim| claim.meets(&here))
    };
    let free = (0..=last).take_while(is_free).count();
    let level = free.saturating_sub(1);
    let claim = (level > 0).then(|| CompactionClaim::of(0..=level, smallest, largest));
    Place { level, claim }
}
