//! A process that forks while it has a database open.
#![expect(unsafe_code, reason = "fork has no safe form")]

use std::time::Duration;

use thermocline::{Db, Durability, EngineKind, Options, check};

use super::of;
use crate::place::{self, Place};
use crate::verdict::{Outcome, Verdict};

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn kill(pid: i32, signal: i32) -> i32;
    fn _exit(code: i32) -> !;
}

const WNOHANG: i32 = 1;
const SIGKILL: i32 = 9;
/// Time in which a child must end.
const PATIENCE: Duration = Duration::from_secs(15);

/// Runs `work` in a child and returns its exit code, or none if it hangs or dies by a signal.
fn in_child(work: impl FnOnce() -> i32) -> Option<i32> {
    // SAFETY: the child runs `work` and ends; it shares no memory with this process.
    let child = unsafe { fork() };
    if child == 0 {
        let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(99);
        // SAFETY: ends the child without the destructors of its parent's values.
        unsafe { _exit(code) }
    }
    let mut status = 0;
    let ended = place::until(PATIENCE, || {
        // SAFETY: `status` lives throughout the call.
        child < 0 || unsafe { waitpid(child, &raw mut status, WNOHANG) } == child
    });
    if !ended {
        // SAFETY: the child was started here and has not been waited for.
        let _ = unsafe { kill(child, SIGKILL) };
        // SAFETY: `status` lives throughout the call.
        let _ = unsafe { waitpid(child, &raw mut status, 0) };
        return None;
    }
    (status & 0x7f == 0).then_some((status >> 8) & 0xff)
}

/// A child writes through a handle of its parent. It must be refused, and the parent must lose
/// nothing that was synced.
pub(super) fn writes(place: &Place) -> Outcome {
    const PUTS: u32 = 100;
    let directory = place.path("data");
    let db = Db::open(&directory, Options::default())?;
    let keyspace = db.keyspace("default", of(EngineKind::Memory))?.durability(Durability::Synced);
    for index in 0..PUTS / 2 {
        keyspace.put(format!("parent{index}").as_bytes(), b"synced")?;
    }
    let taken = in_child(|| {
        let puts =
            (0..50_u32).map(|index| keyspace.put(format!("child{index}").as_bytes(), b"lost"));
        i32::try_from(puts.filter(|put| put.is_ok()).count()).unwrap_or(98)
    });
    for index in PUTS / 2..PUTS {
        keyspace.put(format!("parent{index}").as_bytes(), b"synced")?;
    }
    db.close()?;
    drop((keyspace, db));
    let is_whole = check(&directory).is_ok_and(|report| report.is_whole());
    let found = Db::open(&directory, Options::default()).and_then(|db| {
        let keyspace = db.existing_keyspace("default")?;
        let has = |index: &u32| {
            keyspace.get(format!("parent{index}").as_bytes()).is_ok_and(|value| value.is_some())
        };
        Ok((0..PUTS).filter(has).count())
    });
    let is_right = taken == Some(0) && is_whole && matches!(found, Ok(found) if found == 100);
    let got = format!(
        "puts of the child that were taken: {taken:?}; check says whole: {is_whole}; \
         synced puts found: {found:?} of {PUTS}"
    );
    Ok(Verdict::of(is_right, "no put of the child taken, and all synced puts there", got))
}

/// A program opens the database and then runs as a daemon. Each call in the child must return an
/// error; none may hang or panic.
pub(super) fn daemon(place: &Place, engine: EngineKind) -> Outcome {
    let db = Db::open(place.path("data"), Options::default())?;
    let keyspace = db.keyspace("default", of(engine))?;
    keyspace.put(b"key", b"value")?;
    let code = in_child(|| {
        let calls = [
            keyspace.put(b"key", b"other").is_err(),
            keyspace.get(b"key").is_err(),
            keyspace.flush().is_err(),
            db.sync().is_err(),
            db.close().is_err(),
        ];
        i32::try_from(calls.iter().filter(|is_refused| !**is_refused).count()).unwrap_or(98)
    });
    let got = match code {
        None => format!("a child that hangs or dies, with {engine}"),
        Some(99) => format!("a panic in the child, with {engine}"),
        Some(count) => format!("{count} of 5 calls in the child that are not refused"),
    };
    let value = keyspace.get(b"key")?;
    let is_right = code == Some(0) && value.as_deref() == Some(b"value");
    Ok(Verdict::of(is_right, "an error from each call in the child", got))
}
