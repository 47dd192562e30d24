//! The results of the writes of clients, so that a repeated write is executed once.
//!
//! A range keeps the last 64 writes of each client: a row for each number modulo 64, which is
//! written in one batch with the write itself. So the rows move with the range, and survive
//! its owner.
//!
//! | key | value |
//! |---|---|
//! | 0x00, client u64 big-endian, slot u8 | number u64 of a write, and its outcome u8 |
//! | 0x00 | number u64, u8 0: clients without a row, with ids up to this one, are refused |
//! | 0x01, key of the keyspace | the value in its stored form |
//!
//! # Invariants
//! - T1. A row is written in the batch of its write. A write whose row is there is not executed
//!   again. A repeated write that finds another value than expected gets a row, too: otherwise an
//!   earlier attempt that is still under way could be executed later.
//! - T2. A write is refused if its row may be gone: a later number has the slot, or the client has
//!   no rows and its id is not above the mark. The batch that removes the rows of a client writes
//!   the mark. In a new range it is the highest id from before the range was made.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use client::{Pair, RequestId, WINDOW};
use codec::{Corruption, Reader, Writer};
use environment::{Environment, Monotonic};
use sync::{Mutex, RwLock};
use thermocline::{Batch, Db, Expiring, KeyRange, Keyspace, Section, TriedSection};

/// The first byte of the keys of rows, and of the mark.
const OWN: u8 = 0;
/// The first byte of the keys of data.
const DATA: u8 = 1;
/// Time after which a client without a write is forgotten.
pub(crate) const FORGET: Duration = Duration::from_secs(15 * 60);
/// Attempts that wait for nothing.
const ATTEMPTS: usize = 3;

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Executed {
    /// It was executed, now or earlier.
    Written,
    /// An expected value differs.
    Differs,
    /// The row of the write may be gone. (T2)
    Forgotten,
    /// There is no room now.
    Busy,
}

/// The rows of a range.
#[derive(Debug)]
pub(crate) struct Results {
    db: Db,
    range: Keyspace,
    clients: Mutex<Clients>,
    /// Writes share it. The removal of rows has it alone.
    turn: RwLock<()>,
    environment: Environment,
}

/// The clients that have rows.
#[derive(Debug, Default)]
struct Clients {
    known: BTreeMap<u64, Monotonic>,
    mark: u64,
}

/// Returns the key of the database for a key of the keyspace.
pub(crate) fn data_key(key: &[u8]) -> Vec<u8> {
    [&[DATA], key].concat()
}

/// Returns the key of the keyspace for a key of the database.
pub(crate) fn key_of(stored: &[u8]) -> &[u8] {
    stored.get(1..).unwrap_or_default()
}

/// Returns the range of the database for all data.
pub(crate) fn all_data() -> KeyRange {
    KeyRange::prefix(&[DATA])
}

fn row_key(RequestId { client, number }: RequestId) -> Vec<u8> {
    let slot = (number % WINDOW) as u8;
    [&[OWN][..], &client.to_be_bytes(), &[slot]].concat()
}

/// Returns the number in the stored value of a row or of the mark, and the outcome.
fn row_in(stored: &[u8]) -> Result<(u64, Executed), Corruption> {
    let mut fields = Reader::new(Expiring::decode(stored)?.value);
    let number = fields.take_u64()?;
    let outcome = if fields.take_flag()? { Executed::Differs } else { Executed::Written };
    fields.finish()?;
    Ok((number, outcome))
}

fn stored_row(number: u64, outcome: Executed) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut fields = Writer::new(&mut bytes);
    fields.put_u64(number);
    fields.put_u8(u8::from(outcome == Executed::Differs));
    Expiring { value: &bytes, expiry_ms: None }.to_stored()
}

/// Returns the outcome of a write whose row is there, or may be gone.
fn outcome_in(row: Option<&[u8]>, number: u64) -> Result<Option<Executed>, Corruption> {
    let Some((found, outcome)) = row.map(row_in).transpose()? else { return Ok(None) };
    Ok(match found.cmp(&number) {
        Ordering::Less => None,
        Ordering::Equal => Some(outcome),
        Ordering::Greater => Some(Executed::Forgotten),
    })
}

impl Results {
    /// Reads the clients that have rows. In a new range, clients with ids below
    /// `clients_before` are forgotten.
    ///
    /// # Errors
    /// The database's.
    pub(crate) fn open(
        db: &Db,
        range: &Keyspace,
        clients_before: u64,
        environment: &Environment,
    ) -> thermocline::Result<Self> {
        let now = environment.now();
        let mut clients = Clients::default();
        let mut mark = None;
        for pair in range.scan(KeyRange::prefix(&[OWN]))? {
            let (key, value) = pair?;
            match key_of(&key).first_chunk() {
                Some(client) => _ = clients.known.insert(u64::from_be_bytes(*client), now),
                None => mark = Some(row_in(&value)?.0),
            }
        }
        clients.mark = match mark {
            Some(mark) => mark,
            None => {
                let mark = clients_before.saturating_sub(1);
                range.put(&[OWN], &stored_row(mark, Executed::Written))?;
                mark
            }
        };
        let (db, range, turn) = (db.clone(), range.clone(), RwLock::default());
        let environment = environment.clone();
        Ok(Self { db, range, clients: Mutex::new(clients), turn, environment })
    }

