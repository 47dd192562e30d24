//! Comparing an engine's whole state with the model's.

use std::ops::ControlFlow;
use std::sync::Arc;

use engine::{Cursor, Direction, Engine, Error, KeyRange, Sequence, TryNext};
use reads::BlockingReads;

use crate::model::{Model, Pair};
use crate::text::Quoted;

/// Seeks that a comparison makes in each direction, at most, and pairs from one to the next.
const SEEKS: usize = 16;
const SEEK_STRIDE: usize = 37;

/// Returns a value or its absence, short enough for a message.
pub(crate) fn describe(value: Option<&[u8]>) -> String {
    match value {
        Some(value) => Quoted(value).to_string(),
        None => "nothing".to_owned(),
    }
}

/// Reads a cursor to its end, or `limit` pairs.
///
/// # Panics
/// If the cursor continues after an error, which a check reports.
pub(crate) fn collect(cursor: &mut dyn Cursor, limit: usize) -> Result<Vec<Pair>, Error> {
    let mut pairs = Vec::new();
    while pairs.len() < limit {
        // Every other pair without a wait, if memory knows it.
        if pairs.len() % 2 == 1 {
            match cursor.try_next() {
                Ok(TryNext::Pair(key, value)) => {
                    pairs.push((key.to_vec(), value.to_vec()));
                    continue;
                }
                Ok(TryNext::End) => {
                    let after = cursor.next();
                    assert!(matches!(after, Ok(None)), "after its end the scan goes on: {after:?}");
                    break;
                }
                Err(error) => {
                    let after = cursor.next();
                    assert!(matches!(after, Ok(None)), "after {error} the scan goes on: {after:?}");
                    return Err(error);
                }
                Ok(TryNext::WouldBlock) => {}
            }
        }
        match cursor.next() {
            Ok(Some((key, value))) => pairs.push((key.to_vec(), value.to_vec())),
            Ok(None) => break,
            Err(error) => {
                let after = cursor.next();
                assert!(matches!(after, Ok(None)), "after {error} the scan goes on: {after:?}");
                return Err(error);
            }
        }
    }
    Ok(pairs)
}

/// Returns the first difference between the pairs of a scan and the expected ones.
pub(crate) fn compare_pairs(seen: &[Pair], expected: &[Pair]) -> Result<(), String> {
    let at = seen.iter().zip(expected).take_while(|(seen, expected)| seen == expected).count();
    let pair = |pair: Option<&Pair>| match pair {
        Some((key, value)) => format!("{} = {}", Quoted(key), Quoted(value)),
        None => "the end".to_owned(),
    };
    match (seen.get(at), expected.get(at)) {
        (None, None) => Ok(()),
        (seen, expected) => {
            Err(format!("pair {at} of the scan is {}, expected {}", pair(seen), pair(expected)))
        }
    }
}

/// Walks over everything, in pieces of `piece` pairs, each begun at the last key of the one before.
pub(crate) fn walk(engine: &dyn Engine, piece: usize) -> Result<Vec<Pair>, Error> {
    let mut pairs: Vec<Pair> = Vec::new();
    loop {
        let from = pairs.pop().map(|(key, _)| key);
        let mut left = piece;
        engine.walk(from.as_deref(), &mut |key, value| {
            pairs.push((key.to_vec(), value.to_vec()));
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if left > 0 {
            return Ok(pairs);
        }
    }
}

/// Compares every key by `get`, everything by walks, whole and in pieces, and by a scan each way
/// where there is order, with the model right after write `upto`.
pub(crate) fn compare_everything(
    engine: &dyn Engine,
    sequence: &Arc<Sequence>,
    model: &Model,
    upto: u64,
) -> Result<(), String> {
    let failed = |what: &str, error: Error| format!("{what} failed: {error}");
    let mut value = Vec::new();
    for key in model.keys() {
        let found = engine.get(key, &mut value).map_err(|error| failed("get", error))?;
        let seen = found.then_some(value.as_slice());
        let expected = model.get_at(key, upto);
        if seen != expected {
            let (seen, expected) = (describe(seen), describe(expected));
            return Err(format!("get {} gave {seen}, expected {expected}", Quoted(key)));
        }
    }
    let everything = model.scan_at(&KeyRange::all(), Direction::Forward, upto);
    for piece in [usize::MAX, 3] {
        let mut pairs = walk(engine, piece).map_err(|error| failed("a walk", error))?;
        if !engine.capabilities().ordered {
            pairs.sort_unstable();
        }
        compare_pairs(&pairs, &everything)
            .map_err(|what| format!("a walk in pieces of {piece}: {what}"))?;
    }
    if !engine.capabilities().ordered {
        return Ok(());
    }
    let pin = sequence.pin();
    for direction in [Direction::Forward, Direction::Backward] {
        let cursor = engine.scan(KeyRange::all(), direction, Arc::clone(&pin));
        let mut cursor = cursor.map_err(|error| failed("a scan", error))?;
        let pairs = collect(cursor.as_mut(), usize::MAX);
        let pairs = pairs.map_err(|error| failed("a scan", error))?;
        let expected = model.scan_at(&KeyRange::all(), direction, upto);
        compare_pairs(&pairs, &expected)
            .map_err(|what| format!("{direction:?} scan of everything: {what}"))?;
        check_seeks(cursor.as_mut(), &expected)
            .map_err(|error| failed("a scan after a seek", error))?
            .map_err(|what| format!("{direction:?} scan after a seek: {what}"))?;
    }
    Ok(())
}

/// Moves a cursor, which has reached the end of `pairs`, forth and back over all of them: to keys
/// that are there, and to the end again.
fn check_seeks(cursor: &mut dyn Cursor, pairs: &[Pair]) -> Result<Result<(), String>, Error> {
    for seek in 0..SEEKS.min(pairs.len()) {
        let at = seek * SEEK_STRIDE % pairs.len();
        let (Some((key, _)), Some(rest)) = (pairs.get(at), pairs.get(at..)) else { break };
        cursor.seek(key);
        let count = 1 + seek % 3;
        let seen = collect(cursor, count)?;
        let expected = &rest[..count.min(rest.len())];
        if let Err(what) = compare_pairs(&seen, expected) {
            return Ok(Err(format!("to {}: {what}", Quoted(key))));
        }
    }
    Ok(Ok(()))
}
