//! Recorded histories of transactions that run next to other transactions and plain writers.
//!
//! The order of the numbers explains all that any of them has read.
//!
//! Every write of a history has its number, and every transaction that has written nothing has the
//! moment that it showed. Played back in that order on maps, each one must find the values that it
//! had read, key by key and range by range. So a lost update, a skewed write, a phantom, half a
//! batch or a wrong moment is found wherever it happened. A number must be above all that were
//! acknowledged before its writer began, so that the order is that of time, too.
//!
//! `THERMOCLINE_SEED` chooses the first history and `THERMOCLINE_CASES` how many.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::yield_now;

use crate::tests::ENGINES;
use environment::Random;
use rand::RngExt;
use tempfile::TempDir;
use thermocline::{
    Batch, Change, Db, Durability, EngineKind, Environment, Error, KeyRange, Keyspace,
    KeyspaceOptions, Options, Swap, Transaction,
};

const MIB: u64 = 1 << 20;
/// Keys of each keyspace: few, so that all threads conflict with each other.
const KEYS: u8 = 6;
/// Histories unless `THERMOCLINE_CASES` says otherwise.
const CASES: u64 = 3;
/// Steps of each thread in one history.
const STEPS: u64 = 1500;
const TRANSACTORS: u64 = 3;
const WRITERS: u64 = 2;

type Value = Option<Vec<u8>>;
type Pairs = Vec<(Vec<u8>, Vec<u8>)>;
type Content = BTreeMap<(usize, Vec<u8>), Vec<u8>>;

/// The reads and writes of one player at one place of the order.
#[derive(Debug, Default)]
struct Event {
    /// Its own number, or the one after which it read.
    seqno: u64,
    /// All that was acknowledged before it began.
    acknowledged: u64,
    who: String,
    keys: Vec<(usize, u8, Value)>,
    /// Ends of a range, and its pairs.
    ranges: Vec<(usize, [u8; 2], Pairs)>,
    writes: Vec<(usize, u8, Value)>,
}

impl Event {
    /// Readers of a moment come after the write that ends it.
    fn place(&self) -> (u64, bool) {
        (self.seqno, self.writes.is_empty())
    }

    fn judge(&self, content: &Content) -> Result<(), String> {
        let fits = |space: &usize, key: &u8, value: &Value| {
            content.get(&(*space, vec![*key])) == value.as_ref()
        };
        if let Some(read) = self.keys.iter().find(|(space, key, value)| !fits(space, key, value)) {
            return Err(format!("it read {read:?}"));
        }
        for (space, [low, high], pairs) in &self.ranges {
            let bounds = ((*space, vec![*low]), (*space, vec![*high]));
            let inside = content.range((Bound::Included(&bounds.0), Bound::Excluded(&bounds.1)));
            let wanted: Vec<_> =
                inside.map(|((_, key), value)| (key.clone(), value.clone())).collect();
            if wanted != *pairs {
                return Err(format!("it scanned {low} to {high} of {space}: {pairs:?}"));
            }
        }
        Ok(())
    }
}

/// Whether the order of the numbers explains everything.
fn judge(events: &mut [Event]) -> Result<(), String> {
    events.sort_by_key(Event::place);
    let mut content = Content::new();
    for (index, event) in events.iter().enumerate() {
        let told = |what| format!("event {index}, {event:?}\nbut there was {content:?}: {what}");
        if event.seqno < event.acknowledged + u64::from(!event.writes.is_empty()) {
            return Err(told("it comes before what was acknowledged".to_owned()));
        }
        event.judge(&content).map_err(told)?;
        for (space, key, value) in &event.writes {
            match value {
                Some(value) => content.insert((*space, vec![*key]), value.clone()),
                None => content.remove(&(*space, vec![*key])),
            };
        }
    }
    Ok(())
}

/// The database of one history, and one thread's part of it.
struct Player<'a> {
    db: &'a Db,
    spaces: &'a [Keyspace],
    acknowledged: &'a AtomicU64,
    random: Random,
    /// Which keys its plain writes go to: those with this remainder, by the other.
    own_keys: (u8, u8),
    /// So that every value is written once.
    values: u64,
    events: Vec<Event>,
    conflicts: u64,
}

