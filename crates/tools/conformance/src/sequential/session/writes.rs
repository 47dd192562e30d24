//! Writes, and the refusals of writes that no engine takes.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use engine::{
    Change, Demand, Direction, Engine, Error, KEY_BYTES_MAX, KeyRange, Op, Operator, Reservation,
    Wait,
};
use reads::BlockingReads;

use super::Session;
use crate::model::Pair;
use crate::operation::{Step, Tweak, tweaked};
use crate::sequential::describe;
use crate::text::Quoted;

/// A tweak as engines call it, which remembers the value that it was shown last.
pub(crate) struct Tweaking<'a> {
    pub(crate) tweak: &'a Tweak,
    pub(crate) seen: Option<Option<Vec<u8>>>,
}

impl Operator for Tweaking<'_> {
    fn update_in_place(&mut self, value: &mut [u8]) -> bool {
        if *self.tweak != Tweak::Invert {
            return false;
        }
        self.seen = Some(Some(value.to_vec()));
        value.iter_mut().for_each(|byte| *byte = !*byte);
        true
    }

    fn update(&mut self, value: Option<&[u8]>) -> Change {
        self.seen = Some(value.map(<[u8]>::to_vec));
        match tweaked(self.tweak, value) {
            Some(Some(value)) => Change::Put(value),
            Some(None) => Change::Delete,
            None => Change::Keep,
        }
    }
}

