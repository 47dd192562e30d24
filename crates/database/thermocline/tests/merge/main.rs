//! Merges by a named operator: against a model, by many threads at the same time, refused, and
//! after power cuts.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod counted;
mod crashes;
mod model;
mod names;
mod refusals;
mod threads;

use std::sync::Arc;

use device::Device;
use thermocline::{
    Change, Db, Durability, EngineKind, Environment, Keyspace, KeyspaceOptions, MergeName,
    MergeOperators, Options,
};

/// Bytes of a value that does not grow further.
const BYTES_MAX: usize = 2000;

/// By the operand's first byte: `+` appends the rest, `-` deletes, `=` keeps the value, `!` is
/// refused.
fn edited(value: Option<&[u8]>, operand: &[u8]) -> Result<Change, String> {
    match operand {
        [b'+', rest @ ..] => {
            let value = value.filter(|value| value.len() < BYTES_MAX).unwrap_or_default();
            Ok(Change::Put([value, rest].concat()))
        }
        [b'-', ..] => Ok(Change::Delete),
        [b'=', ..] => Ok(Change::Keep),
        _ => Err("no operand of mine".to_owned()),
    }
}

fn name(name: &str) -> MergeName {
    name.parse().unwrap()
}

/// `edit`, and `add` of numbers of eight bytes.
fn operators() -> MergeOperators {
    let number = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).map_err(|_| "no number");
    MergeOperators::new().with(name("edit"), |_, value, operand| edited(value, operand)).with(
        name("add"),
        move |_, value, operand| {
            let sum = value.map_or(Ok(0), number)? + number(operand)?;
            Ok(Change::Put(sum.to_le_bytes().to_vec()))
        },
    )
}

fn options(environment: Environment, merge_operators: MergeOperators) -> Options {
    Options {
        environment,
        merge_operators,
        memory_bytes: 96 << 20,
        sync_interval: None,
        expiry_sweep_interval: None,
        background_threads: 1,
        durability: Durability::Buffered,
        ..Options::default()
    }
}

fn open(device: &Arc<dyn Device>, merge_operators: MergeOperators) -> Db {
    Db::open_on(Arc::clone(device), "merges", options(Environment::real(), merge_operators))
        .unwrap()
}

/// Every engine, with a journal and without.
fn kinds() -> impl Iterator<Item = (EngineKind, bool)> {
    let engines = EngineKind::ALL.iter().copied();
    engines.flat_map(|engine| [(engine, true), (engine, false)])
}

fn merged_by(operator: &str, engine: EngineKind, journaled: bool) -> KeyspaceOptions {
    KeyspaceOptions {
        engine,
        journaled,
        merge: Some(name(operator)),
        memory_bytes: (engine != EngineKind::Memory).then_some(4 << 20),
        ..KeyspaceOptions::default()
    }
}

fn number(space: &Keyspace, key: &[u8]) -> u64 {
    let value = space.get(key).unwrap();
    value.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()))
}
