//! Judges every result of a store, and counts.

use std::sync::Arc;

use crate::shape::{Keys, hash};
use crate::stores::Pairs;
use crate::value::{Before, Fault, Versions, verify};

/// Faults whose description is kept.
const DESCRIBED_MAX: usize = 8;

/// A thread's judgement of the results it got.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    /// Values that were checked.
    pub(crate) verified: u64,
    /// Results that were wrong.
    pub(crate) wrong: u64,
    /// Point reads that found nothing, rightly.
    pub(crate) misses: u64,
    /// The first few faults, in words.
    pub(crate) faults: Vec<String>,
}

impl Verdict {
    pub(crate) fn merge(&mut self, other: Self) {
        self.verified += other.verified;
        self.wrong += other.wrong;
        self.misses += other.misses;
        let room = DESCRIBED_MAX.saturating_sub(self.faults.len());
        self.faults.extend(other.faults.into_iter().take(room));
    }

    fn judge(&mut self, number: Option<u64>, result: Result<(), Fault>) {
        self.verified += 1;
        let Err(fault) = result else {
            return;
        };
        self.wrong += 1;
        if self.faults.len() < DESCRIBED_MAX {
            self.faults.push(match number {
                Some(number) => format!("key {number}: {fault}"),
                None => fault.to_string(),
            });
        }
    }
}

/// One thread's judge.
#[derive(Debug)]
pub(crate) struct Verifier {
    keys: Keys,
    versions: Arc<Versions>,
    /// No other thread writes: the results of a scan can be held to every key's floor.
    alone: bool,
    /// Keys that were loaded and, unless deleted, are there.
    loaded: u64,
    key: Vec<u8>,
    pub(crate) verdict: Verdict,
}

impl Verifier {
    pub(crate) fn new(keys: Keys, versions: Arc<Versions>, alone: bool, loaded: u64) -> Self {
        Self { keys, versions, alone, loaded, key: Vec::new(), verdict: Verdict::default() }
    }

    /// Judges a point read of key `number`, whose bytes hash to `key_hash`.
    pub(crate) fn read(
        &mut self,
        number: u64,
        key_hash: u64,
        before: Before,
        value: Option<&[u8]>,
    ) {
        let result = match value {
            Some(value) => verify(key_hash, value)
                .and_then(|version| self.versions.check(number, before, Some(version))),
            None => self.versions.check(number, before, None),
        };
        self.verdict.misses += u64::from(value.is_none() && result.is_ok());
        self.verdict.judge(Some(number), result);
    }

    /// Judges a scan of up to `limit` pairs from key `number`; `before` is of that first key.
    pub(crate) fn scan(&mut self, number: u64, limit: usize, before: Before, pairs: &Pairs) {
        let mut previous: Option<(&[u8], u64)> = None;
        self.keys.write(number, &mut self.key);
        let from = self.key.clone();
        let mut seen_first = false;
        for (key, value) in pairs.iter() {
            let Some(found) = self.keys.number(key, &mut self.key) else {
                self.verdict.judge(None, Err(Fault::StrangeKey));
                continue;
            };
            seen_first |= found == number;
            let result = self.scanned(found, key, value);
            self.verdict.judge(Some(found), result);
            let in_order = match previous {
                Some((last, _)) => last < key,
                None => *from <= *key,
            };
            if !in_order {
                self.verdict.judge(Some(found), Err(Fault::Disorder));
            } else if self.skipped(previous.map_or(number, |(_, n)| n + 1), found) {
                self.verdict.judge(Some(found), Err(Fault::Skipped));
            }
            previous = Some((key, found));
        }
        if !seen_first && limit > 0 {
            let absent = self.versions.check(number, before, None);
            self.verdict.judge(Some(number), absent.map_err(|_| Fault::Skipped));
        }
        let wanted = number.saturating_add(limit as u64).min(self.loaded);
        let next = previous.map_or(number, |(_, n)| n + 1);
        if self.keys.in_order() && pairs.len() < limit && next < wanted {
            self.verdict.judge(Some(next), Err(Fault::Skipped));
        }
    }

    fn scanned(&self, number: u64, key: &[u8], value: &[u8]) -> Result<(), Fault> {
        let version = verify(hash(key), value)?;
        // With other writers about, the key may have been overwritten after the scan passed it.
        let before = if self.alone { self.versions.before(number) } else { Versions::anytime() };
        self.versions.check(number, before, Some(version))
    }

    /// Returns whether loaded keys are between the two; only keys in order show it.
    fn skipped(&self, expected: u64, found: u64) -> bool {
        self.keys.in_order() && expected < found.min(self.loaded)
    }
}
