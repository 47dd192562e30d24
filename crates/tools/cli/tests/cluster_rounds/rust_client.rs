//! Operations of a program with the client of the cluster.

use std::path::Path;
use std::sync::Arc;

use client::{Cluster, Error, Keyspace, Outcome, Pair, Write};
use conformance::linearizable::Value;
use environment::Environment;
use thermocline::{Change, Expiring, KeyRange};
use wire::tls::{Files, Tls};
use wire::{Certified, Identity, Node, Role, SocketEndpoint};

use crate::clients::{Attempt, Door, Keys, Recorder, TWINS, Wish, number};
use crate::cluster::KEYSPACE;
use crate::history::Operation;
use crate::time::now;

/// A program with the client.
pub(crate) struct Program {
    node: Arc<Node>,
    cluster: Cluster,
}

impl Program {
    /// Connects to a cluster, as the client of this number.
    ///
    /// # Errors
    /// The client's.
    pub(crate) fn connect(
        certificates: &Path,
        coordinators: &[String],
        number: u32,
    ) -> Result<Self, String> {
        let environment = Environment::real();
        // The certificate says which cluster it is for.
        let named = Certified { cluster: 0, role: Role::Client, node: None };
        let tls = Tls::load(Files::of(certificates, &named)).map_err(|error| error.to_string())?;
        let cluster = tls.who().cluster;
        let endpoint = SocketEndpoint::new(tls, &environment);
        let endpoint = endpoint.map_err(|error| error.to_string())?;
        let identity =
            Identity { cluster, role: Role::Client, node: number, cookie: 0, incarnation: 0 };
        let node = Node::start(endpoint, wire::Options::new(identity, environment));
        let node = Arc::new(node.map_err(|error| error.to_string())?);
        let options = client::Options::new(cluster, coordinators.to_vec());
        let cluster = Cluster::connect(Arc::clone(&node), &options);
        Ok(Self { node, cluster: cluster.map_err(|error| error.to_string())? })
    }

    /// Returns the operations of the program.
    ///
    /// # Errors
    /// The client's.
    pub(crate) fn door(&self) -> Result<Operations, String> {
        let keyspace = self.cluster.keyspace(KEYSPACE).map_err(|error| error.to_string())?;
        Ok(Operations { keyspace })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.cluster.stop();
        self.node.stop();
    }
}

/// The operations of a program.
pub(crate) struct Operations {
    keyspace: Keyspace,
}

/// Returns the outcome of a write that has failed.
fn failed(error: &Error, write: Operation) -> Attempt {
    let cause = error.to_string();
    match error {
        Error::Unavailable(_) | Error::Full(_) | Error::Rejected(_) => Attempt::Failed(cause),
        _ => Attempt::Unknown(write, cause),
    }
}

/// Returns the outcome of a write.
fn written(result: client::Result<()>, write: Operation) -> Attempt {
    match result {
        Ok(()) => Attempt::Acknowledged(write),
        Err(error) => failed(&error, write),
    }
}

/// Returns a key with a value in its stored form.
fn pair(key: &[u8], value: Value) -> Pair {
    let text = value.map(|value| value.to_string());
    let stored = text.map(|text| {
        let value = text.as_bytes();
        Expiring { value, expiry_ms: None }.to_stored()
    });
    Pair { key: key.to_vec(), value: stored }
}

impl Operations {
    /// Reads a key. Returns its value, if there was a reply.
    fn get(
        &self,
        place: usize,
        key: &[u8],
        recorder: &mut Recorder<'_>,
    ) -> Result<Option<Value>, String> {
        let invoked = now();
        match self.keyspace.get(key) {
            Ok(value) => {
                let saw = number(value.as_deref())?;
                recorder.note(place, invoked, Attempt::Acknowledged(Operation::Get { saw }));
                Ok(Some(saw))
            }
            Err(error) => {
                recorder.note(place, invoked, Attempt::Failed(error.to_string()));
                Ok(None)
            }
        }
    }

    /// Changes a key by its value.
    fn update(&self, key: &[u8], change: impl Fn(Value) -> u64) -> Result<Attempt, String> {
        // The last call counts.
        let mut last = Ok((None, 0));
        let result = self.keyspace.rmw(key, |present| {
            last = number(present).map(|saw| (saw, change(saw)));
            match &last {
                Ok((_, new)) => Change::Put(new.to_string().into_bytes()),
                Err(_) => Change::Keep,
            }
        });
        let (expected, new) = last?;
        Ok(written(result, Operation::Swap { expected, new: Some(new), is_done: true }))
    }

