//! Filters of groups that are not in memory: they are made in the background, from footers.
//!
//! A group of a new store has its filter from the beginning. An opening has none, and memory may
//! not suffice for all of them. The first marker that such a group appends has its filter made
//! ([`crate::values::key_filter`]).

use std::sync::Arc;

use engine::Result;
use workers::StopToken;

use crate::collect::Entries as _;
use crate::collect::FooterEntries;
use crate::key_hash::KeyHash;
use crate::segment_table::Described;
use crate::store::Shared;
use crate::values::group::Group;
use crate::values::key_filter::KeyFilter;

impl Shared {
    /// Has the filter of a key's group made, soon. Until then, and if it fails, all deletes and
    /// small pairs leave markers. Returns false if a task reads footers already.
    pub(crate) fn load_filter(self: &Arc<Self>, hash: KeyHash) -> bool {
        self.read_footers(hash, "make a filter", Self::make_filter)
    }

    /// Makes the filter of a group. The group has no segment whose keys are not known: one with
    /// damage, or one that the opening has not finished.
    fn make_filter(&self, group: &Group, stop: &StopToken) -> Result<()> {
        let mut state = group.state.lock();
        let sealed: Vec<Described> = state.sealed.values().copied().collect();
        let records: usize = sealed.iter().map(|it| it.entries() as usize).sum();
        let bytes = KeyFilter::bytes_for(records);
        let is_large = self.values.filter_bytes() + bytes > self.values.filter_bytes_max();
        if state.is_barred || is_large {
            return Ok(());
        }
        let unsealed: Vec<KeyHash> =
            state.entries().into_iter().flatten().map(|entry| entry.hash).collect();
        self.values.change_keys(&mut state, |keys| keys.begin(unsealed.into_iter()));
        drop(state);
        self.values.accounts.filters.add(bytes);
        self.fit_cache();
        let made = self.read_keys(&sealed, records, stop);
        self.values.accounts.filters.release(bytes);
        let filter = made.as_ref().map_or(None, Clone::clone);
        let mut state = group.state.lock();
        let filter = filter.filter(|_| !state.is_barred);
        self.values.change_keys(&mut state, |keys| keys.end(filter));
        drop(state);
        self.fit_cache();
        made.map(|_| ())
    }

    /// Returns the keys of all records of these segments; none if the store is closed. A job that
    /// removes a segment meanwhile makes this fail, or has no effect.
    fn read_keys(
        &self,
        sealed: &[Described],
        records: usize,
        stop: &StopToken,
    ) -> Result<Option<KeyFilter>> {
        let mut filter = KeyFilter::with_room(records);
        for described in sealed {
            self.health.check_open()?;
            if stop.is_stopping() {
                return Ok(None);
            }
            let mut footer = FooterEntries::new(&self.values, *described);
            while let Some(entry) = footer.next()? {
                filter.add(entry.hash);
            }
        }
        Ok(Some(filter))
    }
}
