//! The operations of a keyspace.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use stoc::RangeId;
use sync::channel::channel;
use thermocline::{Change, Direction, Expiring, KeyRange};

use crate::error::{Error, Result};
use crate::pending::{OnDone, Pending};
use crate::protocol::{Pair, RangeReply, RangeRequest, RequestId};
use crate::router::Router;
use crate::scan::Scan;

/// A keyspace of a cluster. Cheap to clone. Each operation waits for the owner of the range, and
/// tries again until the time of requests is over. A write is durable on a quorum of StoCs when it
/// returns.
#[derive(Clone)]
pub struct Keyspace {
    router: Arc<Router>,
    name: Arc<str>,
    limit: Duration,
}

/// A write of several keys of one range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Write {
    /// Values that keys must have, in their stored form ([`Expiring`]).
    pub expects: Vec<Pair>,
    /// Values that keys get, in their stored form.
    pub steps: Vec<Pair>,
}

/// The outcome of a write with expectations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All steps are made.
    Written,
    /// A key has another value than expected. Nothing was written.
    Differs,
}

/// An id that the router replaces.
const NO_ID: RequestId = RequestId { client: 0, number: 0 };

/// Returns the error for a reply to another request.
pub(crate) fn other_reply() -> Error {
    Error::Unavailable("the reply is for another request".to_owned())
}

impl Keyspace {
    pub(crate) fn new(router: Arc<Router>, name: Arc<str>, limit: Duration) -> Self {
        Self { router, name, limit }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of its ranges, as the client knows them.
    pub fn ranges(&self) -> usize {
        self.router.look(|routes| routes.count(&self.name))
    }

    /// Returns the value of a key.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Rejected`], [`Error::Damaged`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.multi_get(&[key])?.pop().flatten())
    }

