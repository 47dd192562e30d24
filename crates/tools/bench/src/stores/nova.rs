//! The engine `nova`: a store on a cluster.
//!
//! - *In this process* (`--cluster dev`) the cluster has one keyspace, which is one range. A range
//!   is a database, and is used as that of any other engine of ours. Its device counts the bytes of
//!   all StoCs and of the coordinator.
//! - *A running cluster* is used through the crate `client`. The keyspace [`KEYSPACE`] of the
//!   cluster is emptied before a run, and at the end of it. A write is durable on a quorum of StoCs
//!   when it returns, so a flush has nothing to do. The memory, the devices and the background work
//!   of the cluster's processes are unknown here.
//!
//! ```text
//! nova    nova:ranges=6    nova:routing=one
//! ```
//!
//! The ranges are those of a running cluster. Other settings are those of the engine `lsm`, which
//! the range of a cluster in this process has.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use client::{Cluster, Keyspace, Pair, Write};
use environment::Environment;
use ltc::LocalCluster;
use thermocline::{EngineKind, Expiring, KeyRange, Operator as _, device};
use wire::tls::{Files, Tls};
use wire::{Identity, Node, Role, SocketEndpoint};

use super::cluster::NOVA;
use super::thermocline::{Exchange, KEYSPACE, Opening, Thermocline, device_counts};
use super::variant::Variant;
use super::{
    Background, ClusterPlace, ClusterSettings, DeviceCounts, Durability, OpenOptions, Pairs,
    Session, Store, StoreError,
};
use crate::memory::{Budget, PageCache};
use crate::run::Config;

/// The setting of a name that is not one of `lsm`.
const RANGES: &str = "ranges";
/// Ranges that a keyspace may be made with.
const RANGES_MAX: u32 = 1000;
/// Pairs that are written together in a load, at most: they are one record of a log.
const LOAD_PAIRS: usize = 100;
/// Time that a request has. A range that has lost its LTC is served again earlier.
const LIMIT: Duration = Duration::from_secs(60);

/// The name of a store, taken apart.
struct Name {
    /// The number of ranges, if the name has one.
    ranges: Option<u32>,
    /// The engine of a range, with its settings.
    of_range: Variant,
    /// Whether the name has settings of `lsm`.
    has_settings: bool,
}

impl FromStr for Name {
    type Err = StoreError;

    fn from_str(name: &str) -> Result<Self, StoreError> {
        let (mut ranges, mut of_range) = (None, vec![EngineKind::Lsm.name()]);
        for setting in name.split(':').skip(1) {
            match setting.split_once('=') {
                Some((RANGES, text)) => {
                    let given = text.parse::<u32>().ok();
                    let given = given.filter(|count| (1..=RANGES_MAX).contains(count));
                    let refused = || format!("{setting}: want {RANGES}=1 to {RANGES}={RANGES_MAX}");
                    ranges = Some(given.ok_or_else(refused)?);
                }
                _ => of_range.push(setting),
            }
        }
        let has_settings = of_range.len() > 1;
        Ok(Self { ranges, of_range: of_range.join(":").parse()?, has_settings })
    }
}

/// Refuses settings that do not exist.
pub(super) fn check_name(name: &str) -> Result<(), StoreError> {
    name.parse::<Name>().map(drop)
}

/// Refuses a run that the cluster has no means for.
pub(super) fn check(config: &Config, cluster: &ClusterSettings) -> Result<(), StoreError> {
    let name: Name = config.engine.parse()?;
    let of_both = [(config.io.is_some(), "--io: a StoC does all I/O through the page cache")];
    let of_dev = [(name.ranges.is_some(), "ranges: a cluster in this process has one range")];
    let of_running = [
        (
            config.durability == Durability::None,
            "--durability none: a running cluster acknowledges writes that a quorum has synced",
        ),
        (
            config.memory != Budget::All || config.page_cache == Some(PageCache::Counted),
            "--memory, --page-cache: the memory of a running cluster is a setting of its processes",
        ),
        (
            config.cache_bytes.is_some(),
            "--cache: the caches of a running cluster are settings of its processes",
        ),
        (
            config.loads.is_some(),
            "--loads: the files of a running cluster belong to its processes, so each run loads",
        ),
        (
            config.depth > 1,
            "--depth: an operation on a running cluster waits for its reply; use more threads",
        ),
        (name.has_settings, "settings of ranges: those of a running cluster belong to its LTCs"),
    ];
    let of_place = match &cluster.place {
        ClusterPlace::Dev => &of_dev[..],
        ClusterPlace::Running(places) => {
            wire::hosts_and_ports(places)?;
            &of_running[..]
        }
    };
    match of_both.iter().chain(of_place).find(|(is_asked, _)| *is_asked) {
        Some((_, refusal)) => Err((*refusal).into()),
        None => Ok(()),
    }
}

/// Opens the store of a run.
pub(super) fn open(name: &str, options: &OpenOptions) -> Result<Arc<dyn Store>, StoreError> {
    let name: Name = name.parse()?;
    match &options.cluster {
        None => Err(format!("the engine {NOVA} needs a cluster").into()),
        Some(ClusterSettings { place: ClusterPlace::Dev, .. }) => {
            Ok(Arc::new(Dev::open(name.of_range, options)?))
        }
        Some(cluster) => Ok(Arc::new(Running::open(name.ranges, cluster, options)?)),
    }
}

/// A cluster in this process.
struct Dev {
    /// The database of the only range.
    range: Thermocline,
    cluster: LocalCluster,
    /// The device of all files of the cluster.
    device: Arc<dyn device::Device>,
}

