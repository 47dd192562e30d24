//! Cases of the program `thermocline` and of the files on the device.

mod full_disk;
mod newer_version;

use std::fs;

use crate::place::{Place, program};
use crate::verdict::{Outcome, Verdict};

pub(crate) const CASES: &[(&str, fn(&Place) -> Outcome)] = &[
    ("lost_segment", lost_segment),
    ("open_files", open_files),
    ("read_only_copy", read_only_copy),
    ("older_catalog", older_catalog),
    ("newer_version_memory", |place| newer_version::run(place, "memory")),
    ("newer_version_lsm", |place| newer_version::run(place, "lsm")),
    ("newer_version_f2", |place| newer_version::run(place, "f2")),
    ("newer_version_flexdb", |place| newer_version::run(place, "flexdb")),
    ("full_f2", full_disk::f2),
];

/// The newest file of the journal is removed after an orderly close. `check` and an opening must
/// report it.
fn lost_segment(place: &Place) -> Outcome {
    for key in ["k1", "k2", "k3"] {
        place.thermocline(&["put", "data", key, "value", "-q"])?;
    }
    let mut segments: Vec<_> =
        fs::read_dir(place.path("data/journal"))?.flatten().map(|entry| entry.path()).collect();
    segments.retain(|path| path.extension().is_some_and(|extension| extension == "journal"));
    segments.sort();
    fs::remove_file(segments.last().ok_or("no segment")?)?;
    let check = place.thermocline(&["check", "data"])?;
    let get = place.thermocline(&["get", "data", "k3"])?;
    // A key that is not found has exit code 4, damage another one.
    let is_reported = !check.is_success() && !matches!(get.code, Some(0 | 4));
    let got = format!("check: {}; get: {}", check.summary(), get.summary());
    Ok(Verdict::of(is_reported, "errors of check and of an opening", got))
}

/// With few descriptors, each keyspace that was made must be opened, written, copied and dropped.
fn open_files(place: &Place) -> Outcome {
    let make = "ulimit -n 64; for i in $(seq 1 20); do \
                $T put data k v -k ks$i --engine lsm --memory 64mb -q || break; echo made ks$i; done";
    let made = place.shell(make)?;
    let count = made.text.lines().filter(|line| line.starts_with("made")).count();
    let mut refused = Vec::new();
    for command in [
        "get data k -k ks1 --memory 64mb",
        "put data k2 v -k ks1 --memory 64mb",
        "backup data backups --memory 64mb",
        "check data",
        "drop data ks1 --memory 64mb",
    ] {
        let ran = place.shell(&format!("ulimit -n 64; $T {command}"))?;
        if !ran.is_success() {
            refused.push(format!("{command}: {}", ran.summary()));
        }
    }
    let got = format!("{count} keyspaces made; refused then: {refused:?}");
    let is_right = count > 0 && refused.is_empty();
    Ok(Verdict::of(is_right, "each keyspace that was made works", got))
}

/// A restored database must open for a user who may only read it.
fn read_only_copy(place: &Place) -> Outcome {
    if !rustix::process::geteuid().is_root() {
        return Ok(Verdict::skipped("it runs a command as another user, which needs root"));
    }
    fs::copy(program()?, place.path("program"))?;
    let prepare = "$T put data k value -q && $T backup data backups -q && \
                   $T restore restored backups -q && $T salvage data salvaged -q && \
                   chmod -R a+rX . && chmod a+rx program";
    let prepared = place.shell(prepare)?;
    if !prepared.is_success() {
        return Err(format!("the preparation failed: {}", prepared.summary()).into());
    }
    let mut refused = Vec::new();
    for command in ["get restored k", "check restored", "get salvaged k"] {
        let other_user = "setpriv --reuid 65534 --regid 65534 --clear-groups";
        let ran = place.shell(&format!("{other_user} ./program {command}"))?;
        if !ran.is_success() {
            refused.push(format!("{command}: {}", ran.summary()));
        }
    }
    let got = format!("refused: {refused:?}");
    Ok(Verdict::of(refused.is_empty(), "get and check work without the right to write", got))
}

/// An older catalog is put back. The next opening must not delete what that catalog does not name.
fn older_catalog(place: &Place) -> Outcome {
    let catalog = place.path("data/THERMOCLINE");
    place.thermocline(&["put", "data", "k", "v", "-k", "old", "-q"])?;
    let older = fs::read(&catalog)?;
    place.thermocline(&["put", "data", "k", "v", "-k", "new", "-q"])?;
    let keyspaces = || -> std::io::Result<Vec<String>> {
        let mut names: Vec<String> = fs::read_dir(place.path("data/keyspaces"))?
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        Ok(names)
    };
    fs::create_dir(place.path("data/keyspaces/notes"))?;
    fs::write(place.path("data/keyspaces/notes/text"), "of the user")?;
    fs::write(&catalog, older)?;
    let before = keyspaces()?;
    let check = place.thermocline(&["check", "data"])?;
    let put = place.thermocline(&["put", "data", "a", "b", "-k", "old"])?;
    let after = keyspaces()?;
    let got = format!(
        "{before:?} before, {after:?} after; check: {}; put: {}",
        check.summary(),
        put.summary()
    );
    let is_right = before == after && place.path("data/keyspaces/notes/text").exists();
    Ok(Verdict::of(is_right && !check.is_success(), "an error of check, and no loss", got))
}
