//! A store in etcd, by its JSON gateway, with an election.
//!
//! Each call is one POST. Streams of etcd are not used. Records have keys that begin with
//! `thermocline/CLUSTER/records/`, so several clusters can share an etcd.
//!
//! # The leader
//! One coordinator leads: it has made the key `thermocline/CLUSTER/leader` under a lease of etcd.
//! It is no record, so no commit can write it. Each commit compares the revision at which this key
//! was made. So a coordinator that has lost its lease commits nothing, whatever its clock says.

mod gateway;

use std::fmt;
use std::time::Duration;

use environment::{Environment, Monotonic};
use serde_json::{Value, json};
use sync::Mutex;

use crate::campaign::Election;
use crate::store::{Compare, Revision, Store, StoreError, Versioned, Write};
use gateway::{Gateway, bytes_of, in_base64, number_of};

/// How an etcd is used.
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// The addresses of its members, like `https://10.0.0.7:2379`.
    pub endpoints: Vec<String>,
    /// The certificates, if the addresses begin with `https`.
    pub tls: Option<EtcdTls>,
    /// The cluster.
    pub cluster: u64,
    /// Time after which a coordinator that etcd does not hear leads no more; whole seconds.
    pub lease: Duration,
    /// Time that a call has.
    pub call: Duration,
    /// The source of time.
    pub environment: Environment,
}

/// The certificates for an etcd, in the form PEM.
#[derive(Clone)]
pub struct EtcdTls {
    /// The authority of the servers' certificates.
    pub ca: Vec<u8>,
    /// The certificate of this client, and its key.
    pub client: Option<(Vec<u8>, Vec<u8>)>,
}

/// The election that this coordinator has won.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Leadership {
    lease: u64,
    /// The revision at which the key of the leader was made.
    made: Revision,
    /// The end of the lease by our clock, a tenth early.
    until: Monotonic,
}

/// A store in etcd.
pub struct EtcdStore {
    gateway: Gateway,
    /// The first part of the keys of records.
    prefix: String,
    /// The key of the leader, as the gateway wants it.
    leader: String,
    lease: Duration,
    environment: Environment,
    leadership: Mutex<Option<Leadership>>,
}

impl EtcdStore {
    /// Returns the store of a cluster. Nothing is sent yet.
    ///
    /// # Errors
    /// [`StoreError`]: a certificate or a key cannot be read.
    pub fn new(options: &EtcdOptions) -> Result<Self, StoreError> {
        let EtcdOptions { endpoints, tls, cluster, lease, call, environment } = options;
        Ok(Self {
            gateway: Gateway::new(endpoints, tls.as_ref(), *call)?,
            prefix: format!("thermocline/{cluster:016x}/records/"),
            leader: in_base64(format!("thermocline/{cluster:016x}/leader").as_bytes()),
            lease: *lease,
            environment: environment.clone(),
            leadership: Mutex::default(),
        })
    }

    /// Makes the key of the leader, if there is none.
    fn stand(&self, name: &str, until: Monotonic) -> Result<Option<Revision>, StoreError> {
        let seconds = self.lease.as_secs().max(1).to_string();
        let granted = self.gateway.post("lease/grant", &json!({ "TTL": seconds }))?;
        let lease = number_of(granted.get("ID"));
        let key = &self.leader;
        let name = in_base64(name.as_bytes());
        let lease_text = lease.to_string();
        let body = json!({
            "compare": [{ "key": key, "target": "CREATE", "create_revision": "0" }],
            "success": [{ "request_put": { "key": key, "value": name, "lease": lease_text } }],
        });
        let won = self.gateway.post("kv/txn", &body)?;
        if !is_success(&won) {
            // One that is not revoked ends by itself.
            let _ = self.gateway.post("lease/revoke", &json!({ "ID": lease_text }));
            return Ok(None);
        }
        let made = Revision(number_of(won.pointer("/header/revision")));
        *self.leadership.lock() = Some(Leadership { lease, made, until });
        Ok(Some(made))
    }

    /// Returns the name of the leader, if there is one.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn leader(&self) -> Result<Option<String>, StoreError> {
        let found = self.read(&self.leader)?;
        Ok(found.map(|found| String::from_utf8_lossy(&found.value).into_owned()))
    }

    /// Returns the value of a key that the gateway gets.
    fn read(&self, key: &str) -> Result<Option<Versioned>, StoreError> {
        let reply = self.gateway.post("kv/range", &json!({ "key": key }))?;
        Ok(records_of(&reply)?.pop().map(|(_, record)| record))
    }

    fn encoded(&self, key: &str) -> String {
        in_base64(format!("{}{key}", self.prefix).as_bytes())
    }

    /// Returns the comparison of the leader's key, if this coordinator leads.
    fn fence(&self) -> Result<Value, StoreError> {
        let leadership = *self.leadership.lock();
        let Some(Leadership { made, .. }) = leadership else {
            return Err(StoreError::NotLeader);
        };
        let (key, made) = (&self.leader, made.0.to_string());
        Ok(json!({ "key": key, "target": "CREATE", "create_revision": made }))
    }
}

