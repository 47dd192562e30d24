//! The same writes by futures and by blocking calls, over every engine.

use std::sync::Arc;
use std::time::Duration;

use device::{Device, FaultDevice, OperationKind};
use futures::executor::block_on;
use rand::RngExt;
use thermocline::{
    Batch, Change, Db, Durability, EngineKind, Environment, Error, Expiring, ExpiringChange,
    Keyspace, KeyspaceOptions, MergeName, MergeOperators, Options, SeqNo, Swap,
};

use super::{Held, options};

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
    /// Only in keyspaces whose values may expire; so is the next one.
    PutUntil(Vec<u8>, u64),
    AppendUntil(u8, u64),
    /// If the key has the value that it had last, or one that it never has.
    Swap {
        is_expected: bool,
        new: Option<Vec<u8>>,
    },
    SwapUntil {
        is_expected: bool,
        new: Vec<u8>,
        expiry_ms: u64,
    },
    /// The key, and its neighbours.
    Batch(Vec<(u64, Option<Vec<u8>>)>),
}

/// The value that a swap has found, if it was not the expected one.
type Instead = Option<Option<Vec<u8>>>;

/// The outcome of a step: its number, and that value.
type Outcome = Result<(Option<SeqNo>, Instead), Error>;

fn of_swap(swap: Swap) -> (Option<SeqNo>, Instead) {
    match swap {
        Swap::Done { seqno } => (seqno, None),
        Swap::Refused { present } => (None, Some(present)),
    }
}

fn appended_until(old: Option<Expiring<'_>>, byte: u8, expiry_ms: u64) -> ExpiringChange {
    let Change::Put(value) = appended(old.map(|old| old.value), byte) else { unreachable!() };
    ExpiringChange::Put { value, expiry_ms: Some(expiry_ms) }
}

/// Returns the value that a swap expects: the present one, or another one.
fn expected(space: &Keyspace, key: &[u8], is_expected: bool) -> Option<Vec<u8>> {
    match is_expected {
        true => space.get(key).unwrap_or_default(),
        false => Some(b"never".to_vec()),
    }
}

fn batch_of(space: &Keyspace, key: &[u8], steps: &[(u64, Option<Vec<u8>>)]) -> Batch {
    let mut batch = Batch::new();
    for (more, value) in steps {
        let key = if *more == 0 { key.to_vec() } else { format!("{more}").into_bytes() };
        match value {
            Some(value) => batch.put(space, &key, value),
            None => batch.delete(space, &key),
        };
    }
    batch
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

fn blocking(pair: &Pair, key: &[u8], step: &Step) -> Outcome {
    let space = &pair.space;
    let seqno = match step {
        Step::Put(value) => space.put(key, value).map(Some),
        Step::Delete => space.delete(key).map(Some),
        Step::Append(byte) => space.rmw(key, |old| appended(old, *byte)),
        Step::DeleteByRmw => space.rmw(key, |_| Change::Delete),
        Step::Keep => space.rmw(key, |_| Change::Keep),
        Step::Merge(operand) => space.merge(key, operand),
        Step::PutUntil(value, expiry_ms) => space.expiring().put(key, value, *expiry_ms).map(Some),
        Step::AppendUntil(byte, expiry_ms) => {
            space.expiring().rmw(key, |old| appended_until(old, *byte, *expiry_ms))
        }
        Step::Swap { is_expected, new } => {
            let old = expected(space, key, *is_expected);
            return space.compare_and_swap(key, old.as_deref(), new.as_deref()).map(of_swap);
        }
        Step::SwapUntil { is_expected, new, expiry_ms } => {
            let old = expected(space, key, *is_expected);
            return space
                .expiring()
                .compare_and_swap(key, old.as_deref(), new, *expiry_ms)
                .map(of_swap);
        }
        Step::Batch(steps) => pair.db.write(&batch_of(space, key, steps)).map(Some),
    };
    seqno.map(|seqno| (seqno, None))
}

async fn awaited(pair: &Pair, key: &[u8], step: &Step) -> Outcome {
    let space = &pair.space;
    let seqno = match step {
        Step::Put(value) => space.futures().put(key, value).await.map(Some),
        Step::Delete => space.futures().delete(key).await.map(Some),
        Step::Append(byte) => {
            let byte = *byte;
            space.futures().rmw(key, move |old| appended(old, byte)).await
        }
        Step::DeleteByRmw => space.futures().rmw(key, |_| Change::Delete).await,
        Step::Keep => space.futures().rmw(key, |_| Change::Keep).await,
        Step::Merge(operand) => space.futures().merge(key, operand).await,
        Step::PutUntil(value, expiry_ms) => {
            space.futures().put_with_expiry(key, value, *expiry_ms).await.map(Some)
        }
        Step::AppendUntil(byte, expiry_ms) => {
            let (byte, expiry_ms) = (*byte, *expiry_ms);
            space
                .futures()
                .rmw_with_expiry(key, move |old| appended_until(old, byte, expiry_ms))
                .await
        }
        Step::Swap { is_expected, new } => {
            let old = expected(space, key, *is_expected);
            let swap = space.futures().compare_and_swap(key, old.as_deref(), new.as_deref());
            return swap.await.map(of_swap);
        }
        Step::SwapUntil { is_expected, new, expiry_ms } => {
            let old = expected(space, key, *is_expected);
            let swap =
                space.futures().compare_and_swap_with_expiry(key, old.as_deref(), new, *expiry_ms);
            return swap.await.map(of_swap);
        }
        Step::Batch(steps) => pair.db.write_async(batch_of(space, key, steps)).await.map(Some),
    };
    seqno.map(|seqno| (seqno, None))
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
            expiry_sweep_interval: Some(Duration::from_secs(3600)),
            ..options()
        };
        let db = Db::open_on(Arc::clone(&device), "memory", options).unwrap();
        let db = db.durability(durability);
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
    let ends = [1, u64::MAX / 2];
    match random.random_range(0..17) {
        0..=2 => Step::Put(vec![7; random.random_range(0..longest)]),
        3 => Step::Delete,
        4..=5 => Step::Append(random.random_range(0..255)),
        6 => Step::DeleteByRmw,
        7 => Step::Keep,
        8 => Step::PutUntil(
            vec![8; random.random_range(0..longest)],
            ends[random.random_range(0..2)],
        ),
        9 => Step::AppendUntil(
            random.random_range(0..255),
            ends[usize::from(random.random_ratio(3, 4))],
        ),
        10..=11 => {
            let new = random.random_ratio(4, 5).then(|| vec![9; random.random_range(0..longest)]);
            Step::Swap { is_expected: random.random_ratio(2, 3), new }
        }
        12 => Step::SwapUntil {
            is_expected: random.random_ratio(2, 3),
            new: vec![9; random.random_range(0..longest)],
            expiry_ms: ends[usize::from(random.random_ratio(3, 4))],
        },
        13..=14 => {
            let longest = longest / 4;
            let mut one = |at| {
                let value = random.random_ratio(3, 4);
                (at, value.then(|| vec![6; random.random_range(0..longest)]))
            };
            Step::Batch((0..5).map(|at| one(at * 7)).collect())
        }
        _ => Step::Merge([&b"+"[..], b"!", b"-", b"more"][random.random_range(0..4)].to_vec()),
    }
}

