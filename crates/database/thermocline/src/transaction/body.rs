//! Transactions as closures that are run until they commit.

use super::Transaction;
use crate::database::Db;
use crate::error::Result;

/// How a closure is run as a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionOptions {
    /// The most times that it is run while it meets conflicts; at least once. Default 16. A
    /// conflict means that another writer's write succeeded, so there is always some progress.
    pub attempts_max: u32,
}

impl Default for TransactionOptions {
    fn default() -> Self {
        Self { attempts_max: 16 }
    }
}

impl Db {
    /// Runs `body` as a transaction (see [`Db::begin`]) and commits it when it returns `Ok`; an
    /// error rolls it back, and is returned. After [`crate::Error::Conflict`] or
    /// [`crate::Error::TransactionTooOld`] it is run again, at a later moment. So it may run
    /// several times, and only the last time counts. It should not write to the database
    /// by other ways, which the transaction would meet as another writer's writes.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use thermocline::{Db, Error, Options};
    /// let db = Db::open(dir.path(), Options::default())?;
    /// let accounts = db.keyspace("accounts", Default::default())?;
    /// let log = db.keyspace("log", Default::default())?;
    /// accounts.put(b"alice", &[100])?;
    /// let pay = |amount: u8| {
    ///     db.transaction(|tx| {
    ///         let alice = tx.get(&accounts, b"alice")?.map_or(0, |value| value[0]);
    ///         let bob = tx.get(&accounts, b"bob")?.map_or(0, |value| value[0]);
    ///         let Some(left) = alice.checked_sub(amount) else { return Err(Error::RolledBack) };
    ///         tx.put(&accounts, b"alice", &[left])?;
    ///         tx.put(&accounts, b"bob", &[bob + amount])?;
    ///         tx.put(&log, b"last", b"alice pays bob")?;
    ///         Ok(left)
    ///     })
    /// };
    /// assert_eq!(pay(30), Ok(70));
    /// assert_eq!(pay(80), Err(Error::RolledBack));
    /// assert_eq!(accounts.get(b"bob")?, Some(vec![30]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// After a conflict it begins again immediately. With many threads that change the same keys,
    /// raise [`TransactionOptions::attempts_max`], or let each thread wait a little before it calls
    /// this again.
    ///
    /// A queue: each call takes the first pair, which no other call takes. A pair that is added at
    /// the end is no conflict, since the scan has not read that far. Each commit of a transaction
    /// that scans makes other writes wait ([`Transaction::commit`]).
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use thermocline::{Db, KeyRange, Options};
    /// let db = Db::open(dir.path(), Options::default())?;
    /// let queue = db.keyspace("queue", Default::default())?;
    /// queue.put(&0_u64.to_be_bytes(), b"first")?;
    /// queue.put(&1_u64.to_be_bytes(), b"second")?;
    /// let take = || {
    ///     db.transaction(|tx| {
    ///         let first = tx.scan(&queue, KeyRange::all())?.next().transpose()?;
    ///         let Some((key, job)) = first else { return Ok(None) };
    ///         tx.delete(&queue, &key)?;
    ///         Ok(Some(job))
    ///     })
    /// };
    /// assert_eq!(take()?.as_deref(), Some(&b"first"[..]));
    /// assert_eq!(take()?.as_deref(), Some(&b"second"[..]));
    /// assert_eq!(take()?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The error that `body` returned; [`crate::Error::Conflict`] or
    /// [`crate::Error::TransactionTooOld`] after [`TransactionOptions::attempts_max`] attempts;
    /// otherwise as [`Db::write`].
    pub fn transaction<T>(&self, body: impl FnMut(&Transaction) -> Result<T>) -> Result<T> {
        self.transaction_with(TransactionOptions::default(), body)
    }

    /// The same with options.
    ///
    /// # Errors
    /// As [`Db::transaction`].
    pub fn transaction_with<T>(
        &self,
        options: TransactionOptions,
        mut body: impl FnMut(&Transaction) -> Result<T>,
    ) -> Result<T> {
        let mut attempts = 1;
        loop {
            let transaction = self.begin()?;
            let outcome = body(&transaction).and_then(|value| transaction.commit().map(|_| value));
            match outcome {
                Err(error) if error.is_conflict() && attempts < options.attempts_max => {
                    attempts += 1;
                }
                outcome => return outcome,
            }
        }
    }
}