fn is_success(reply: &Value) -> bool {
    reply.get("succeeded").and_then(Value::as_bool).unwrap_or(false)
}

/// Returns a record of a reply with its key.
fn record_of(found: &Value) -> Result<(Vec<u8>, Versioned), StoreError> {
    let key = bytes_of(found.get("key"))?;
    let value = bytes_of(found.get("value"))?;
    Ok((key, Versioned { value, revision: Revision(number_of(found.get("mod_revision"))) }))
}

fn records_of(reply: &Value) -> Result<Vec<(Vec<u8>, Versioned)>, StoreError> {
    let found = reply.get("kvs").and_then(Value::as_array);
    found.into_iter().flatten().map(record_of).collect()
}

impl Store for EtcdStore {
    fn get(&self, key: &str) -> Result<Option<Versioned>, StoreError> {
        self.read(&self.encoded(key))
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, Versioned)>, StoreError> {
        let first = format!("{}{prefix}", self.prefix);
        // Keys have no byte 0xff, since they are texts.
        let end = [first.as_bytes(), &[0xff]].concat();
        let body = json!({ "key": in_base64(first.as_bytes()), "range_end": in_base64(&end) });
        let reply = self.gateway.post("kv/range", &body)?;
        let named = |(key, record): (Vec<u8>, Versioned)| {
            let key = String::from_utf8(key).ok()?;
            let key = key.strip_prefix(&self.prefix)?.to_owned();
            Some((key, record))
        };
        let mut records: Vec<_> = records_of(&reply)?.into_iter().filter_map(named).collect();
        records.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(records)
    }

    fn commit(&self, compares: &[Compare], writes: &[Write]) -> Result<bool, StoreError> {
        let mut compared = vec![self.fence()?];
        for Compare { key, revision } in compares {
            let key = self.encoded(key);
            compared.push(match revision {
                Some(revision) => {
                    json!({ "key": key, "target": "MOD", "mod_revision": revision.0.to_string() })
                }
                None => json!({ "key": key, "target": "CREATE", "create_revision": "0" }),
            });
        }
        let written = writes.iter().map(|Write { key, value }| {
            let key = self.encoded(key);
            match value {
                Some(value) => json!({ "request_put": { "key": key, "value": in_base64(value) } }),
                None => json!({ "request_delete_range": { "key": key } }),
            }
        });
        let body = json!({ "compare": compared, "success": written.collect::<Vec<_>>() });
        let reply = self.gateway.post("kv/txn", &body)?;
        if is_success(&reply) {
            return Ok(true);
        }
        // A failed comparison of the leader's key is another failure than that of a record.
        let leader = self.gateway.post("kv/range", &json!({ "key": self.leader }))?;
        let made = leader.pointer("/kvs/0/create_revision");
        let mut leadership = self.leadership.lock();
        let leads = leadership.is_some_and(|leadership| leadership.made.0 == number_of(made));
        if !leads {
            *leadership = None;
            return Err(StoreError::NotLeader);
        }
        Ok(false)
    }
}

impl Election for EtcdStore {
    fn leads(&self) -> bool {
        let leadership = self.leadership.lock();
        leadership.is_some_and(|leadership| self.environment.now() < leadership.until)
    }

    fn campaign(&self, name: &str) -> Result<Option<Revision>, StoreError> {
        let present = *self.leadership.lock();
        // The lease counts from before the call.
        let until = self.environment.now() + self.lease * 9 / 10;
        if let Some(Leadership { lease, .. }) = present {
            let renewed =
                self.gateway.post("lease/keepalive", &json!({ "ID": lease.to_string() }))?;
            let is_alive = number_of(renewed.pointer("/result/TTL")) > 0;
            let mut leadership = self.leadership.lock();
            match (is_alive, leadership.as_mut()) {
                (true, Some(leadership)) => leadership.until = until,
                _ => *leadership = None,
            }
            if let Some(Leadership { made, .. }) = *leadership {
                return Ok(Some(made));
            }
        }
        // A candidacy costs writes of etcd, and a read finds a leader without them.
        match self.leader()? {
            Some(_) => Ok(None),
            None => self.stand(name, until),
        }
    }

    fn resign(&self) -> Result<(), StoreError> {
        let Some(Leadership { lease, .. }) = self.leadership.lock().take() else { return Ok(()) };
        self.gateway.post("lease/revoke", &json!({ "ID": lease.to_string() }))?;
        Ok(())
    }
}

/// A key is never printed.
impl fmt::Debug for EtcdTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdTls").finish_non_exhaustive()
    }
}

impl fmt::Debug for EtcdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdStore").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}
