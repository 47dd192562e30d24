//! A small file system that fills up under the engine `f2`.

use std::fs;

use thermocline::{Db, EngineKind, KeyspaceOptions, Options};

use crate::place::Place;
use crate::verdict::{Outcome, Verdict};

/// The database is filled until a put fails, some values are deleted and a file of the user is
/// removed. Then the database must open for reads and for writes.
pub(super) fn f2(place: &Place) -> Outcome {
    if !rustix::process::geteuid().is_root() {
        return Ok(Verdict::skipped("it mounts a loop device, which needs root"));
    }
    let mount = "dd if=/dev/zero of=image bs=1M count=96 status=none && \
                 mkfs.ext4 -q -F -m 0 image && mkdir small && mount -o loop image small";
    let mounted = place.shell(mount)?;
    if !mounted.is_success() {
        return Ok(Verdict::skipped(format!("no loop device: {}", mounted.summary())));
    }
    // The mount ends with the case's process, whose parent removes the directory.
    let ballast = place.path("small/of-the-user");
    fs::write(&ballast, vec![1; 8 << 20])?;
    let closed = fill(place, &ballast);
    let get = place.thermocline(&["get", "small/data", "key-00030000", "--memory", "32mb"])?;
    let puts: Vec<String> = (0..3)
        .map(|_| place.thermocline(&["put", "small/data", "k", "v", "--memory", "32mb"]))
        .map(|put| put.map(|put| put.summary()))
        .collect::<Result<_, _>>()?;
    let is_open = puts.last().is_some_and(|put| put.starts_with("exit code 0"));
    let got = format!("close: {closed:?}; get: {}; puts: {puts:?}", get.summary());
    // A key that is not found has exit code 4.
    let is_right = matches!(get.code, Some(0 | 4)) && is_open;
    Ok(Verdict::of(is_right, "reads and writes after space was freed", got))
}

fn fill(place: &Place, ballast: &std::path::Path) -> Result<(), String> {
    const KEYS: u32 = 40_000;
    let text = |error: thermocline::Error| error.to_string();
    let options = Options { memory_bytes: 32 << 20, journal_bytes: 8 << 20, ..Options::default() };
    let db = Db::open(place.path("small/data"), options).map_err(text)?;
    let of_f2 = KeyspaceOptions { engine: EngineKind::F2, ..KeyspaceOptions::default() };
    let keyspace = db.keyspace("default", of_f2).map_err(text)?;
    let key = |index: u32| format!("key-{:08}", index % KEYS).into_bytes();
    for index in 0..10 * KEYS {
        if keyspace.put(&key(index), &[7; 600]).is_err() {
            break;
        }
    }
    for index in 0..KEYS / 4 {
        let _ = keyspace.delete(&key(index));
    }
    fs::remove_file(ballast).map_err(|error| error.to_string())?;
    for index in KEYS / 2..KEYS {
        let _ = keyspace.put(&key(index), &[8; 600]);
    }
    db.close().map_err(text)
}
