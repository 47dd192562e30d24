//! The calls of the coordinator.

mod keyspaces;

use std::sync::Arc;

use codec::Corruption;
use environment::Environment;
use rand::Rng;
use stoc::{Epoch, Identity, RangeId};
use wire::Role;

use crate::descriptor::{Descriptor, Event, Owner, RangeState, Refusal};
use crate::error::{Error, Result};
use crate::records::{ClusterRecord, LtcRecord, StocRecord, decode_term, encode_term};
use crate::store::{Compare, Store, Versioned, Write};

/// The key of the cluster's record.
const CLUSTER: &str = "cluster";
const STOCS: &str = "stoc/";
const RANGES: &str = "range/";
const LTCS: &str = "ltc/";
/// The key of the number of leaderships so far.
const TERM: &str = "term";

/// The coordinator of a cluster. Its methods may be called by many threads and processes.
#[derive(Debug)]
pub struct Coordinator {
    store: Arc<dyn Store>,
    cluster: u64,
}

/// The start that a StoC was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StocStart {
    /// Its number, for [`stoc::Options::incarnation`].
    pub incarnation: u64,
    /// The last start that has completed, for [`stoc::Options::last_incarnation`].
    pub last_incarnation: Option<u64>,
}

/// An order of the leader to an LTC: to open a range that no other LTC serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// The range.
    pub range: RangeId,
    /// The epoch of the owner before.
    pub epoch: Epoch,
    /// The leadership of the leader. ([`Coordinator::lead`])
    pub term: u64,
}

/// A decoded record, and the state in which it was read.
struct Loaded<T> {
    record: T,
    compare: Compare,
}

fn stoc_key(node: u32) -> String {
    format!("{STOCS}{node:08x}")
}

fn ltc_key(node: u32) -> String {
    format!("{LTCS}{node:08x}")
}

/// Returns the number in a key behind `prefix`.
fn number_of(key: &str, prefix: &str) -> Option<u32> {
    u32::from_str_radix(key.strip_prefix(prefix)?, 16).ok()
}

fn range_key(range: RangeId) -> String {
    format!("{RANGES}{:08x}", range.0)
}

impl Coordinator {
    /// Opens the cluster of a store, or makes one.
    ///
    /// # Errors
    /// [`Error::Store`], [`Error::Damaged`].
    pub fn open(store: Arc<dyn Store>, environment: &Environment) -> Result<Self> {
        let mut random = environment.random("cluster");
        let mut coordinator = Self { store, cluster: 0 };
        loop {
            if let Some(found) = coordinator.load(CLUSTER, ClusterRecord::decode)? {
                coordinator.cluster = found.record.id;
                return Ok(coordinator);
            }
            let made = ClusterRecord { id: random.next_u64(), next_range: 1, next_client: 1 };
            let compare = Compare::unchanged(CLUSTER, None);
            coordinator.store.commit(&[compare], &[Write::put(CLUSTER, made.encode())])?;
        }
    }

    /// Opens the cluster of this number, or makes it in an empty store.
    ///
    /// # Errors
    /// [`Error::OtherCluster`]; [`Error::Store`], [`Error::Damaged`].
    pub fn found(store: Arc<dyn Store>, cluster: u64) -> Result<Self> {
        let made = ClusterRecord { id: cluster, next_range: 1, next_client: 1 };
        let compare = Compare::unchanged(CLUSTER, None);
        store.commit(&[compare], &[Write::put(CLUSTER, made.encode())])?;
        Self::join(store, cluster)
    }

    /// Opens the cluster of this number.
    ///
    /// # Errors
    /// [`Error::NoCluster`], [`Error::OtherCluster`]; [`Error::Store`], [`Error::Damaged`].
    pub fn join(store: Arc<dyn Store>, cluster: u64) -> Result<Self> {
        let coordinator = Self { store, cluster };
        let found = coordinator.load(CLUSTER, ClusterRecord::decode)?;
        match found.ok_or(Error::NoCluster)?.record.id {
            found if found == cluster => Ok(coordinator),
            found => Err(Error::OtherCluster { found, expected: cluster }),
        }
    }

    /// Returns the number of the cluster.
    pub fn cluster(&self) -> u64 {
        self.cluster
    }