    /// Notes a write of a client. Returns whether the client may write. (T2)
    fn meet(&self, client: u64) -> bool {
        let mut clients = self.clients.lock();
        let now = self.environment.now();
        let is_known = clients.known.contains_key(&client);
        if !is_known && client <= clients.mark {
            return false;
        }
        clients.known.insert(client, now);
        true
    }

    /// Executes a write, unless it was executed. It is applied, and not yet acknowledged, when this
    /// returns. `may_wait` returns whether this thread may wait for room.
    ///
    /// # Errors
    /// The database's.
    pub(crate) fn write(
        &self,
        (id, is_repeated): (RequestId, bool),
        expects: &[Pair],
        steps: &[Pair],
        may_wait: impl FnOnce() -> bool,
    ) -> thermocline::Result<Executed> {
        let _turn = self.turn.read();
        if !self.meet(id.client) {
            return Ok(Executed::Forgotten);
        }
        let pairs = expects.iter().chain(steps);
        let stored: Vec<Vec<u8>> =
            std::iter::once(row_key(id)).chain(pairs.map(|pair| data_key(&pair.key))).collect();
        let keys: Vec<(&Keyspace, &[u8])> =
            stored.iter().map(|key| (&self.range, key.as_slice())).collect();
        let read: Vec<&[u8]> = stored.iter().take(1 + expects.len()).map(Vec::as_slice).collect();
        let what = (id.number, is_repeated);
        let body = |section: &mut Section<'_>| execute(section, what, expects, steps);
        for _ in 0..ATTEMPTS {
            match self.db.try_atomically(&keys, body)? {
                TriedSection::Done(executed) => return Ok(executed),
                // The read brings the values into memory.
                TriedSection::NeedsRead => _ = self.range.multi_get(&read)?,
                TriedSection::NeedsRoom => break,
            }
        }
        if may_wait() { self.db.atomically(&keys, body) } else { Ok(Executed::Busy) }
    }

    /// Removes all data as a write, unless it was executed.
    ///
    /// # Errors
    /// The database's.
    pub(crate) fn clear(&self, id: RequestId) -> thermocline::Result<Executed> {
        let _turn = self.turn.read();
        if !self.meet(id.client) {
            return Ok(Executed::Forgotten);
        }
        let row = row_key(id);
        loop {
            let transaction = self.db.begin()?;
            let found = transaction.get(&self.range, &row)?;
            if let Some(outcome) = outcome_in(found.as_deref(), id.number)? {
                return Ok(outcome);
            }
            transaction.delete_range(&self.range, &all_data())?;
            transaction.put(&self.range, &row, &stored_row(id.number, Executed::Written))?;
            match transaction.commit() {
                Ok(_) => return Ok(Executed::Written),
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Forgets the clients that have not written for `time`, as far as there is room. Returns their
    /// number. (T2)
    ///
    /// # Errors
    /// The database's.
    pub(crate) fn forget(&self, time: Duration) -> thermocline::Result<usize> {
        let _turn = self.turn.write();
        let now = self.environment.now();
        let mut clients = self.clients.lock();
        let idle = clients.known.iter().filter(|(_, seen)| now - **seen >= time);
        let idle: Vec<u64> = idle.map(|(client, _)| *client).collect();
        let mut forgotten = 0;
        for client in &idle {
            let mark = clients.mark.max(*client);
            let mut batch = Batch::new();
            batch.put(&self.range, &[OWN], &stored_row(mark, Executed::Written));
            for number in 0..WINDOW {
                batch.delete(&self.range, &row_key(RequestId { client: *client, number }));
            }
            if self.db.try_write(&batch)?.is_none() {
                return Ok(forgotten);
            }
            clients.mark = mark;
            clients.known.remove(client);
            forgotten += 1;
        }
        Ok(forgotten)
    }
}

/// Executes a write while its keys are locked. (T1)
fn execute(
    section: &mut Section<'_>,
    (number, is_repeated): (u64, bool),
    expects: &[Pair],
    steps: &[Pair],
) -> thermocline::Result<Executed> {
    let row = section.get(0)?;
    if let Some(outcome) = outcome_in(row.as_deref(), number)? {
        return Ok(outcome);
    }
    for (at, Pair { value, .. }) in (1..).zip(expects) {
        if section.get(at)? != *value {
            if is_repeated {
                section.put(0, stored_row(number, Executed::Differs))?;
            }
            return Ok(Executed::Differs);
        }
    }
    for (at, Pair { value, .. }) in (1 + expects.len()..).zip(steps) {
        match value {
            Some(value) => section.put(at, value.clone())?,
            None => section.delete(at)?,
        }
    }
    // A write without steps has nothing that could be done twice.
    if !steps.is_empty() {
        section.put(0, stored_row(number, Executed::Written))?;
    }
    Ok(Executed::Written)
}

/// Returns the range of the database for keys of the keyspace from `start` to `end`.
pub(crate) fn data_range(start: &[u8], end: Option<&[u8]>) -> KeyRange {
    let start = Bound::Included(data_key(start));
    let end = match end {
        Some(end) => Bound::Excluded(data_key(end)),
        None => Bound::Excluded(vec![DATA + 1]),
    };
    KeyRange { start, end }
}
