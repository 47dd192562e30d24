//! Transactions: transfers between accounts from several threads, an audit next to them, a queue
//! that is scanned, and a lease taken by a compare-and-swap.
//!
//! `cargo run -p thermocline --example transactions -- DIRECTORY`

use std::path::Path;

use thermocline::{Db, Error, KeyRange, Keyspace, KeyspaceOptions, Options, Transaction};

const ACCOUNTS: [&str; 3] = ["ada", "bob", "cyd"];

fn balance(tx: &Transaction, accounts: &Keyspace, name: &str) -> Result<u64, Error> {
    let value = tx.get(accounts, name.as_bytes())?;
    let text = value.and_then(|bytes| String::from_utf8(bytes).ok());
    Ok(text.and_then(|text| text.parse().ok()).unwrap_or(0))
}

/// Both balances change, and the order is in the queue, or nothing happens.
fn pay(db: &Db, spaces: [&Keyspace; 2], parties: [&str; 2], amount: u64) -> Result<(), Error> {
    let ([accounts, queue], [payer, payee]) = (spaces, parties);
    db.transaction(|tx| {
        let had = balance(tx, accounts, payer)?;
        let Some(left) = had.checked_sub(amount) else { return Err(Error::RolledBack) };
        let more = balance(tx, accounts, payee)? + amount;
        tx.put(accounts, payer.as_bytes(), left.to_string().as_bytes())?;
        tx.put(accounts, payee.as_bytes(), more.to_string().as_bytes())?;
        // The next number of the queue: a transaction that adds one at the same time begins again.
        let last = tx.scan_reverse(queue, KeyRange::all())?.next().transpose()?;
        let number = match last {
            Some((key, _)) => u64::from_be_bytes(key.try_into().unwrap_or_default()) + 1,
            None => 0,
        };
        tx.put(queue, &number.to_be_bytes(), format!("{payer} pays {payee} {amount}").as_bytes())
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: transactions DIRECTORY")?;
    show(Path::new(&path))
}

/// Does so in a directory.
pub(crate) fn show(path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let db = Db::open(path, Options::default())?;
    let accounts = db.keyspace("accounts", KeyspaceOptions::default())?;
    let queue = db.keyspace("queue", KeyspaceOptions::default())?;
    let leases = db.keyspace("leases", KeyspaceOptions::default())?;
    queue.clear()?;
    for name in ACCOUNTS {
        accounts.put(name.as_bytes(), b"100")?;
    }

    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let payers = [0, 1, 2].map(|who| {
            let (db, spaces) = (&db, [&accounts, &queue]);
            let parties = [ACCOUNTS[who], ACCOUNTS[(who + 1) % 3]];
            scope.spawn(move || (0..20).map(|_| pay(db, spaces, parties, 7)).collect::<Vec<_>>())
        });
        payers.into_iter().flat_map(|payer| payer.join().unwrap_or_default()).collect()
    });
    let done = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    let conflicts =
        outcomes.iter().filter(|one| one.as_ref().is_err_and(Error::is_conflict)).count();
    println!("{done} of {} transfers, {conflicts} given up after conflicts", outcomes.len());

    // A transaction that only reads is of one moment, and needs no second attempt.
    let total = db.transaction(|tx| {
        let balances = ACCOUNTS.iter().map(|name| balance(tx, &accounts, name));
        balances.sum::<Result<u64, _>>()
    })?;
    println!("{total} in all, {} orders", queue.scan(KeyRange::all())?.count());
    assert_eq!(total, 300);

    leases.compare_and_swap(b"leader", None, Some(b"ada"))?;
    println!("{:?}", leases.compare_and_swap(b"leader", Some(b"bob"), Some(b"cyd"))?);
    db.close()?;
    Ok(())
}