    /// Gives a StoC the number of its next start. (C4)
    ///
    /// # Errors
    /// [`Error::Store`], [`Error::Damaged`].
    pub fn begin_stoc(&self, node: u32) -> Result<StocStart> {
        self.change(&stoc_key(node), StocRecord::decode, StocRecord::encode, |record| {
            let mut record = record.unwrap_or_default();
            record.given += 1;
            let start = StocStart { incarnation: record.given, last_incarnation: record.completed };
            Ok((Some(record), start))
        })
    }

    /// Notes that a StoC has opened its directory, the address at which it listens, if others reach
    /// it by one, and its failure domain, if it shares one with other StoCs. Returns whether its
    /// storage is another one than at the start before.
    ///
    /// # Errors
    /// [`Error::OldStart`] if a later start was given; [`Error::Store`], [`Error::Damaged`].
    pub fn complete_stoc(
        &self,
        identity: Identity,
        place: Option<&str>,
        domain: Option<&str>,
    ) -> Result<bool> {
        let Identity { node, cookie, incarnation, .. } = identity;
        self.change(&stoc_key(node), StocRecord::decode, StocRecord::encode, |record| {
            let mut record = record.unwrap_or_default();
            if record.given != incarnation {
                let (role, last) = (Role::Stoc, record.given);
                return Err(Error::OldStart { role, node, given: incarnation, last });
            }
            let is_other = record.cookie.is_some_and(|before| before != cookie);
            (record.cookie, record.completed) = (Some(cookie), Some(incarnation));
            record.place = place.map(str::to_owned);
            record.domain = domain.map(str::to_owned);
            Ok((Some(record), is_other))
        })
    }

    /// Returns the StoCs.
    ///
    /// # Errors
    /// [`Error::Store`], [`Error::Damaged`].
    pub fn stocs(&self) -> Result<Vec<(u32, StocRecord)>> {
        let stocs = self.list(STOCS, StocRecord::decode)?.into_iter();
        Ok(stocs.filter_map(|(key, record)| Some((number_of(&key, STOCS)?, record))).collect())
    }

    /// Begins a leadership: orders of the leaders before are void. Returns its number. (C5)
    ///
    /// # Errors
    /// [`Error::Store`], [`Error::Damaged`].
    pub fn lead(&self) -> Result<u64> {
        self.change(
            TERM,
            decode_term,
            |term| encode_term(*term),
            |term| {
                let term = term.unwrap_or(0) + 1;
                Ok((Some(term), term))
            },
        )
    }

    /// Gives an LTC the number of its next start. (C4)
    ///
    /// # Errors
    /// [`Error::Store`], [`Error::Damaged`].
    pub fn begin_ltc(&self, node: u32) -> Result<Owner> {
        self.change(&ltc_key(node), LtcRecord::decode, LtcRecord::encode, |record| {
            let mut record = record.unwrap_or_default();
            record.given += 1;
            let owner = Owner { ltc: node, start: record.given };
            Ok((Some(record), owner))
        })
    }

    /// Notes the address at which an LTC serves clients.
    ///
    /// # Errors
    /// [`Error::OldStart`] if a later start was given; [`Error::Store`], [`Error::Damaged`].
    pub fn complete_ltc(&self, owner: Owner, place: &str) -> Result<()> {
        let Owner { ltc: node, start: given } = owner;
        self.change(&ltc_key(node), LtcRecord::decode, LtcRecord::encode, |record| {
            let mut record = record.unwrap_or_default();
            if record.given != given {
                let (role, last) = (Role::Ltc, record.given);
                return Err(Error::OldStart { role, node, given, last });
            }
            record.place = Some(place.to_owned());
            Ok((Some(record), ()))
        })
    }

    /// Has an LTC get no further range, and leave the ones that it has; or ends that.
    ///
    /// # Errors
    /// [`Error::NoLtc`]; [`Error::Store`], [`Error::Damaged`].
    pub fn drain_ltc(&self, node: u32, is_draining: bool) -> Result<()> {
        self.change(&ltc_key(node), LtcRecord::decode, LtcRecord::encode, |record| {
            let record = record.ok_or(Error::NoLtc(node))?;
            Ok((Some(LtcRecord { is_draining, ..record }), ()))
        })
    }

    /// Returns the LTCs.
    ///
    /// # Errors
    /// [`Error::Store`], [`Error::Damaged`].
    pub fn ltcs(&self) -> Result<Vec<(u32, LtcRecord)>> {
        let ltcs = self.list(LTCS, LtcRecord::decode)?.into_iter();
        Ok(ltcs.filter_map(|(key, record)| Some((number_of(&key, LTCS)?, record))).collect())
    }