impl Dev {
    fn open(of_range: Variant, options: &OpenOptions) -> Result<Self, StoreError> {
        let Opening { database, keyspace, memory_bytes } = Opening::of(of_range, options);
        let device = device::open(&options.dir, device::Options::default())?;
        let place = options.dir.display().to_string();
        let of_cluster = ltc::Options { database, ..ltc::Options::of_one_keyspace(memory_bytes) };
        let cluster = LocalCluster::open_on(Arc::clone(&device), &place, of_cluster)?;
        let db = cluster.keyspace(KEYSPACE)?;
        let keyspace = db.keyspace(KEYSPACE, keyspace)?;
        Ok(Self { range: Thermocline { db, keyspace, memory_bytes }, cluster, device })
    }
}

impl Store for Dev {
    fn session(&self) -> Result<Box<dyn Session + '_>, StoreError> {
        self.range.session()
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.range.flush()
    }

    fn device(&self) -> Option<DeviceCounts> {
        Some(device_counts(self.device.accounting().counts()))
    }

    fn figures(&self) -> BTreeMap<String, u64> {
        self.range.figures()
    }

    fn cache_bytes(&self) -> Option<u64> {
        self.range.cache_bytes()
    }

    fn background(&self) -> Background {
        self.range.background()
    }

    fn close(&self) -> Result<(), StoreError> {
        Ok(self.cluster.close()?)
    }
}

/// A running cluster, as a client sees it.
struct Running {
    keyspace: Keyspace,
    cluster: Cluster,
    node: Arc<Node>,
}

impl Running {
    fn open(
        ranges: Option<u32>,
        settings: &ClusterSettings,
        options: &OpenOptions,
    ) -> Result<Self, StoreError> {
        let environment = Environment::real();
        let files = Files::of_process(&settings.certificates, Role::Client, settings.node);
        let tls = Tls::load(files)?;
        let (who, node) = (tls.who(), settings.node);
        let (role, cluster) = (Role::Client, who.cluster);
        let identity = Identity { cluster, role, node, cookie: 0, incarnation: 0 };
        if !who.covers(&identity) {
            let uri = who.uri();
            return Err(format!("the certificate is for {uri}, and this is {identity}").into());
        }
        let endpoint = SocketEndpoint::new(tls, &environment)?;
        let node = Node::start(endpoint, wire::Options::new(identity, environment))?;
        let node = Arc::new(node);
        let coordinators = wire::hosts_and_ports(&settings.place.to_string())?;
        let of_client =
            client::Options { limit: LIMIT, ..client::Options::new(cluster, coordinators) };
        let cluster = Cluster::connect(Arc::clone(&node), &of_client)?;
        let splits = options.key_space.splits(options.keys, ranges.unwrap_or(1));
        let keyspace = match cluster.keyspace(KEYSPACE) {
            Err(client::Error::NoKeyspace(_)) => cluster.make_keyspace(KEYSPACE, &splits)?,
            found => found?,
        };
        let (there, wanted) = (keyspace.ranges(), splits.len() + 1);
        if ranges.is_some() && there != wanted {
            return Err(format!(
                "the keyspace {KEYSPACE} of the cluster has {there} ranges, and not {wanted}: the \
                 first run has made it so"
            )
            .into());
        }
        keyspace.clear()?;
        Ok(Self { keyspace, cluster, node })
    }
}

impl Store for Running {
    fn session(&self) -> Result<Box<dyn Session + '_>, StoreError> {
        Ok(Box::new(&self.keyspace))
    }

    /// Each write is durable on a quorum of StoCs when it returns.
    fn flush(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// The operating system's counts of this process say nothing about StoCs, and the report leaves
    /// them out.
    fn device(&self) -> Option<DeviceCounts> {
        Some(DeviceCounts::default())
    }

    fn figures(&self) -> BTreeMap<String, u64> {
        BTreeMap::from([(RANGES.to_owned(), self.keyspace.ranges() as u64)])
    }

    fn close(&self) -> Result<(), StoreError> {
        let cleared = self.keyspace.clear();
        self.cluster.stop();
        self.node.stop();
        Ok(cleared?)
    }
}

impl Session for &Keyspace {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, StoreError> {
        let found = Keyspace::get(self, key)?;
        let is_there = found.is_some();
        *value = found.unwrap_or_default();
        Ok(is_there)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        Ok(Keyspace::put(self, key, value)?)
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StoreError> {
        Ok(Keyspace::delete(self, key)?)
    }

    fn rmw(&mut self, key: &[u8], new: &[u8], old: &mut Vec<u8>) -> Result<bool, StoreError> {
        let mut exchange = Exchange { new, old, found: false };
        Keyspace::rmw(self, key, |present| exchange.update(present))?;
        Ok(exchange.found)
    }

    fn scan(&mut self, from: &[u8], limit: usize, pairs: &mut Pairs) -> Result<(), StoreError> {
        let scan = Keyspace::scan(self, &KeyRange::of(from.to_vec()..));
        let few = u32::try_from(limit).unwrap_or(u32::MAX);
        for pair in scan.in_pieces(few).take(limit) {
            let (key, value) = pair?;
            pairs.push(&key, &value);
        }
        Ok(())
    }

    fn load(&mut self, pairs: &Pairs) -> Result<(), StoreError> {
        let pairs: Vec<(&[u8], &[u8])> = pairs.iter().collect();
        let keys: Vec<&[u8]> = pairs.iter().map(|(key, _)| *key).collect();
        let step = |(key, value): &(&[u8], &[u8])| Pair {
            key: key.to_vec(),
            value: Some(Expiring { value, expiry_ms: None }.to_stored()),
        };
        for places in self.by_ranges(&keys) {
            for places in places.chunks(LOAD_PAIRS) {
                let steps = places.iter().filter_map(|place| pairs.get(*place)).map(step);
                self.write(Write { expects: Vec::new(), steps: steps.collect() })?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
