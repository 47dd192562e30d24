//! Several servers on one store of other processes: each is a gateway.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use thermocline::environment::Environment;
use thermocline::sync::locks::Mutex;
use thermocline::telemetry::Registry;
use thermocline::{Doorbell, SeqNo};

use super::client::Client;
use super::map_store::MapStore;
use super::{model, options};
use crate::store::session::{OnLookup, Purpose, StoreLookup, StoreRead, StoreSession};
use crate::store::{
    Change, Commit, DbIndex, Durable, Found, OnCommitted, OnRead, Remote, Step, Store, StoreError,
    Visit,
};
use crate::{Bound, Server};

/// A map of other processes. Keys from `n` on are at another place.
#[derive(Default)]
struct RemoteMap {
    map: Arc<MapStore>,
    /// One commit at a time.
    committing: Mutex<()>,
}

/// Returns the place of a key.
fn place(key: &[u8]) -> usize {
    usize::from(key.first().is_some_and(|first| *first >= b'n'))
}

fn value_of(map: &MapStore, db: DbIndex, key: &[u8]) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    map.get(db, key, &mut value).is_ok_and(|is_there| is_there).then_some(value)
}

impl Store for RemoteMap {
    fn get(&self, db: DbIndex, key: &[u8], into: &mut Vec<u8>) -> Result<bool, StoreError> {
        self.map.get(db, key, into)
    }

    fn try_get(&self, _: DbIndex, _: &[u8], _: &mut Vec<u8>) -> Result<Option<bool>, StoreError> {
        Ok(None)
    }

    fn multi_get(
        &self,
        db: DbIndex,
        keys: &[&[u8]],
        found: &mut Found<'_>,
    ) -> Result<(), StoreError> {
        self.map.multi_get(db, keys, found)
    }

    fn put(&self, _: DbIndex, _: &[u8], _: &[u8]) -> Result<SeqNo, StoreError> {
        Err(StoreError::Refused("a commit writes".to_owned()))
    }

    fn delete(&self, _: DbIndex, _: &[u8]) -> Result<SeqNo, StoreError> {
        Err(StoreError::Refused("a commit writes".to_owned()))
    }

    fn update(
        &self,
        _: DbIndex,
        _: &[u8],
        _: &mut dyn FnMut(Option<&[u8]>) -> Change,
    ) -> Result<SeqNo, StoreError> {
        Err(StoreError::Refused("a commit writes".to_owned()))
    }

    fn try_update(
        &self,
        _: DbIndex,
        _: &[u8],
        _: &mut dyn FnMut(Option<&[u8]>) -> Change,
    ) -> Result<Option<SeqNo>, StoreError> {
        Ok(None)
    }

    fn walk(
        &self,
        db: DbIndex,
        from: Option<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError> {
        self.map.walk(db, from, visit)
    }

    fn is_ordered(&self, _: DbIndex) -> bool {
        true
    }

    fn position(&self, _: DbIndex, _: &[u8]) -> Result<u64, StoreError> {
        Ok(0)
    }

    fn counted_keys(&self, _: DbIndex) -> Result<Option<u64>, StoreError> {
        Ok(None)
    }

    fn clear(&self, db: DbIndex) -> Result<SeqNo, StoreError> {
        let _committing = self.committing.lock();
        self.map.clear(db)
    }
}

impl Durable for RemoteMap {
    fn store_session(
        &self,
        db: DbIndex,
        _depth: usize,
        bell: &Arc<Doorbell>,
    ) -> Result<Box<dyn StoreSession>, StoreError> {
        let (map, bell, asked) = (Arc::clone(&self.map), Arc::clone(bell), VecDeque::new());
        Ok(Box::new(RemoteSession { map, db, bell, asked }))
    }

    fn remote(&self) -> Option<&dyn Remote> {
        Some(self)
    }

    fn are_apart(&self) -> bool {
        true
    }

    fn write(
        &self,
        _: &mut dyn Iterator<Item = Step>,
        _: Option<&dyn Fn()>,
    ) -> Result<SeqNo, StoreError> {
        Err(StoreError::Refused("a commit writes".to_owned()))
    }