    /// Returns the record of a range.
    ///
    /// # Errors
    /// [`Error::NoRange`]; [`Error::Store`], [`Error::Damaged`].
    pub fn range(&self, range: RangeId) -> Result<Descriptor> {
        let found = self.load(&range_key(range), Descriptor::decode)?;
        Ok(found.ok_or(Error::NoRange(range))?.record)
    }

    /// Returns all ranges, by number; dropped ones, too.
    ///
    /// # Errors
    /// [`Error::Store`], [`Error::Damaged`].
    pub fn ranges(&self) -> Result<Vec<Descriptor>> {
        let found = self.list(RANGES, Descriptor::decode)?;
        Ok(found.into_iter().map(|(_, record)| record).collect())
    }

    /// Gives a range to an owner that an order names, with a new epoch. (C2, C5)
    ///
    /// # Errors
    /// [`Error::OldOrder`]; [`Error::NoRange`], [`Error::Refused`]; [`Error::Store`],
    /// [`Error::Damaged`].
    pub fn take_ordered(&self, order: Order, owner: Owner) -> Result<Descriptor> {
        let Order { range, epoch, term } = order;
        let key = range_key(range);
        loop {
            let led = self.load(TERM, decode_term)?;
            let found = self.load(&key, Descriptor::decode)?.ok_or(Error::NoRange(range))?;
            let Some(led) = led.filter(|led| led.record == term) else {
                return Err(Error::OldOrder(range));
            };
            let mut descriptor = found.record;
            if descriptor.epoch != epoch {
                return Err(Error::OldOrder(range));
            }
            let taken = descriptor.apply(Event::Take(owner));
            taken.map_err(|refusal| Error::Refused { range, refusal })?;
            let write = Write::put(&key, descriptor.encode());
            if self.store.commit(&[found.compare, led.compare], &[write])? {
                return Ok(descriptor);
            }
        }
    }

    /// Gives a range to an owner, with a new epoch. No other process may serve it. (C2)
    ///
    /// # Errors
    /// [`Error::NoRange`], [`Error::Refused`]; [`Error::Store`], [`Error::Damaged`].
    pub fn take(&self, range: RangeId, owner: Owner) -> Result<Descriptor> {
        self.change_range(range, |descriptor| descriptor.apply(Event::Take(owner)))
    }

    /// Notes that the owner of an epoch serves a range. (C3)
    ///
    /// # Errors
    /// The same.
    pub fn serve(&self, range: RangeId, epoch: Epoch) -> Result<Descriptor> {
        self.change_range(range, |descriptor| {
            descriptor.check_epoch(epoch)?;
            descriptor.apply(Event::Serve)
        })
    }

    /// Has a range move to another LTC.
    ///
    /// # Errors
    /// The same.
    pub fn move_range(&self, range: RangeId, target: u32) -> Result<Descriptor> {
        self.change_range(range, |descriptor| descriptor.apply(Event::Move { target }))
    }

    /// Has a range stay that is to move. Its owner has not begun to close it.
    ///
    /// # Errors
    /// The same.
    pub fn stay(&self, range: RangeId) -> Result<Descriptor> {
        self.change_range(range, |descriptor| descriptor.apply(Event::Stay))
    }

    /// Has the next owner of a range give its write log up, because its replicas are lost: writes
    /// that are in no table are lost with them.
    ///
    /// # Errors
    /// The same. A range that is served or moves is refused.
    pub fn give_up_log(&self, range: RangeId) -> Result<Descriptor> {
        self.change_range(range, |descriptor| descriptor.apply(Event::GiveUpLog))
    }

    /// Notes that the owner of an epoch begins to close a range that is to move. (C3)
    ///
    /// # Errors
    /// The same.
    pub fn leave(&self, range: RangeId, epoch: Epoch) -> Result<Descriptor> {
        self.change_range(range, |descriptor| {
            descriptor.check_epoch(epoch)?;
            descriptor.apply(Event::Leave)
        })
    }

    /// Notes that the owner of an epoch has closed a range, so that another LTC can open it. (C3)
    ///
    /// # Errors
    /// The same.
    pub fn left(&self, range: RangeId, epoch: Epoch) -> Result<Descriptor> {
        self.change_range(range, |descriptor| {
            descriptor.check_epoch(epoch)?;
            descriptor.apply(Event::Left)
        })
    }

