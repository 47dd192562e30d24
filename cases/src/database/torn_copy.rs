//! A copy of a running database whose journal is older than its keyspaces, as `tar` makes it.

use std::fs;

use thermocline::{Batch, Db, EngineKind, Options, check};

use super::of;
use crate::place::{self, Place};
use crate::verdict::{Outcome, Verdict};

/// The copy must be reported by `check`, and must not show half of a batch.
pub(super) fn run(place: &Place) -> Outcome {
    let (live, copy) = (place.path("live"), place.path("copy"));
    let db = Db::open(&live, Options::default())?;
    let a = db.keyspace("a", of(EngineKind::Lsm))?;
    let b = db.keyspace("b", of(EngineKind::Memory))?;
    db.write(Batch::new().put(&a, b"n", b"1").put(&b, b"n", b"1"))?;
    db.sync()?;
    fs::create_dir(&copy)?;
    place::copy(&live.join("THERMOCLINE"), &copy)?;
    place::copy(&live.join("journal"), &copy)?;
    db.write(Batch::new().put(&a, b"n", b"2").put(&b, b"n", b"2"))?;
    a.flush()?;
    place::copy(&live.join("keyspaces"), &copy)?;

    let is_whole = check(&copy).is_ok_and(|report| report.is_whole());
    let shown = match Db::open(&copy, Options::default()) {
        Err(error) => Err(error.to_string()),
        Ok(copied) => {
            let read = |name: &str| {
                let value = copied.existing_keyspace(name).and_then(|keyspace| keyspace.get(b"n"));
                value.map(|value| value.map(|value| String::from_utf8_lossy(&value).into_owned()))
            };
            Ok((read("a"), read("b")))
        }
    };
    let is_half = matches!(&shown, Ok((Ok(a), Ok(b))) if a != b);
    let got = format!("check says whole: {is_whole}; shown: {shown:?}");
    Ok(Verdict::of(!is_whole && !is_half, "an error of check, and no half of a batch", got))
}