    fn make(&self, db: DbIndex) -> Result<(), StoreError> {
        self.map.make(db)
    }

    fn write_room(&self) -> u64 {
        1 << 20
    }

    fn wait(&self, _: SeqNo) -> Result<(), StoreError> {
        Ok(())
    }

    fn last(&self) -> SeqNo {
        SeqNo::ZERO
    }

    fn save(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn backup(&self, _: &Path) -> Result<(), StoreError> {
        Ok(())
    }

    fn figures(&self) -> Vec<(String, u64)> {
        Vec::new()
    }

    fn refresh_metrics(&self) {}

    fn memory(&self) -> (u64, u64) {
        (0, 1 << 30)
    }

    fn commands(&self) -> &dyn Store {
        self
    }
}

impl Remote for RemoteMap {
    fn read(&self, db: DbIndex, keys: Vec<Vec<u8>>, on_read: OnRead) {
        let value = |key: &Vec<u8>| {
            // Other commands may be committed between two keys.
            thread::yield_now();
            value_of(&self.map, db, key)
        };
        on_read(Ok(keys.iter().map(value).collect()));
    }

    fn commit(&self, Commit { db, expects, steps }: Commit, on_committed: OnCommitted) {
        let _committing = self.committing.lock();
        let keys = expects.iter().map(|(key, _)| key).chain(steps.iter().map(|step| &step.key));
        let mut places: Vec<usize> = keys.map(|key| place(key)).collect();
        places.dedup();
        if places.len() > 1 {
            return on_committed(Err(StoreError::Refused("two places".to_owned())));
        }
        if !self.map.exists(db) {
            return on_committed(Err(StoreError::NoDatabase));
        }
        let is_present =
            |(key, value): &(Vec<u8>, Option<Vec<u8>>)| value_of(&self.map, db, key) == *value;
        let holds = expects.iter().all(is_present);
        let written = match holds {
            true => self.map.write(&mut steps.into_iter(), Some(&|| ())).map(drop),
            false => Ok(()),
        };
        on_committed(written.map(|()| holds));
    }

    fn places(&self, _: DbIndex, keys: &[&[u8]]) -> Vec<Vec<usize>> {
        let of = |wanted: usize| {
            let keys = keys.iter().enumerate().filter(move |(_, key)| place(key) == wanted);
            keys.map(|(index, _)| index).collect::<Vec<_>>()
        };
        [of(0), of(1)].into_iter().filter(|keys| !keys.is_empty()).collect()
    }
}

/// Lookups that are made when the bell has rung.
struct RemoteSession {
    map: Arc<MapStore>,
    db: DbIndex,
    bell: Arc<Doorbell>,
    asked: VecDeque<(u64, Vec<u8>)>,
}

impl StoreSession for RemoteSession {
    fn begin(
        &mut self,
        tag: u64,
        key: &[u8],
        _purpose: Purpose,
        _into: &mut Vec<u8>,
    ) -> Result<StoreLookup, StoreError> {
        self.asked.push_back((tag, key.to_vec()));
        self.bell.ring();
        Ok(StoreLookup::Pending)
    }

    fn complete(&mut self, on_done: &mut OnLookup<'_>) -> Result<(), StoreError> {
        for (tag, key) in std::mem::take(&mut self.asked) {
            let value = value_of(&self.map, self.db, &key);
            on_done(tag, Ok(StoreRead::Value(value.as_deref())));
        }
        Ok(())
    }