    /// Returns the values of many keys, in their order. Each value is the newest one of its key;
    /// values of several ranges need not be of one moment.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        let stored = self.get_stored(keys)?.into_iter();
        stored.map(|stored| self.shown(stored)).collect()
    }

    /// Returns the value and its expiry, as [`Expiring::expiry_ms`].
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn get_with_expiry(&self, key: &[u8]) -> Result<Option<(Vec<u8>, Option<u64>)>> {
        let Some(stored) = self.get_stored(&[key])?.pop().flatten() else { return Ok(None) };
        let Expiring { value, expiry_ms } = Expiring::decode(&stored)?;
        let is_there = expiry_ms.is_none_or(|end| end > self.router.environment().wall_ms());
        Ok(is_there.then(|| (value.to_vec(), expiry_ms)))
    }

    /// Gives a key a value.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Unknown`], [`Error::Full`],
    /// [`Error::Rejected`].
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_stored(key, Some(Expiring { value, expiry_ms: None }.to_stored()))
    }

    /// Gives a key a value that expires after `time`.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn put_with_ttl(&self, key: &[u8], value: &[u8], time: Duration) -> Result<()> {
        let time_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let expiry_ms = self.router.environment().wall_ms().saturating_add(time_ms);
        self.put_stored(key, Some(Expiring { value, expiry_ms: Some(expiry_ms) }.to_stored()))
    }

    /// Removes a key.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        self.put_stored(key, None)
    }

    /// Gives a key the value `new`, or removes it, if its value is `expected`. Returns whether it
    /// did.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn compare_and_swap(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        let mut is_equal = false;
        self.rmw(key, |present| {
            is_equal = present == expected;
            match (is_equal, new) {
                (false, _) => Change::Keep,
                (true, Some(new)) => Change::Put(new.to_vec()),
                (true, None) => Change::Delete,
            }
        })?;
        Ok(is_equal)
    }

    /// Changes a key by its value. `update` may be called several times, and its last result
    /// counts. The value is read, and then written if it is still the same: no other write comes
    /// between. A new value has no expiry.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn rmw(&self, key: &[u8], mut update: impl FnMut(Option<&[u8]>) -> Change) -> Result<()> {
        loop {
            let stored = self.get_stored(&[key])?.pop().flatten();
            let present = self.shown(stored.clone())?;
            let value = match update(present.as_deref()) {
                Change::Keep => return Ok(()),
                Change::Put(value) => Some(Expiring { value: &value, expiry_ms: None }.to_stored()),
                Change::Delete => None,
            };
            let key = key.to_vec();
            let expects = vec![Pair { key: key.clone(), value: stored }];
            if self.write(Write { expects, steps: vec![Pair { key, value }] })? == Outcome::Written
            {
                return Ok(());
            }
        }
    }

    /// Makes all steps of a write, or none. All keys must be in one range.
    ///
    /// # Errors
    /// [`Error::SeveralRanges`]; otherwise as [`Keyspace::put`].
    pub fn write(&self, write: Write) -> Result<Outcome> {
        if write.steps.is_empty() && write.expects.is_empty() {
            return Ok(Outcome::Written);
        }
        self.one_range(&write)?;
        match wait(|on_done| self.send_write(write, on_done))? {
            RangeReply::Written => Ok(Outcome::Written),
            RangeReply::Differs => Ok(Outcome::Differs),
            _ => Err(other_reply()),
        }
    }

    /// Removes all keys, one range after the other.
    ///
    /// # Errors
    /// As [`Keyspace::put`]. Some ranges may be cleared then.
    pub fn clear(&self) -> Result<()> {
        let starts = || self.router.look(|routes| routes.starts(&self.name));
        let mut left = starts();
        if left.is_empty() {
            // The request finds the keyspace and its ranges, or its absence.
            self.clear_range(Vec::new())?;
            left = starts();
            left.retain(|start| !start.is_empty());
        }
        left.into_iter().try_for_each(|start| self.clear_range(start))
    }

    /// Removes all keys of the range that begins at a key.
    fn clear_range(&self, start: Vec<u8>) -> Result<()> {
        wait(|on_done| self.send((start, false), RangeRequest::Clear { id: NO_ID }, on_done))?;
        Ok(())
    }

    /// Returns the pairs of a range of keys in the order of the keys. The pairs of one range of the
    /// cluster are read in pieces, and each piece shows one moment.
    ///
    /// # Errors
    /// None now; the scan returns those of [`Keyspace::get`].
    pub fn scan(&self, range: &KeyRange) -> Scan {
        self.scan_in(range, Direction::Forward)
    }

    /// The same in a direction.
    pub fn scan_in(&self, range: &KeyRange, direction: Direction) -> Scan {
        Scan::new(self.clone(), range.half_open(), direction == Direction::Backward)
    }

    /// The same with values in their stored form ([`Expiring`]), expired ones included.
    pub fn scan_stored(&self, range: &KeyRange) -> Scan {
        Scan::new(self.clone(), range.half_open(), false).stored()
    }

    /// Divides keys by their ranges, as the client knows them: returns the places of the keys of
    /// each range.
    pub fn by_ranges(&self, keys: &[&[u8]]) -> Vec<Vec<usize>> {
        let mut of_ranges: Vec<(Option<RangeId>, Vec<usize>)> = Vec::new();
        for (place, key) in keys.iter().enumerate() {
            let range = self.range_of(key);
            match of_ranges.iter_mut().find(|(known, _)| *known == range) {
                Some((_, places)) => places.push(place),
                None => of_ranges.push((range, vec![place])),
            }
        }
        of_ranges.into_iter().map(|(_, places)| places).collect()
    }

    /// Sends a get of keys that are all in the range of the first key, and does not wait. The reply
    /// has values in their stored form.
    pub fn send_get(&self, keys: Vec<Vec<u8>>, on_done: OnDone) {
        let key = keys.first().cloned().unwrap_or_default();
        self.send((key, false), RangeRequest::Get { keys }, on_done);
    }

    /// Sends a write whose keys are all in the range of the first key, and does not wait.
    pub fn send_write(&self, Write { expects, steps }: Write, on_done: OnDone) {
        let key = steps.iter().chain(&expects).next().map(|pair| pair.key.clone());
        let request = RangeRequest::Write { id: NO_ID, is_repeated: false, expects, steps };
        self.send((key.unwrap_or_default(), false), request, on_done);
    }

    /// Returns the range of a key, as the client knows it.
    pub fn range_of(&self, key: &[u8]) -> Option<RangeId> {
        self.router.look(|routes| routes.find(&self.name, key, false).map(|route| route.range))
    }

    /// Sends a request to the owner of the range of a key, or of the range before it.
    pub(crate) fn send(&self, place: (Vec<u8>, bool), request: RangeRequest, on_done: OnDone) {
        let deadline = self.router.environment().now() + self.limit;
        let keyspace = Arc::clone(&self.name);
        self.router.submit(Pending::new(keyspace, place, request, deadline, on_done));
    }

    /// Returns values in their stored form ([`Expiring`]), expired ones included, in the order of
    /// the keys.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn get_stored(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        match self.get_divided(keys) {
            // The ranges were not known before.
            Err(Error::SeveralRanges { .. }) => self.get_divided(keys),
            values => values,
        }
    }

    fn get_divided(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        let of_ranges = self.by_ranges(keys);
        let (sender, receiver) = channel();
        for (at, places) in of_ranges.iter().enumerate() {
            let sender = sender.clone();
            let keys = places.iter().filter_map(|place| Some(keys.get(*place)?.to_vec()));
            let on_done = move |reply| sender.send((at, reply));
            self.send_get(keys.collect(), Box::new(on_done));
        }
        drop(sender);
        let mut values = vec![None; keys.len()];
        for (at, reply) in receiver {
            let Ok(RangeReply::Values(found)) = reply else {
                reply?;
                return Err(other_reply());
            };
            let places = of_ranges.get(at).map(Vec::as_slice).unwrap_or_default();
            if places.len() != found.len() {
                return Err(other_reply());
            }
            for (place, value) in places.iter().zip(found) {
                if let Some(into) = values.get_mut(*place) {
                    *into = value;
                }
            }
        }
        Ok(values)
    }

    fn put_stored(&self, key: &[u8], value: Option<Vec<u8>>) -> Result<()> {
        let steps = vec![Pair { key: key.to_vec(), value }];
        self.write(Write { expects: Vec::new(), steps }).map(drop)
    }

    /// Returns the value that a stored one shows now.
    pub(crate) fn shown(&self, stored: Option<Vec<u8>>) -> Result<Option<Vec<u8>>> {
        let Some(mut stored) = stored else { return Ok(None) };
        let Expiring { value, expiry_ms } = Expiring::decode(&stored)?;
        let length = value.len();
        let is_there = expiry_ms.is_none_or(|end| end > self.router.environment().wall_ms());
        stored.truncate(length);
        Ok(is_there.then_some(stored))
    }

    /// Refuses a write of several ranges.
    fn one_range(&self, Write { expects, steps }: &Write) -> Result<()> {
        let mut ranges = steps.iter().chain(expects).filter_map(|pair| self.range_of(&pair.key));
        let Some(first) = ranges.next() else { return Ok(()) };
        match ranges.find(|range| *range != first) {
            Some(other) => Err(Error::SeveralRanges { first, other }),
            None => Ok(()),
        }
    }
}

/// Waits for the end of the request that `send` sends.
pub(crate) fn wait(send: impl FnOnce(OnDone)) -> Result<RangeReply> {
    let (sender, receiver) = channel();
    send(Box::new(move |reply| sender.send(reply)));
    receiver.recv().unwrap_or(Err(Error::Stopped))
}

impl fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyspace").field("name", &self.name).finish_non_exhaustive()
    }
}
