//! The same writes by futures and by blocking calls, over every engine.

use std::sync::Arc;
use std::time::Duration;

use device::{Device, FaultDevice, OperationKind};
use futures::executor::block_on;
use rand::RngExt;
use thermocline::{
    Change, Db, Durability, EngineKind, Environment, Error, Keyspace, KeyspaceOptions, MergeName,
    MergeOperators, Options, SeqNo,
};

use super::{ENGINES, Held, options};

const KEYS: u64 = 40;
const STEPS: usize = 400;

#[derive(Clone, Debug)]
enum Step {
    Put(Vec<u8>),
    Delete,
    Append(u8),
    DeleteByRmw,
    Keep,
    Merge(Vec<u8>),
}

fn merge_name() -> MergeName {
    "append".parse().unwrap()
}

/// Appends; an operand that begins with `!` is refused, `-` deletes.
fn operators() -> MergeOperators {
    MergeOperators::new().with(merge_name(), |_, value, operand| match operand {
        [b'!', ..] => Err("not this one".to_owned()),
        [b'-', ..] => Ok(Change::Delete),
        _ => Ok(Change::Put([value.unwrap_or_default(), operand].concat())),
    })
}

fn appended(old: Option<&[u8]>, byte: u8) -> Change {
    let mut value = old.unwrap_or_default().to_vec();
    value.truncate(3000);
    value.push(byte);
    Change::Put(value)
}

fn blocking(space: &Keyspace, key: &[u8], step: &Step) -> Result<Option<SeqNo>, Error> {
    match step {
        Step::Put(value) => space.put(key, value).map(Some),
        Step::Delete => space.delete(key).map(Some),
        Step::Append(byte) => space.rmw(key, |old| appended(old, *byte)),
        Step::DeleteByRmw => space.rmw(key, |_| Change::Delete),
        Step::Keep => space.rmw(key, |_| Change::Keep),
        Step::Merge(operand) => space.merge(key, operand),
    }
}

async fn awaited(space: &Keyspace, key: &[u8], step: &Step) -> Result<Option<SeqNo>, Error> {
    match step {
        Step::Put(value) => space.put_async(key, value).await.map(Some),
        Step::Delete => space.delete_async(key).await.map(Some),
        Step::Append(byte) => {
            let byte = *byte;
            space.rmw_async(key, move |old| appended(old, byte)).await
        }
        Step::DeleteByRmw => space.rmw_async(key, |_| Change::Delete).await,
        Step::Keep => space.rmw_async(key, |_| Change::Keep).await,
        Step::Merge(operand) => space.merge_async(key, operand).await,
    }
}

struct Pair {
    device: Arc<dyn Device>,
    db: Db,
    space: Keyspace,
}

impl Pair {
    fn open(device: Arc<dyn Device>, kind: KeyspaceOptions, durability: Durability) -> Self {
        let options = Options {
            merge_operators: operators(),
            removal_interval: Some(Duration::from_secs(3600)),
            ..options()
        };
        let db = Db::open_on(Arc::clone(&device), "memory", options).unwrap();
        let space = db.keyspace("s", kind).unwrap().durability(durability);
        Self { device, db, space }
    }

    fn reopened(self, kind: KeyspaceOptions, durability: Durability) -> Self {
        self.db.close().unwrap();
        let device = Arc::clone(&self.device);
        drop(self);
        Self::open(device, kind, durability)
    }
}

fn drawn(random: &mut environment::Random, longest: usize) -> Step {
    match random.random_range(0..10) {
        0..=2 => Step::Put(vec![7; random.random_range(0..longest)]),
        3 => Step::Delete,
        4..=5 => Step::Append(random.random_range(0..255)),
        6 => Step::DeleteByRmw,
        7 => Step::Keep,
        _ => Step::Merge([&b"+"[..], b"!", b"-", b"more"][random.random_range(0..4)].to_vec()),
    }
}

/// The outcome, up to its number.
fn kind(outcome: &Result<Option<SeqNo>, Error>) -> Result<bool, &Error> {
    outcome.as_ref().map(Option::is_some)
}

fn compare(seed: u64, kind_of: KeyspaceOptions, durability: Durability) {
    let place = format!("seed {seed}, {kind_of:?}, {durability:?}");
    let mut random = Environment::seeded(seed).random("async model");
    let [mut one, mut other] = [(); 2].map(|()| Pair::open(device::memory(), kind_of, durability));
    let mut newest = SeqNo::ZERO;
    // Beyond what is written without the thread, and within.
    let longest = if kind_of.engine == EngineKind::F2 { 8_000 } else { 90_000 };
    for at in 0..STEPS {
        let key = format!("{}", random.random_range(0..KEYS)).into_bytes();
        let key = if at == 77 { vec![b'k'; 70_000] } else { key };
        let step = drawn(&mut random, longest);
        let expected = blocking(&one.space, &key, &step);
        let found = block_on(awaited(&other.space, &key, &step));
        assert_eq!(kind(&found), kind(&expected), "{place}: {step:?} of {key:?}");
        if let Ok(Some(seqno)) = found {
            assert!(seqno > newest, "{place}: {seqno} after {newest}");
            newest = seqno;
        }
        if at % 150 == 149 {
            one.space.flush().unwrap();
            other.space.flush().unwrap();
            one = one.reopened(kind_of, durability);
            other = other.reopened(kind_of, durability);
            newest = SeqNo::ZERO;
        }
    }
    let keys: Vec<Vec<u8>> = (0..KEYS + 5).map(|key| format!("{key}").into_bytes()).collect();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let expected = one.space.multi_get(&keys).unwrap();
    assert!(expected.iter().flatten().count() > 5, "{place}: there is something to compare");
    assert_eq!(other.space.multi_get(&keys).unwrap(), expected, "{place}");
    assert_eq!(block_on(other.space.multi_get_async(&keys)).unwrap(), expected, "{place}");
}

#[test]
fn futures_come_to_what_blocking_calls_come_to() {
    let setting = std::env::var("THERMOCLINE_SEED").ok().and_then(|text| text.parse().ok());
    let seed: u64 = setting.unwrap_or(5);
    for engine in ENGINES {
        for (journaled, values_end) in [(true, false), (false, false), (true, true)] {
            for durability in [Durability::Buffered, Durability::Flushed, Durability::Synced] {
                let merge = Some(merge_name());
                let memory_bytes = Some(16 << 20);
                let kind = KeyspaceOptions {
                    engine,
                    journaled,
                    values_end,
                    merge,
                    memory_bytes,
                    tuning: None,
                };
                compare(seed, kind, durability);
            }
        }
    }
}

#[test]
fn many_gets_are_one_future() {
    let device = FaultDevice::new(device::memory());
    let (_db, space) = super::filled(&(Arc::clone(&device) as Arc<dyn Device>), false);
    let numbers: Vec<u64> = (0..super::KEYS + 50).step_by(7).collect();
    let keys: Vec<Vec<u8>> = numbers.iter().map(|number| super::key(*number)).collect();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let held = Held::new(&device, OperationKind::Read);
    let mut future = space.multi_get_async(&keys);
    assert!(super::poll(&mut future).is_pending(), "some are on disk");
    drop(held);
    let values = block_on(future).unwrap();
    for (number, found) in numbers.iter().zip(&values) {
        let expected = (*number < super::KEYS).then(|| super::value(*number));
        assert_eq!(*found, expected, "{number}");
    }
    assert_eq!(block_on(space.multi_get_async(&[])).unwrap(), Vec::<Option<Vec<u8>>>::new());
}