    fn pending(&self) -> usize {
        self.asked.len()
    }
}

/// Two servers on one map.
fn serve() -> [Server; 2] {
    let store = Arc::new(RemoteMap::default());
    store.map.absent.lock().extend(0..16);
    let start = || {
        let bound = Bound::new(options()).expect("the ports are free");
        let store = Arc::clone(&store) as Arc<dyn Durable>;
        bound.serve_on(store, Environment::real(), Registry::default()).expect("it starts")
    };
    [start(), start()]
}

#[test]
fn random_commands_get_the_replies_of_the_model() {
    let servers = serve();
    let mut clients: Vec<Client> =
        servers.iter().chain(&servers).map(|server| Client::connect(server.addr())).collect();
    model::compare(&mut clients, model::seed(), 1_500);
}

/// G1: commands of several servers on the same keys lose nothing.
#[test]
fn commands_of_two_gateways_take_effect_one_at_a_time() {
    let servers = serve();
    thread::scope(|scope| {
        for server in servers.iter().chain(&servers) {
            scope.spawn(move || {
                let mut client = Client::connect(server.addr());
                for number in 0..200 {
                    client.run("INCR a");
                    client.run("APPEND b x");
                    client.run(&format!("SETNX c{number} value"));
                    // A transaction that moves one from a count to another.
                    client.run("MULTI");
                    client.run("DECR d");
                    client.run("INCR e");
                    client.run("EXEC");
                    client.run("MULTI");
                    client.run("GET d");
                    client.run("GET e");
                    let shown = client.run("EXEC");
                    let counts: Vec<i64> = shown
                        .split(|letter: char| !letter.is_ascii_digit() && letter != '-')
                        .filter_map(|number| number.parse().ok())
                        .collect();
                    assert_eq!(counts.iter().sum::<i64>(), 0, "{shown}");
                }
            });
        }
    });
    let mut client = Client::connect(servers[0].addr());
    assert_eq!(client.run("GET a"), "\"800\"");
    assert_eq!(client.run("STRLEN b"), ":800");
    assert_eq!(client.run("GET e"), "\"800\"");
    assert_eq!(client.run("GET d"), "\"-800\"");
    assert_eq!(client.run("DBSIZE"), ":204");
}

/// G2: a change by the client of another server makes EXEC fail.
#[test]
fn a_watched_key_is_compared_over_all_gateways() {
    let [first, second] = serve();
    let mut watching = Client::connect(first.addr());
    let mut other = Client::connect(second.addr());
    for (change, result) in [("SET a 1", "nil"), ("GET a", "[+OK]"), ("DEL a", "nil")] {
        assert_eq!(watching.run("WATCH a b"), "+OK");
        // A second watch does not forget the value of the first.
        other.run(change);
        assert_eq!(watching.run("WATCH a"), "+OK");
        watching.run("MULTI");
        watching.run("SET b new");
        assert_eq!(watching.run("EXEC"), result, "{change}");
    }
    // Without a change the next transaction takes place.
    assert_eq!(watching.run("WATCH a"), "+OK");
    watching.run("MULTI");
    watching.run("SET a own");
    assert_eq!(watching.run("EXEC"), "[+OK]");
    assert_eq!(other.run("GET a"), "\"own\"");
}

#[test]
fn keys_at_several_places_are_counted_or_refused() {
    let [first, second] = serve();
    let mut client = Client::connect(first.addr());
    for key in ["a", "b", "x", "y"] {
        assert_eq!(client.run(&format!("SET {key} {key}")), "+OK");
    }
    let mut other = Client::connect(second.addr());
    assert_eq!(other.run("MGET a x none"), "[\"a\", \"x\", nil]");
    assert_eq!(other.run("EXISTS a x none"), ":2");
    assert_eq!(other.run("TOUCH a x none"), ":2");
    assert_eq!(other.run("MSET a 1 x 2"), "-ERR two places");
    assert_eq!(other.run("RENAME a x"), "-ERR two places");
    assert_eq!(other.run("MGET a x"), "[\"a\", \"x\"]");
    assert_eq!(other.run("DEL a none x zzz"), ":2");
    assert_eq!(other.run("UNLINK none zzz"), ":0");
    assert_eq!(client.run("DBSIZE"), ":2");
    // Commands with many keys, and errors of handlers.
    let many: Vec<String> = (0..500).map(|number| format!("k{number} v")).collect();
    assert_eq!(client.run(&format!("MSET {}", many.join(" "))), "+OK");
    assert_eq!(client.run("INCR k1"), "-ERR value is not an integer or out of range");
    assert_eq!(client.run("FLUSHALL"), "+OK");
    assert_eq!(other.run("DBSIZE"), ":0");
}
