//! Reads of the present and of views.

use std::sync::Arc;

use engine::{Direction, Error, KeyRange};
use reads::BlockingReads;

use super::{Held, Session, Walking};
use crate::sequential::compare::{collect, compare_pairs, describe};
use crate::text::Quoted;

fn failed(what: &str) -> impl Fn(Error) -> String + '_ {
    move |error| format!("{what} failed: {error}")
}

/// The content of a reused buffer before a read: an engine must replace it, also with nothing.
const LEFTOVER: &[u8] = b"left over";

impl Session<'_> {
    pub(super) fn get(&mut self, key: &[u8]) -> Result<(), String> {
        let mut value = LEFTOVER.to_vec();
        let found = self.opened.engine.get(key, &mut value).map_err(failed("get"))?;
        let seen = found.then_some(value.as_slice());
        self.trace.note(seen.unwrap_or(b"-"));
        let expected = self.model.get(key);
        if seen == expected {
            return Ok(());
        }
        let (seen, expected) = (describe(seen), describe(expected));
        Err(format!("get {} gave {seen}, expected {expected}", Quoted(key)))
    }

    pub(super) fn multi_get(&mut self, keys: &[Vec<u8>]) -> Result<(), String> {
        let wanted: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let mut seen: Vec<Option<Option<Vec<u8>>>> = vec![None; keys.len()];
        let mut odd = None;
        self.opened
            .engine
            .multi_get(&wanted, &mut |index, value| match seen.get_mut(index) {
                Some(slot @ None) => *slot = Some(value.map(<[u8]>::to_vec)),
                _ => odd = Some(index),
            })
            .map_err(failed("multi_get"))?;
        if let Some(index) = odd {
            return Err(format!("multi_get answered index {index} twice, or was never asked it"));
        }
        for (key, seen) in keys.iter().zip(&seen) {
            let expected = self.model.get(key);
            if seen.as_ref().map(Option::as_deref) != Some(expected) {
                let (key, expected) = (Quoted(key), describe(expected));
                return Err(format!("multi_get {key} gave {seen:?}, expected {expected}"));
            }
        }
        Ok(())
    }

    pub(super) fn scan(&mut self, range: &KeyRange, direction: Direction) -> Result<(), String> {
        let held = Held { pin: self.opened.sequence.pin(), upto: self.model.last() };
        self.scan_held(&held, range, direction)
    }

    fn scan_held(
        &mut self,
        held: &Held,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<(), String> {
        let scanned = self.opened.engine.scan(range.clone(), direction, Arc::clone(&held.pin));
        let mut cursor = scanned.map_err(failed("a scan"))?;
        let seen = collect(cursor.as_mut(), usize::MAX).map_err(failed("a scan"))?;
        for (key, value) in &seen {
            self.trace.note(key);
            self.trace.note(value);
        }
        compare_pairs(&seen, &self.model.scan_at(range, direction, held.upto))?;
        match cursor.next() {
            Ok(None) => Ok(()),
            other => Err(format!("a scan that had ended went on with {other:?}")),
        }
    }

    /// Puts a view into a slot.
    pub(super) fn pin(&mut self, slot: usize) -> Result<(), String> {
        let (pin, upto) = (self.opened.sequence.pin(), self.model.last());
        if self.views.len() <= slot {
            self.views.resize_with(slot + 1, || None);
        }
        self.views[slot] = Some(Held { pin, upto });
        Ok(())
    }

    pub(super) fn view_get(&mut self, slot: usize, key: &[u8]) -> Result<(), String> {
        let Some(Some(held)) = self.views.get(slot) else { return Ok(()) };
        let mut value = LEFTOVER.to_vec();
        let found = self.opened.engine.get_at(key, &held.pin, &mut value);
        let found = found.map_err(failed("a get at a pin"))?;
        let seen = found.then_some(value.as_slice());
        let expected = self.model.get_at(key, held.upto);
        if seen == expected {
            return Ok(());
        }
        let (seen, expected) = (describe(seen), describe(expected));
        let upto = held.upto;
        Err(format!("the view of write {upto} has {} = {seen}, expected {expected}", Quoted(key)))
    }

    pub(super) fn view_scan(
        &mut self,
        slot: usize,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<(), String> {
        let Some(held) = self.views.get_mut(slot).and_then(Option::take) else { return Ok(()) };
        let scanned = self.scan_held(&held, range, direction);
        self.views[slot] = Some(held);
        scanned
    }

    pub(super) fn open_cursor(
        &mut self,
        slot: usize,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<(), String> {
        let pin = self.opened.sequence.pin();
        let cursor = self.opened.engine.scan(range.clone(), direction, pin);
        let cursor = cursor.map_err(failed("a scan"))?;
        let expected = self.model.scan_at(range, direction, self.model.last()).into_iter();
        if self.cursors.len() <= slot {
            self.cursors.resize_with(slot + 1, || None);
        }
        self.cursors[slot] = Some(Walking { cursor, expected });
        Ok(())
    }

    /// Continues with a cursor whose view is dropped: the cursor alone must keep its moment.
    pub(super) fn advance(&mut self, slot: usize, pairs: usize) -> Result<(), String> {
        let Some(Some(walking)) = self.cursors.get_mut(slot) else { return Ok(()) };
        let seen = collect(walking.cursor.as_mut(), pairs).map_err(failed("a scan"))?;
        let expected: Vec<_> = walking.expected.by_ref().take(pairs).collect();
        compare_pairs(&seen, &expected).map_err(|what| format!("a scan gone on with: {what}"))
    }
}
