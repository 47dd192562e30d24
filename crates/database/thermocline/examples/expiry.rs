//! Values that expire: sessions with a time to live, and a lease.
//!
//! `cargo run -p thermocline --example expiry -- DIRECTORY`

use std::path::Path;
use std::time::Duration;

use thermocline::{Db, Environment, ExpiringChange, KeyspaceOptions, Options};

const HOUR_MS: u64 = 3_600_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: expiry DIRECTORY")?;
    show(Path::new(&path))
}

/// Does so in a directory.
pub(crate) fn show(path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let db = Db::open(path, Options::default())?;
    let options = KeyspaceOptions { expiring: true, ..KeyspaceOptions::default() };
    let sessions = db.keyspace("sessions", options)?;
    let expiring = sessions.expiring();

    expiring.put_with_ttl(b"ada", b"logged in", Duration::from_millis(20))?;
    expiring.put(b"bob", b"logged in", db.now_ms() + HOUR_MS)?;
    Environment::real().sleep(Duration::from_millis(40));
    // An expired value is not shown. The database removes it later.
    assert_eq!(sessions.get(b"ada")?, None);
    assert_eq!(sessions.get(b"bob")?.as_deref(), Some(&b"logged in"[..]));

    // A change of value and expiry together: each use extends the session.
    let until_ms = db.now_ms() + 2 * HOUR_MS;
    expiring.rmw(b"bob", |session| match session {
        Some(session) => {
            let value = session.value.to_vec();
            ExpiringChange::Put { value, expiry_ms: Some(until_ms) }
        }
        None => ExpiringChange::Keep,
    })?;
    println!("bob's session: {:?}", expiring.get(b"bob")?);

    // A lease: the first owner takes it and extends it. Others are refused until it expires.
    let take = |old: Option<&[u8]>, new: &[u8]| {
        expiring.compare_and_swap(b"leader", old, new, db.now_ms() + 10_000)
    };
    let swaps = (take(None, b"ada")?, take(None, b"bob")?, take(Some(b"ada"), b"ada")?);
    println!("{:?}, {:?}, {:?}", swaps.0, swaps.1, swaps.2);
    assert!(swaps.0.is_done() && !swaps.1.is_done() && swaps.2.is_done());

    println!("{} expired keys removed", expiring.remove_expired()?);
    sessions.clear()?;
    db.close()?;
    Ok(())
}