/// The outcome, up to its number.
fn kind(outcome: &Outcome) -> Result<(bool, &Instead), &Error> {
    outcome.as_ref().map(|(seqno, instead)| (seqno.is_some(), instead))
}

fn compare(seed: u64, kind_of: KeyspaceOptions, durability: Durability) {
    let place = format!("seed {seed}, {kind_of:?}, {durability:?}");
    let mut random = Environment::seeded(seed).random("async model");
    let [mut one, mut other] = [(); 2].map(|()| Pair::open(device::memory(), kind_of, durability));
    let mut newest = SeqNo::ZERO;
    // Long enough that some values need the thread, and others do not.
    let longest = if kind_of.engine == EngineKind::F2 { 8_000 } else { 90_000 };
    for at in 0..STEPS {
        let key = format!("{}", random.random_range(0..KEYS)).into_bytes();
        let key = if at == 77 { vec![b'k'; 70_000] } else { key };
        let step = drawn(&mut random, longest);
        let expected = blocking(&one, &key, &step);
        let found = block_on(awaited(&other, &key, &step));
        assert_eq!(kind(&found), kind(&expected), "{place}: {step:?} of {key:?}");
        if let Ok((Some(seqno), _)) = found {
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
    assert_eq!(block_on(other.space.futures().multi_get(&keys)).unwrap(), expected, "{place}");
}

#[test]
fn futures_come_to_what_blocking_calls_come_to() {
    let setting = std::env::var("THERMOCLINE_SEED").ok().and_then(|text| text.parse().ok());
    let seed: u64 = setting.unwrap_or(5);
    for &engine in EngineKind::ALL {
        for (journaled, expiring) in [(true, false), (false, false), (true, true)] {
            for durability in [Durability::Buffered, Durability::Flushed, Durability::Synced] {
                let merge = Some(merge_name());
                let memory_bytes = Some(16 << 20);
                let kind = KeyspaceOptions {
                    engine,
                    journaled,
                    expiring,
                    merge,
                    memory_bytes,
                    settings: None,
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
    let mut future = space.futures().multi_get(&keys);
    assert!(super::poll(&mut future).is_pending(), "some are on disk");
    drop(held);
    let values = block_on(future).unwrap();
    for (number, found) in numbers.iter().zip(&values) {
        let expected = (*number < super::KEYS).then(|| super::value(*number));
        assert_eq!(*found, expected, "{number}");
    }
    assert_eq!(block_on(space.futures().multi_get(&[])).unwrap(), Vec::<Option<Vec<u8>>>::new());
}