impl Player<'_> {
    fn value(&mut self) -> Vec<u8> {
        self.values += 1;
        self.values.to_be_bytes().to_vec()
    }

    fn some(&mut self) -> (usize, u8) {
        (self.random.random_range(0..self.spaces.len()), self.random.random_range(0..KEYS))
    }

    fn begin(&self, who: &str) -> Event {
        let acknowledged = self.acknowledged.load(SeqCst);
        Event { who: who.to_owned(), acknowledged, ..Event::default() }
    }

    fn end(&mut self, event: Event) {
        self.acknowledged.fetch_max(event.seqno, SeqCst);
        self.events.push(event);
    }

    /// Reads of all kinds, then writes of all kinds.
    fn transact(&mut self) {
        let mut event = self.begin("transaction");
        let tx = self.db.begin().unwrap();
        let outcome = self.reads(&tx, &mut event);
        if self.random.random_range(0..4) > 0 {
            for _ in 0..self.random.random_range(1..3) {
                let (space, key) = self.some();
                // Once: of two, an event would hold both.
                if event.writes.iter().any(|(one, other, _)| (*one, *other) == (space, key)) {
                    continue;
                }
                let value = (self.random.random_range(0..4) > 0).then(|| self.value());
                match &value {
                    Some(value) => tx.put(&self.spaces[space], &[key], value).unwrap(),
                    None => tx.delete(&self.spaces[space], &[key]).unwrap(),
                }
                assert_eq!(tx.get(&self.spaces[space], &[key]).unwrap(), value, "its own write");
                event.writes.push((space, key, value));
            }
        }
        let moment = tx.seqno().get();
        match outcome.and_then(|()| tx.commit()) {
            Ok(seqno) => event.seqno = seqno.map_or(moment, |seqno| seqno.get()),
            Err(error) => {
                assert!(error.is_conflict(), "{error}");
                self.conflicts += 1;
                // Its reads until then were of one moment nevertheless.
                event.who = "transaction that met a conflict".to_owned();
                event.writes.clear();
                event.seqno = moment;
            }
        }
        self.end(event);
    }

    fn reads(&mut self, tx: &Transaction, event: &mut Event) -> Result<(), Error> {
        for _ in 0..self.random.random_range(0..5) {
            let (space, key) = self.some();
            if self.spaces[space].is_ordered() && self.random.random_range(0..3) == 0 {
                let (low, high) = (key, self.random.random_range(key..=KEYS));
                let scan = tx.scan(&self.spaces[space], KeyRange::of(vec![low]..vec![high]))?;
                let pairs = scan.collect::<Result<Vec<_>, _>>()?;
                event.ranges.push((space, [low, high], pairs));
            } else {
                event.keys.push((space, key, tx.get(&self.spaces[space], &[key])?));
            }
            if self.random.random_range(0..2) == 0 {
                yield_now();
            }
        }
        Ok(())
    }

    fn write(&mut self) {
        let (space, key) = self.some();
        let (remainder, by) = self.own_keys;
        let key = key - key % by + remainder;
        let value = self.value();
        let keyspace = &self.spaces[space];
        match self.random.random_range(0..7) {
            0 | 1 => {
                let mut event = self.begin("put");
                event.seqno = keyspace.put(&[key], &value).unwrap().get();
                event.writes.push((space, key, Some(value)));
                self.end(event);
            }
            2 => {
                let mut event = self.begin("delete");
                event.seqno = keyspace.delete(&[key]).unwrap().get();
                event.writes.push((space, key, None));
                self.end(event);
            }
            3 => {
                let mut event = self.begin("rmw");
                let mut saw = None;
                let seqno = keyspace.rmw(&[key], |old| {
                    saw = old.map(<[u8]>::to_vec);
                    Change::Put(value.clone())
                });
                event.seqno = seqno.unwrap().unwrap().get();
                event.keys.push((space, key, saw));
                event.writes.push((space, key, Some(value)));
                self.end(event);
            }
            4 if matches!(keyspace.options().engine, EngineKind::Memory | EngineKind::Lsm) => {
                let mut event = self.begin("range delete");
                let end = self.random.random_range(key + 1..=KEYS);
                let range = KeyRange::of(vec![key]..vec![end]);
                event.seqno = keyspace.delete_range(&range).unwrap().get();
                event.writes.extend((key..end).map(|key| (space, key, None)));
                self.end(event);
            }
            4 | 5 => {
                let mut event = self.begin("compare and swap");
                let expected = keyspace.get(&[key]).unwrap();
                let swap = keyspace.compare_and_swap(&[key], expected.as_deref(), Some(&value));
                if let Swap::Done { seqno } = swap.unwrap() {
                    event.seqno = seqno.unwrap().get();
                    event.keys.push((space, key, expected));
                    event.writes.push((space, key, Some(value)));
                    self.end(event);
                }
            }
            _ => {
                let mut event = self.begin("batch");
                let mut batch = Batch::new();
                for space in 0..self.spaces.len() {
                    batch.put(&self.spaces[space], &[key], &value);
                    event.writes.push((space, key, Some(value.clone())));
                }
                event.seqno = self.db.write(&batch).unwrap().get();
                self.end(event);
            }
        }
    }
}