impl Session<'_> {
    /// Notes a write as journaled and applied.
    fn record(&mut self, seqno: u64, steps: Vec<Step>) {
        self.model.apply(&steps, seqno);
        self.journal.push((seqno, steps));
        self.mark.last.store(seqno, SeqCst);
        self.applied = seqno;
    }

    /// Reserves room for a write. Fails if the engine grants room to a caller that does not wait,
    /// and refuses the same write to one that may. Every other write uses the room that was granted
    /// without a wait.
    fn reserved<'e>(
        &self,
        engine: &'e dyn Engine,
        ops: &[Op<'_>],
    ) -> Result<engine::Result<Reservation<'e>>, String> {
        let demand = Demand::Ops(ops);
        let at_first = engine.reserve(&demand, Wait::No);
        if self.applied.is_multiple_of(2)
            && let Ok(Some(room)) = at_first
        {
            return Ok(Ok(room));
        }
        let at_first = at_first.map(|room| room.is_some());
        let granted = engine.reserve(&demand, Wait::Yes);
        match (at_first, granted) {
            (Ok(true), Err(refusal)) => {
                Err(format!("room for {} steps is granted, and then {refusal}", ops.len()))
            }
            (Err(first), granted) if granted.as_ref().err() != Some(&first) => {
                Err(format!("without a wait it says {first}, and then {granted:?}"))
            }
            (_, Ok(None)) => Err("a caller that waits has got no room".to_owned()),
            (_, Ok(Some(room))) => Ok(Ok(room)),
            (_, Err(refusal)) => Ok(Err(refusal)),
        }
    }

    pub(super) fn write(&mut self, steps: &[Step]) -> Result<(), String> {
        let ops: Vec<Op<'_>> = steps.iter().map(Step::op).collect();
        let engine = Arc::clone(&self.opened.engine);
        let mut room = match self.reserved(&*engine, &ops)? {
            Ok(room) => room,
            Err(Error::OutOfMemory { .. } | Error::WriteTooLarge { .. })
                if self.memory_bytes < u64::MAX =>
            {
                self.trace.note(b"out of memory");
                return self.compare_keys(steps);
            }
            // A store of few pages takes each step alone.
            Err(Error::WriteTooLarge { .. }) if steps.len() > 1 => {
                self.trace.note(b"too large");
                return self.compare_keys(steps);
            }
            Err(error) => return Err(format!("room was refused: {error}")),
        };
        let ticket = self.opened.sequence.begin();
        let seqno = ticket.seqno();
        // As in a database, the write is in the journal before the engine sees it.
        self.mark.last.store(seqno.get(), SeqCst);
        let applied = self.opened.engine.apply(&ops, seqno, &mut room);
        drop((ticket, room));
        applied.map_err(|error| format!("apply failed although room was granted: {error}"))?;
        self.record(seqno.get(), steps.to_vec());
        self.compare_keys(steps)
    }

    /// As a database does, with nothing else under way: the journal gets a record of no steps.
    pub(super) fn ingest(&mut self, pairs: &[Pair]) -> Result<(), String> {
        let engine = &self.opened.engine;
        let mut ingestion = match engine.ingestion() {
            Ok(ingestion) => ingestion,
            Err(Error::NoIngestion { engine: name }) if name == engine.capabilities().name => {
                return Ok(());
            }
            Err(error) => return Err(format!("an ingestion got {error}")),
        };
        let failed = |error| format!("an ingestion failed: {error}");
        for (key, value) in pairs {
            ingestion.push(key, value).map_err(failed)?;
        }
        if let Some((key, _)) = pairs.last() {
            let twice = ingestion.push(key, b"twice");
            if !matches!(twice, Err(Error::NotAscending { .. })) {
                return Err(format!("a key that came twice got {twice:?}"));
            }
        }
        ingestion.finish().map_err(failed)?;
        ingestion.prepare().map_err(failed)?;
        let ticket = self.opened.sequence.begin();
        let seqno = ticket.seqno();
        self.mark.last.store(seqno.get(), SeqCst);
        let committed = ingestion.commit(seqno);
        drop(ticket);
        committed.map_err(failed)?;
        let put = |(key, value): &Pair| Step::Put { key: key.clone(), value: value.clone() };
        let steps: Vec<Step> = pairs.iter().map(put).collect();
        self.model.apply(&steps, seqno.get());
        self.journal.push((seqno.get(), Vec::new()));
        self.applied = seqno.get();
        if !pairs.is_empty() && self.opened.engine.persisted() < seqno {
            return Err(format!("persisted() is below the ingestion {seqno}"));
        }
        self.compare_keys(&steps)
    }

    /// Read your writes; and a refused write must not show.
    fn compare_keys(&mut self, steps: &[Step]) -> Result<(), String> {
        for step in steps {
            self.get(step.op().key())?;
            if step.op().is_range() {
                let keys: Vec<Vec<u8>> = self.model.keys().map(<[u8]>::to_vec).collect();
                keys.iter().try_for_each(|key| self.get(key))?;
            }
        }
        Ok(())
    }

    pub(super) fn rmw(&mut self, key: &[u8], tweak: &Tweak) -> Result<(), String> {
        let expected = self.model.get(key).map(<[u8]>::to_vec);
        let after = tweaked(tweak, expected.as_deref());
        let steps: Vec<Step> = match &after {
            Some(Some(value)) => vec![Step::Put { key: key.to_vec(), value: value.clone() }],
            Some(None) => vec![Step::Delete { key: key.to_vec() }],
            None => Vec::new(),
        };
        let ops: Vec<Op<'_>> = steps.iter().map(Step::op).collect();
        let engine = Arc::clone(&self.opened.engine);
        match self.reserved(&*engine, &ops)? {
            // The update reserves its own.
            Ok(room) => drop(room),
            Err(Error::OutOfMemory { .. } | Error::WriteTooLarge { .. })
                if self.memory_bytes < u64::MAX =>
            {
                return Ok(());
            }
            Err(error) => return Err(format!("room was refused: {error}")),
        }
        let ticket = self.opened.sequence.begin();
        let seqno = ticket.seqno();
        self.mark.last.store(seqno.get(), SeqCst);
        let mut operator = Tweaking { tweak, seen: None };
        let result = self.opened.engine.rmw(key, &mut operator, seqno);
        drop(ticket);
        result.map_err(|error| format!("rmw failed: {error}"))?;
        if operator.seen.as_ref() != Some(&expected) {
            let seen = operator.seen.map_or("no call".to_owned(), |seen| describe(seen.as_deref()));
            let (key, expected) = (Quoted(key), describe(expected.as_deref()));
            return Err(format!("rmw {key} was shown {seen}, expected {expected}"));
        }
        if steps.is_empty() {
            self.model.skip(seqno.get());
        } else {
            self.record(seqno.get(), steps);
        }
        self.get(key)
    }

    /// A key that is too long is refused by name, and takes the rest of its batch with it.
    pub(super) fn refusals(&mut self) -> Result<(), String> {
        let long = vec![b'x'; KEY_BYTES_MAX + 1];
        let beside = Op::Put { key: b"a", value: b"never" };
        let ticket = self.opened.sequence.begin();
        let seqno = ticket.seqno();
        let put = Op::Put { key: &long, value: b"" };
        let apply =
            |ops: &[Op<'_>]| self.opened.engine.apply(ops, seqno, &mut Reservation::uncounted());
        let results = [
            apply(&[beside, put]),
            apply(&[Op::Delete { key: &long }, beside]),
            self.opened.engine.rmw(&long, &mut |_: Option<&[u8]>| Change::Put(Vec::new()), seqno),
        ];
        drop(ticket);
        self.model.skip(seqno.get());
        let wanted = Error::KeyTooLong { bytes: long.len() };
        for result in results {
            if result != Err(wanted.clone()) {
                return Err(format!("a key that is too long got {result:?}, expected {wanted:?}"));
            }
        }
        self.refuses_order()?;
        self.get(b"a")
    }

    /// An engine without order says so, and says its own name.
    fn refuses_order(&self) -> Result<(), String> {
        let capabilities = self.opened.engine.capabilities();
        let range = [Op::DeleteRange { start: b"", end: None }];
        match self.opened.engine.reserve(&Demand::Ops(&range), Wait::Yes).map(drop) {
            _ if capabilities.deletes_ranges => {}
            Err(Error::Unordered { engine, .. })
                if engine == capabilities.name && !capabilities.ordered => {}
            Err(Error::NoRangeDeletes { engine })
                if engine == capabilities.name && capabilities.ordered => {}
            admitted => return Err(format!("a range delete got {admitted:?}, expected a refusal")),
        }
        if capabilities.ordered {
            return Ok(());
        }
        let pin = self.opened.sequence.pin();
        match self.opened.engine.scan(KeyRange::all(), Direction::Forward, pin) {
            Err(Error::Unordered { engine, .. }) if engine == capabilities.name => Ok(()),
            Err(error) => Err(format!("a scan got {error}, expected Unordered")),
            Ok(_) => Err("an engine that claims no order gave a scan".to_owned()),
        }
    }
}