    /// Forgets a dropped range that no LTC has open. StoCs release its files after that.
    ///
    /// # Errors
    /// [`Error::Refused`] if it is not dropped; [`Error::Store`], [`Error::Damaged`].
    pub fn forget_range(&self, range: RangeId) -> Result<()> {
        self.change(&range_key(range), Descriptor::decode, Descriptor::encode, |found| match found
            .map(|descriptor| descriptor.state)
        {
            None | Some(RangeState::Dropped) => Ok((None, ())),
            Some(state) => {
                let refusal = Refusal::State { state, event: Event::Drop };
                Err(Error::Refused { range, refusal })
            }
        })
    }

    /// Returns an id for a client, which no other client gets. (C4)
    ///
    /// # Errors
    /// [`Error::Store`], [`Error::Damaged`].
    pub fn next_client(&self) -> Result<u64> {
        self.next_clients(1)
    }

    /// Returns the first of `count` ids for clients. (C4)
    ///
    /// # Errors
    /// [`Error::Store`], [`Error::Damaged`].
    pub fn next_clients(&self, count: u64) -> Result<u64> {
        self.change(CLUSTER, ClusterRecord::decode, ClusterRecord::encode, |record| {
            let mut record = record.unwrap_or_default();
            let id = record.next_client;
            record.next_client += count;
            Ok((Some(record), id))
        })
    }

    /// Changes the record of a range. Repeats the change if another one was first.
    pub(crate) fn change_range(
        &self,
        range: RangeId,
        mut apply: impl FnMut(&mut Descriptor) -> std::result::Result<(), Refusal>,
    ) -> Result<Descriptor> {
        self.change(&range_key(range), Descriptor::decode, Descriptor::encode, |found| {
            let mut descriptor = found.ok_or(Error::NoRange(range))?;
            apply(&mut descriptor).map_err(|refusal| Error::Refused { range, refusal })?;
            Ok((Some(descriptor.clone()), descriptor))
        })
    }

    fn cluster_record(&self) -> Result<Loaded<ClusterRecord>> {
        let found = self.load(CLUSTER, ClusterRecord::decode)?;
        let damage = || Corruption::new("the record of the cluster is missing", 0);
        found.ok_or_else(|| Error::Damaged { key: CLUSTER.to_owned(), damage: damage() })
    }

    /// Changes one record: `apply` gets it, and returns the record that takes its place and the
    /// result. Repeats this if another change was first.
    fn change<T, R>(
        &self,
        key: &str,
        decode: impl Fn(&[u8]) -> std::result::Result<T, Corruption>,
        encode: impl Fn(&T) -> Vec<u8>,
        mut apply: impl FnMut(Option<T>) -> Result<(Option<T>, R)>,
    ) -> Result<R> {
        loop {
            let (record, compare) = match self.load(key, &decode)? {
                Some(Loaded { record, compare }) => (Some(record), compare),
                None => (None, Compare::unchanged(key, None)),
            };
            let (after, result) = apply(record)?;
            let write = match &after {
                Some(after) => Write::put(key, encode(after)),
                None => Write::remove(key),
            };
            if self.store.commit(&[compare], &[write])? {
                return Ok(result);
            }
        }
    }

    fn load<T>(
        &self,
        key: &str,
        decode: impl Fn(&[u8]) -> std::result::Result<T, Corruption>,
    ) -> Result<Option<Loaded<T>>> {
        let Some(found) = self.store.get(key)? else { return Ok(None) };
        let record = decoded(key, &found, decode)?;
        Ok(Some(Loaded { record, compare: Compare::unchanged(key, Some(&found)) }))
    }

    fn list<T>(
        &self,
        prefix: &str,
        decode: impl Fn(&[u8]) -> std::result::Result<T, Corruption>,
    ) -> Result<Vec<(String, T)>> {
        let found = self.store.list(prefix)?.into_iter();
        found.map(|(key, found)| Ok((key.clone(), decoded(&key, &found, &decode)?))).collect()
    }
}

fn decoded<T>(
    key: &str,
    found: &Versioned,
    decode: impl Fn(&[u8]) -> std::result::Result<T, Corruption>,
) -> Result<T> {
    decode(&found.value).map_err(|damage| Error::Damaged { key: key.to_owned(), damage })
}