    /// Replaces the value of a key, if it is the same in the meantime.
    fn swap(
        &self,
        place: usize,
        (key, value): (&[u8], u64),
        recorder: &mut Recorder<'_>,
    ) -> Result<(), String> {
        let Some(expected) = self.get(place, key, recorder)? else { return Ok(()) };
        let [old, new] = [expected, Some(value)].map(|value| value.map(|value| value.to_string()));
        let [old, new] = [&old, &new].map(|value| value.as_deref().map(str::as_bytes));
        let invoked = now();
        let swapped = self.keyspace.compare_and_swap(key, old, new);
        let swap = |is_done| Operation::Swap { expected, new: Some(value), is_done };
        let attempt = match swapped {
            Ok(is_done) => Attempt::Acknowledged(swap(is_done)),
            Err(error) => failed(&error, swap(true)),
        };
        recorder.note(place, invoked, attempt);
        Ok(())
    }

    /// Reads both twins, which have one value.
    fn twins(&self, keys: &Keys) -> Result<Attempt, String> {
        let found = self.keyspace.scan(&KeyRange::prefix(keys.twins_prefix()));
        let found = match found.collect::<client::Result<Vec<_>>>() {
            Ok(found) => found,
            Err(error) => return Ok(Attempt::Failed(error.to_string())),
        };
        let saw = match found.as_slice() {
            [] => None,
            [(_, one), (_, two)] if one == two => number(Some(one.as_slice()))?,
            others => return Err(format!("the twins do not have one value: {others:?}")),
        };
        Ok(Attempt::Acknowledged(Operation::Get { saw }))
    }

    /// Writes both twins as a batch, if the first one has the value `expected`.
    fn write_twins(
        &self,
        keys: &Keys,
        value: u64,
        expected: Option<Value>,
    ) -> Result<Attempt, String> {
        let [one, two] = keys.twins();
        let expects = expected.map(|expected| pair(one, expected)).into_iter().collect();
        let steps = vec![pair(one, Some(value)), pair(two, Some(value))];
        let result = self.keyspace.write(Write { expects, steps });
        let swap = |expected, is_done| Operation::Swap { expected, new: Some(value), is_done };
        let write = match expected {
            Some(expected) => swap(expected, true),
            None => Operation::Put { value },
        };
        match (result, expected) {
            (Ok(Outcome::Written), _) => Ok(Attempt::Acknowledged(write)),
            (Ok(Outcome::Differs), Some(expected)) => {
                Ok(Attempt::Acknowledged(swap(expected, false)))
            }
            (Ok(Outcome::Differs), None) => Err("a write that expects nothing differs".to_owned()),
            (Err(error), _) => Ok(failed(&error, write)),
        }
    }
}

impl Door for Operations {
    fn perform(
        &mut self,
        wish: Wish,
        keys: &Keys,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), String> {
        let mut invoked = now();
        let (place, attempt) = match wish {
            Wish::Get(place) => {
                return self.get(place, keys.single(place), recorder).map(drop);
            }
            Wish::Swap(place, value) => {
                return self.swap(place, (keys.single(place), value), recorder);
            }
            Wish::Put(place, value) => {
                let text = value.to_string();
                let put = self.keyspace.put(keys.single(place), text.as_bytes());
                (place, written(put, Operation::Put { value }))
            }
            Wish::Delete(place) => {
                let deleted = self.keyspace.delete(keys.single(place));
                (place, written(deleted, Operation::Delete { had: None }))
            }
            Wish::Increment(place) => {
                let add_one = |present: Value| present.unwrap_or(0) + 1;
                (place, self.update(keys.single(place), add_one)?)
            }
            Wish::Exchange(place, value) => (place, self.update(keys.single(place), |_| value)?),
            Wish::ReadTwins => (TWINS, self.twins(keys)?),
            Wish::WriteTwins(value) => (TWINS, self.write_twins(keys, value, None)?),
            Wish::SwapTwins(value) => {
                let [one, _] = keys.twins();
                let Some(expected) = self.get(TWINS, one, recorder)? else { return Ok(()) };
                invoked = now();
                (TWINS, self.write_twins(keys, value, Some(expected))?)
            }
        };
        recorder.note(place, invoked, attempt);
        Ok(())
    }
}
