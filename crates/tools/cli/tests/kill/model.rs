//! The writes of a client, in order, and the state that must be there afterwards.
//!
//! Every operation follows from the client's seed and the operation's number, so the state after
//! any number of them can be computed again.

use std::collections::BTreeMap;

use environment::Seed;
use rand::{Rng, RngExt};

/// The writes of one client.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    seed: Seed,
    client: usize,
    keys: u64,
    value_bytes_max: usize,
}

/// One write: a value, or `None` to delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Option<Vec<u8>>,
}

/// Keys and values that should be there.
pub(crate) type State = BTreeMap<Vec<u8>, Vec<u8>>;

impl Script {
    pub(crate) fn new(seed: Seed, client: usize, keys: u64, value_bytes_max: usize) -> Self {
        Self { seed, client, keys, value_bytes_max }
    }

    /// The names that its keys begin with.
    pub(crate) fn prefix(&self) -> String {
        format!("c{}:", self.client)
    }

    /// All keys that it may write.
    pub(crate) fn keys(&self) -> Vec<Vec<u8>> {
        (0..self.keys).map(|key| self.key(key)).collect()
    }

    fn key(&self, key: u64) -> Vec<u8> {
        format!("{}{key}", self.prefix()).into_bytes()
    }

    /// Write number `number`, from 1. A value begins with its number and is unlike all others.
    pub(crate) fn write(&self, number: u64) -> Write {
        let stream = (self.client as u64) << 48 | number;
        let mut random = self.seed.child(stream).stream("write");
        let key = self.key(random.random_range(0..self.keys));
        if random.random_range(0..10) == 0 {
            return Write { key, value: None };
        }
        let mut value = number.to_be_bytes().to_vec();
        let filler = random.random_range(0..=self.value_bytes_max);
        value.resize(8 + filler, 0);
        random.fill_bytes(&mut value[8..]);
        Write { key, value: Some(value) }
    }

    /// Applies writes `after + 1` to `to`.
    pub(crate) fn advance(&self, state: &mut State, after: u64, to: u64) {
        for number in after + 1..=to {
            let Write { key, value } = self.write(number);
            match value {
                Some(value) => state.insert(key, value),
                None => state.remove(&key),
            };
        }
    }

    /// The state after the first `to` writes.
    pub(crate) fn state(&self, to: u64) -> State {
        let mut state = State::new();
        self.advance(&mut state, 0, to);
        state
    }

    /// The number of writes, between `acknowledged` and `sent`, after which the state is `found`.
    ///
    /// # Panics
    /// If there is none: something acknowledged is lost, something older came back, or a later
    /// write is there without an earlier one.
    pub(crate) fn resolve(&self, found: &State, acknowledged: u64, sent: u64) -> u64 {
        let mut state = self.state(acknowledged);
        let mut number = acknowledged;
        while state != *found {
            assert!(number < sent, "{}", self.explain(found, acknowledged, sent));
            self.advance(&mut state, number, number + 1);
            number += 1;
        }
        number
    }

    fn explain(&self, found: &State, acknowledged: u64, sent: u64) -> String {
        let expected = self.state(acknowledged);
        let number = |value: Option<&Vec<u8>>| {
            let number = value.and_then(|value| value.first_chunk::<8>());
            number.map(|bytes| u64::from_be_bytes(*bytes))
        };
        let mut text = format!(
            "client {}: no state between the {acknowledged} acknowledged and the {sent} sent \
             writes is what was found. Against the acknowledged state:",
            self.client
        );
        for key in self.keys() {
            let (was, is) = (number(expected.get(&key)), number(found.get(&key)));
            if was != is {
                text += &format!(" {} {was:?} -> {is:?};", String::from_utf8_lossy(&key));
            }
        }
        text
    }
}