/// The players, and the keyspaces that they use.
struct Cast<'a> {
    engines: &'a [EngineKind],
    journaled: bool,
    transactors: u64,
    writers: u64,
}

/// One history; and how many transactions met a conflict.
fn play(cast: &Cast<'_>, seed: u64) -> (Vec<Event>, u64) {
    let Cast { engines, journaled, transactors, writers } = *cast;
    let dir = TempDir::new().unwrap();
    let durability = Durability::Buffered;
    let options = Options { memory_bytes: 64 * MIB, durability, ..Options::default() };
    let db = Db::open(dir.path(), options).unwrap();
    let spaces: Vec<_> = engines
        .iter()
        .map(|engine| {
            let memory_bytes = Some(8 * MIB);
            let options =
                KeyspaceOptions { engine: *engine, journaled, memory_bytes, ..Default::default() };
            db.keyspace(engine.name(), options).unwrap()
        })
        .collect();
    let (acknowledged, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let player = |who: u64| Player {
        db: &db,
        spaces: &spaces,
        acknowledged: &acknowledged,
        random: Environment::seeded(seed).random(&format!("player {who}")),
        // If an engine orders the writes of a key, its order is that of the numbers only if no two
        // of them share the key's lock.
        own_keys: match journaled {
            true => (0, 1),
            false => ((who % writers.max(1)) as u8, writers.max(1) as u8),
        },
        values: who << 32,
        events: Vec::new(),
        conflicts: 0,
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..transactors + writers)
            .map(|who| {
                let mut player = player(who);
                scope.spawn(move || {
                    for _ in 0..STEPS {
                        if who < transactors { player.transact() } else { player.write() }
                    }
                    (player.events, player.conflicts)
                })
            })
            .collect();
        scope.spawn(|| {
            while !is_over.load(SeqCst) {
                spaces.iter().for_each(|space| space.flush().unwrap());
                yield_now();
            }
        });
        let (mut events, mut conflicts) = (Vec::new(), 0);
        for thread in threads {
            let (more, met) = thread.join().unwrap();
            events.extend(more);
            conflicts += met;
        }
        is_over.store(true, SeqCst);
        (events, conflicts)
    })
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

fn histories_are_serializable(test: &str, cast: &Cast<'_>) {
    let first = setting("THERMOCLINE_SEED").unwrap_or(1);
    let cases = setting("THERMOCLINE_CASES").unwrap_or(CASES);
    let (mut all, mut all_conflicts) = (0, 0);
    for seed in first..first + cases {
        let (mut events, conflicts) = play(cast, seed);
        all += events.len();
        all_conflicts += conflicts;
        if let Err(what) = judge(&mut events) {
            panic!(
                "seed {seed}: {what}\nreplay: THERMOCLINE_SEED={seed} THERMOCLINE_CASES=1 \
                 cargo test -p thermocline --lib serializability::{test}"
            );
        }
    }
    println!("{all} events, {all_conflicts} conflicts");
    assert!(all_conflicts > 0, "nobody was in anybody's way");
}

#[test]
fn transactions_beside_each_other() {
    let cast = Cast { engines: ENGINES, journaled: true, transactors: TRANSACTORS, writers: 0 };
    histories_are_serializable("transactions_beside_each_other", &cast);
}

#[test]
fn transactions_beside_plain_writers() {
    let cast =
        Cast { engines: ENGINES, journaled: true, transactors: TRANSACTORS, writers: WRITERS };
    histories_are_serializable("transactions_beside_plain_writers", &cast);
}

#[test]
fn transactions_in_memory() {
    let engines = &[EngineKind::Memory];
    let cast = Cast { engines, journaled: true, transactors: TRANSACTORS, writers: WRITERS };
    histories_are_serializable("transactions_in_memory", &cast);
}

