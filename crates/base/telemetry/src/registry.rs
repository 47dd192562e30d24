//! The list of a database's metrics.
//!
//! # Concurrency
//! One lock guards the list. It is taken to register, to snapshot and to forget, never to count.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use sync::locks::Mutex;

use crate::{Counter, Gauge, Histogram, Metric, Snapshot, Unit, Value};

/// The label that a histogram's own lines use.
pub(crate) const HISTOGRAM_BOUND_LABEL: &str = "le";

type Labels = BTreeMap<String, String>;

/// A registry of metrics, under the labels of its holder. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    families: Arc<Mutex<BTreeMap<String, Family>>>,
    labels: Labels,
}

/// The metrics of one name.
#[derive(Debug)]
struct Family {
    help: &'static str,
    kind: Kind,
    members: BTreeMap<Labels, Handle>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Histogram(Unit),
}

#[derive(Clone, Debug)]
enum Handle {
    Counter(Counter),
    Gauge(Gauge),
    Histogram(Histogram),
}

impl Registry {
    /// The same registry, adding these labels (to those it adds already) to whatever is registered
    /// through it. A label that is already there gets the new value. Values may be any text.
    ///
    /// # Panics
    /// If a label's name is not letters, digits and underscores, beginning with no digit, or is
    /// `le`, which histograms need for themselves.
    #[must_use]
    pub fn with_labels(&self, labels: &[(&str, &str)]) -> Self {
        let mut all = self.labels.clone();
        for (name, value) in labels {
            let valid = is_name(name) && *name != HISTOGRAM_BOUND_LABEL;
            assert!(valid, "{name:?} cannot name a label");
            all.insert((*name).to_owned(), (*value).to_owned());
        }
        Self { families: self.families.clone(), labels: all }
    }

    /// The counter by this name under this registry's labels, new or as registered before.
    ///
    /// # Panics
    /// If `name` is not letters, digits and underscores, or already names another kind.
    pub fn counter(&self, name: &str, help: &'static str) -> Counter {
        let new = || Handle::Counter(Counter::detached());
        match self.register(name, help, Kind::Counter, new) {
            Handle::Counter(counter) => counter,
            other => unreachable!("a counter's family holds {other:?}"),
        }
    }

    /// The gauge by this name under this registry's labels, new and zero or as registered before.
    ///
    /// # Panics
    /// If `name` is not letters, digits and underscores, or already names another kind.
    pub fn gauge(&self, name: &str, help: &'static str) -> Gauge {
        let new = || Handle::Gauge(Gauge::detached());
        match self.register(name, help, Kind::Gauge, new) {
            Handle::Gauge(gauge) => gauge,
            other => unreachable!("a gauge's family holds {other:?}"),
        }
    }

    /// Sets gauges: the name of each one, its meaning and its level.
    ///
    /// # Panics
    /// As [`Registry::gauge`].
    pub fn set_gauges(&self, levels: &[(&str, &'static str, u64)]) {
        for (name, help, level) in levels {
            self.gauge(name, help).set(i64::try_from(*level).unwrap_or(i64::MAX));
        }
    }

    /// The histogram by this name under this registry's labels, new or as registered before.
    ///
    /// # Panics
    /// If `name` is not letters, digits and underscores, or already names another kind or unit.
    pub fn histogram(&self, name: &str, help: &'static str, unit: Unit) -> Histogram {
        let new = || Handle::Histogram(Histogram::detached(unit));
        match self.register(name, help, Kind::Histogram(unit), new) {
            Handle::Histogram(histogram) => histogram,
            other => unreachable!("a histogram's family holds {other:?}"),
        }
    }

    fn register(
        &self,
        name: &str,
        help: &'static str,
        kind: Kind,
        new: impl FnOnce() -> Handle,
    ) -> Handle {
        assert!(is_name(name), "{name:?} cannot name a metric");
        let mut families = self.families.lock();
        let family = match families.entry(name.to_owned()) {
            Entry::Occupied(family) => family.into_mut(),
            Entry::Vacant(place) => place.insert(Family { help, kind, members: BTreeMap::new() }),
        };
        assert!(
            family.kind == kind,
            "metric {name} is registered as {:?}, it cannot be {kind:?} as well",
            family.kind
        );
        family.members.entry(self.labels.clone()).or_insert_with(new).clone()
    }

    /// Takes out every metric that carries all of this registry's labels (without labels: every
    /// metric), when the thing they measured no longer exists. Handles continue to count, unseen.
    pub fn forget(&self) {
        let mut families = self.families.lock();
        for family in families.values_mut() {
            family.members.retain(|labels, _| {
                !self.labels.iter().all(|(name, value)| labels.get(name) == Some(value))
            });
        }
        families.retain(|_, family| !family.members.is_empty());
    }

    /// Returns the numbers of all metrics, independent of this registry's own labels.
    pub fn snapshot(&self) -> Snapshot {
        let families = self.families.lock();
        let metrics = families.iter().flat_map(|(name, family)| {
            family.members.iter().map(|(labels, handle)| Metric {
                name: name.clone(),
                help: family.help.to_owned(),
                labels: labels.clone(),
                value: handle.value(),
            })
        });
        Snapshot { metrics: metrics.collect() }
    }
}

impl Handle {
    fn value(&self) -> Value {
        match self {
            Self::Counter(counter) => Value::Counter(counter.get()),
            Self::Gauge(gauge) => Value::Gauge(gauge.get()),
            Self::Histogram(histogram) => Value::Histogram(histogram.distribution()),
        }
    }
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
