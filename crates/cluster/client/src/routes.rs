//! The owners of ranges, as the coordinator had them when it was asked last.

use std::collections::BTreeMap;
use std::sync::Arc;

use coordinator::{Coordinator, Descriptor, Owner};
use stoc::RangeId;
use wire::{Address, Channel, Class, Node, Role};

use crate::error::Result;

/// A range with its owner.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) range: RangeId,
    start: Vec<u8>,
    owner: Option<Owner>,
}

/// The channels to an LTC.
#[derive(Clone, Debug)]
struct Ltc {
    place: String,
    channel: Channel,
}

/// The owners of all ranges.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    /// The ranges of each keyspace, in the order of their keys.
    keyspaces: BTreeMap<Arc<str>, Vec<Route>>,
    ltcs: BTreeMap<u32, Ltc>,
    /// The number of the last range that was seen.
    newest: u32,
}

/// The content of the coordinator's records about ranges.
#[derive(Debug)]
pub(crate) struct Known {
    ranges: Vec<Descriptor>,
    places: Vec<(u32, String)>,
}

impl Known {
    /// Reads the records.
    ///
    /// # Errors
    /// Those of the coordinator.
    pub(crate) fn read(coordinator: &Coordinator) -> Result<Self> {
        let ranges = coordinator.ranges()?;
        let ltcs = coordinator.ltcs()?.into_iter();
        let places = ltcs.filter_map(|(node, record)| Some((node, record.place?))).collect();
        Ok(Self { ranges, places })
    }
}

impl Routes {
    /// Takes the routes from the coordinator's records. `node` connects to LTCs. Returns whether
    /// there is a range that is new: it has forgotten clients that were there before.
    pub(crate) fn install(&mut self, Known { ranges, places }: Known, node: &Node) -> bool {
        self.keyspaces.clear();
        let newest = ranges.iter().map(|range| range.id.0).max().unwrap_or(0);
        let has_new = newest > self.newest;
        self.newest = self.newest.max(newest);
        for range in ranges {
            let Descriptor { id, keyspace, start, owner, state, .. } = range;
            if state == coordinator::RangeState::Dropped {
                continue;
            }
            let route = Route { range: id, start, owner };
            self.keyspaces.entry(keyspace.into()).or_default().push(route);
        }
        for routes in self.keyspaces.values_mut() {
            routes.sort_by(|one, other| one.start.cmp(&other.start));
        }
        for (number, place) in places {
            if self.ltcs.get(&number).is_some_and(|known| known.place == place) {
                continue;
            }
            let to =
                Address { role: Role::Ltc, node: Some(number), cookie: None, place: place.clone() };
            self.ltcs.insert(number, Ltc { place, channel: node.channel(to, Class::Read) });
        }
        has_new
    }

    /// Returns whether there is a keyspace.
    pub(crate) fn has(&self, keyspace: &str) -> bool {
        self.keyspaces.contains_key(keyspace)
    }

    /// Returns the names of the keyspaces.
    pub(crate) fn names(&self) -> Vec<String> {
        self.keyspaces.keys().map(|name| name.to_string()).collect()
    }

    /// Returns the number of ranges of a keyspace.
    pub(crate) fn count(&self, keyspace: &str) -> usize {
        self.keyspaces.get(keyspace).map_or(0, Vec::len)
    }

    /// Returns the first keys of the ranges of a keyspace.
    pub(crate) fn starts(&self, keyspace: &str) -> Vec<Vec<u8>> {
        let routes = self.keyspaces.get(keyspace).into_iter().flatten();
        routes.map(|route| route.start.clone()).collect()
    }

    /// Returns the route of a key; with `is_before` that of the keys directly before it.
    pub(crate) fn find(&self, keyspace: &str, key: &[u8], is_before: bool) -> Option<&Route> {
        let routes = self.keyspaces.get(keyspace)?;
        let is_at_most = |route: &Route| match is_before {
            true => route.start.as_slice() < key,
            false => route.start.as_slice() <= key,
        };
        let after = routes.partition_point(is_at_most);
        routes.get(after.checked_sub(1)?)
    }

    /// Returns the route of the last range of a keyspace.
    pub(crate) fn last(&self, keyspace: &str) -> Option<&Route> {
        self.keyspaces.get(keyspace)?.last()
    }

    /// Returns the channel to the owner of a range, if there is one.
    pub(crate) fn channel(&self, route: &Route) -> Option<Channel> {
        let owner = route.owner?;
        self.ltcs.get(&owner.ltc).map(|ltc| ltc.channel.clone())
    }
}