#[test]
fn transactions_over_f2() {
    let engines = &[EngineKind::F2];
    let cast = Cast { engines, journaled: true, transactors: TRANSACTORS, writers: WRITERS };
    histories_are_serializable("transactions_over_f2", &cast);
}

#[test]
fn transactions_over_what_no_journal_holds() {
    for &engine in ENGINES {
        let engines = &[engine];
        let cast = Cast { engines, journaled: false, transactors: TRANSACTORS, writers: WRITERS };
        histories_are_serializable("transactions_over_what_no_journal_holds", &cast);
    }
}

/// The judge finds each kind of broken history.
#[test]
fn broken_histories_are_found() {
    let value = |byte: u8| Some(vec![byte]);
    let put =
        |seqno, key, byte| Event { seqno, writes: vec![(0, key, value(byte))], ..Event::default() };
    let history = |last: Event| judge(&mut [put(1, 1, 1), put(2, 2, 2), put(4, 2, 4), last]);
    let reads = |keys: Vec<(usize, u8, Value)>| Event { seqno: 3, keys, ..Event::default() };
    assert_eq!(history(reads(vec![(0, 1, value(1)), (0, 2, value(2)), (0, 3, None)])), Ok(()));
    assert!(history(reads(vec![(0, 2, value(4))])).is_err(), "a later value");
    assert!(history(reads(vec![(0, 2, None)])).is_err(), "an earlier value");
    let lost_update = Event { seqno: 5, keys: vec![(0, 2, value(2))], ..put(5, 2, 5) };
    assert!(history(lost_update).is_err(), "a lost update");
    let scan = |pairs: &[u8]| {
        let pairs = pairs.iter().map(|byte| (vec![*byte], vec![*byte])).collect();
        history(Event { seqno: 3, ranges: vec![(0, [0, 9], pairs)], ..Event::default() })
    };
    assert_eq!(scan(&[1, 2]), Ok(()));
    assert!(scan(&[1]).is_err(), "a phantom");
    let late = Event { acknowledged: 4, ..reads(vec![(0, 1, value(1))]) };
    assert!(history(late).is_err(), "it does not show what was acknowledged");
}

/// Without a journal the engine orders the writes of a key itself, by no number: so sums are
/// compared.
#[test]
fn unjournaled_counters_lose_nothing_beside_transactions() {
    const KEYS: [&[u8]; 3] = [b"a", b"b", b"c"];
    let count = |value: &Value| {
        value.as_deref().map_or(0, |bytes| u64::from_be_bytes(bytes.try_into().unwrap()))
    };
    for &engine in ENGINES {
        let dir = TempDir::new().unwrap();
        let options = Options { memory_bytes: 64 * MIB, ..Options::default() };
        let db = Db::open(dir.path(), options).unwrap();
        let options = KeyspaceOptions {
            engine,
            journaled: false,
            memory_bytes: Some(8 * MIB),
            ..Default::default()
        };
        let space = db.keyspace("n", options).unwrap();
        let moved = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for key in &KEYS[..2] {
                let space = &space;
                scope.spawn(move || {
                    for _ in 0..2000 {
                        let add = |old: Option<&[u8]>| {
                            let old = count(&old.map(<[u8]>::to_vec));
                            Change::Put((old + 1).to_be_bytes().to_vec())
                        };
                        space.rmw(key, add).unwrap();
                    }
                });
            }
            // All that has been counted is moved to one key, again and again.
            for _ in 0..2 {
                let (db, space, moved) = (&db, &space, &moved);
                scope.spawn(move || {
                    for _ in 0..1000 {
                        let outcome = db.transaction(|tx| {
                            let sum = KEYS.iter().map(|key| tx.get(space, key));
                            let sum: u64 =
                                sum.collect::<Result<Vec<_>, _>>()?.iter().map(count).sum();
                            for key in KEYS {
                                let value = if key == b"c" { sum } else { 0 };
                                tx.put(space, key, &value.to_be_bytes())?;
                            }
                            Ok(())
                        });
                        match outcome {
                            Ok(()) => moved.fetch_add(1, SeqCst),
                            Err(error) if error.is_conflict() => 0,
                            Err(error) => panic!("{error}"),
                        };
                    }
                });
            }
        });
        let sum: u64 = KEYS.iter().map(|key| count(&space.get(key).unwrap())).sum();
        println!("{engine}: {} of 2000 moves came through", moved.load(SeqCst));
        assert_eq!(sum, 4000, "{engine}");
        assert!(moved.load(SeqCst) > 0);
    }
}
