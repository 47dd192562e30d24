//! The keyspaces of a cluster.

use std::collections::BTreeSet;

use logc::LogRecord;
use stoc::{Epoch, RangeId};

use super::{CLUSTER, Coordinator, Loaded, range_key};
use crate::descriptor::{Descriptor, Event, RangeState};
use crate::error::{Error, Result};
use crate::log_mode::LogMode;
use crate::records::{ClusterRecord, KeyspaceRecord};
use crate::store::{Compare, Write};

const KEYSPACES: &str = "keyspace/";
/// Bytes of the name of a keyspace, at most.
const NAME_BYTES_MAX: usize = 255;

impl Coordinator {
    /// Makes a keyspace with a range before, between and after the keys of `splits`. One that is
    /// there with the same options is returned, if its ranges begin at the same keys or `splits` is
    /// empty.
    ///
    /// # Errors
    /// [`Error::BadName`], [`Error::BadOptions`], [`Error::BadSplits`], [`Error::KeyspaceExists`];
    /// [`Error::Store`], [`Error::Damaged`].
    pub fn create_keyspace(
        &self,
        name: &str,
        options: &[u8],
        splits: &[Vec<u8>],
    ) -> Result<KeyspaceRecord> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains(char::is_control) {
            return Err(Error::BadName(name.to_owned()));
        }
        LogMode::of_options(options).map_err(|_| Error::BadOptions(name.to_owned()))?;
        let grow = splits.windows(2).all(|pair| pair.first() < pair.last());
        if !grow || splits.iter().any(Vec::is_empty) {
            return Err(Error::BadSplits(name.to_owned()));
        }
        let key = format!("{KEYSPACES}{name}");
        loop {
            if let Some(there) = self.load(&key, KeyspaceRecord::decode)? {
                let is_same = there.record.options == options
                    && (splits.is_empty() || self.splits_of(&there.record)? == splits);
                return match is_same {
                    true => Ok(there.record),
                    false => Err(Error::KeyspaceExists(name.to_owned())),
                };
            }
            let Loaded { record: cluster, compare } = self.cluster_record()?;
            let mut writes = Vec::new();
            let mut ranges = Vec::new();
            let starts = std::iter::once(Vec::new()).chain(splits.iter().cloned());
            let ends = splits.iter().cloned().map(Some).chain([None]);
            for (number, (start, end)) in (cluster.next_range..).zip(starts.zip(ends)) {
                let id = RangeId(number);
                let created = Descriptor {
                    id,
                    keyspace: name.to_owned(),
                    start,
                    end,
                    epoch: Epoch(0),
                    owner: None,
                    state: RangeState::Free,
                    clients: cluster.next_client,
                    gives_up_log: false,
                    log: LogRecord::default(),
                    manifest: LogRecord::default(),
                };
                ranges.push(id);
                writes.push(Write::put(&range_key(id), created.encode()));
            }
            let next_range = cluster.next_range + ranges.len() as u32;
            let cluster = ClusterRecord { next_range, ..cluster };
            let record =
                KeyspaceRecord { name: name.to_owned(), options: options.to_vec(), ranges };
            writes.push(Write::put(&key, record.encode()));
            writes.push(Write::put(CLUSTER, cluster.encode()));
            if self.store.commit(&[compare, Compare::unchanged(&key, None)], &writes)? {
                return Ok(record);
            }
        }
    }

    /// Returns the keys at which the ranges of a keyspace begin, but for the first range.
    fn splits_of(&self, keyspace: &KeyspaceRecord) -> Result<Vec<Vec<u8>>> {
        let starts = keyspace.ranges.iter().map(|range| Ok(self.range(*range)?.start));
        let starts: Vec<Vec<u8>> = starts.collect::<Result<_>>()?;
        Ok(starts.into_iter().filter(|start| !start.is_empty()).collect())
    }

    /// Returns a keyspace.
    ///
    /// # Errors
    /// [`Error::NoKeyspace`]; [`Error::Store`], [`Error::Damaged`].
    pub fn keyspace(&self, name: &str) -> Result<KeyspaceRecord> {
        let found = self.load(&format!("{KEYSPACES}{name}"), KeyspaceRecord::decode)?;
        Ok(found.ok_or_else(|| Error::NoKeyspace(name.to_owned()))?.record)
    }

    /// Returns all keyspaces, by name.
    ///
    /// # Errors
    /// [`Error::Store`], [`Error::Damaged`].
    pub fn keyspaces(&self) -> Result<Vec<KeyspaceRecord>> {
        let found = self.list(KEYSPACES, KeyspaceRecord::decode)?;
        Ok(found.into_iter().map(|(_, record)| record).collect())
    }

    /// Drops a keyspace and its ranges in one step. The leader forgets the ranges later
    /// ([`Coordinator::forget_range`]), and then StoCs release their files.
    ///
    /// # Errors
    /// [`Error::NoKeyspace`]; [`Error::Store`], [`Error::Damaged`].
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        let key = format!("{KEYSPACES}{name}");
        loop {
            let found = self.load(&key, KeyspaceRecord::decode)?;
            let Loaded { record, compare } =
                found.ok_or_else(|| Error::NoKeyspace(name.to_owned()))?;
            let (mut compares, mut writes) = (vec![compare], vec![Write::remove(&key)]);
            for range in record.ranges {
                let key = range_key(range);
                let Some(mut found) = self.load(&key, Descriptor::decode)? else { continue };
                let dropped = found.record.apply(Event::Drop);
                dropped.map_err(|refusal| Error::Refused { range, refusal })?;
                compares.push(found.compare);
                writes.push(Write::put(&key, found.record.encode()));
            }
            if self.store.commit(&compares, &writes)? {
                return Ok(());
            }
        }
    }

    /// Returns the ranges among these that were dropped and forgotten. None of them comes back,
    /// since a number is given once. (C4)
    ///
    /// # Errors
    /// [`Error::Store`], [`Error::Damaged`].
    pub fn forgotten(&self, among: &[RangeId]) -> Result<Vec<RangeId>> {
        // Each smaller number was given before the list is read.
        let given = self.cluster_record()?.record.next_range;
        let known: BTreeSet<RangeId> = self.ranges()?.into_iter().map(|range| range.id).collect();
        let was_given = among.iter().filter(|range| range.0 < given);
        Ok(was_given.filter(|range| !known.contains(range)).copied().collect())
    }
}
