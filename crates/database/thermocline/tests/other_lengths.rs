//! Files of the database itself, and of its backups, that are longer or shorter than they were
//! written: opening, `check` and `salvage` agree, and `verify` and `restore` do.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use device::{Device, Mode};
use thermocline::{
    Backups, Db, EngineKind, Error, KeyspaceOptions, Options, Progress, check_on, salvage_on,
};

const KEYSPACES: [(&str, EngineKind); 2] =
    [("first", EngineKind::Memory), ("second", EngineKind::Lsm)];
const KEYS: u32 = 200;

/// Another length of a file.
#[derive(Clone, Copy, Debug)]
enum Length {
    Less(u64),
    Half,
    None,
    Zeros(usize),
    Noise(usize),
}

const LENGTHS: [Length; 10] = [
    Length::Less(1),
    Length::Less(17),
    Length::Half,
    Length::None,
    Length::Zeros(17),
    Length::Zeros(512),
    Length::Zeros(4096),
    Length::Noise(17),
    Length::Noise(512),
    Length::Noise(4096),
];

impl Length {
    fn give_to(self, device: &dyn Device, name: &str) {
        let file = device.open(name, Mode::Write).unwrap();
        let len = file.len().unwrap();
        let append = |byte: u8, count: usize| file.write_at(len, &vec![byte; count]).unwrap();
        match self {
            Self::Less(bytes) => file.set_len(len.saturating_sub(bytes)).unwrap(),
            Self::Half => file.set_len(len / 2).unwrap(),
            Self::None => file.set_len(0).unwrap(),
            Self::Zeros(count) => append(0, count),
            Self::Noise(count) => append(0xa7, count),
        }
    }
}

fn options() -> Options {
    Options { memory_bytes: 64 << 20, ..Options::default() }
}

fn filled() -> Arc<dyn Device> {
    let device = device::memory();
    let db = Db::open_on(Arc::clone(&device), "whole", options()).unwrap();
    for (name, engine) in KEYSPACES {
        let options = KeyspaceOptions { engine, ..KeyspaceOptions::default() };
        let space = db.keyspace(name, options).unwrap();
        for number in 0..KEYS {
            space.put(&number.to_be_bytes(), &[3; 50]).unwrap();
        }
        space.flush().unwrap();
        space.put(b"journaled", b"value").unwrap();
    }
    db.close().unwrap();
    device
}

fn copy_of(device: &Arc<dyn Device>) -> Arc<dyn Device> {
    let copy = device::memory();
    for name in files(&**device, "") {
        let from = device.open(&name, Mode::Read).unwrap();
        let mut bytes = vec![0; from.len().unwrap() as usize];
        from.read_at(0, &mut bytes).unwrap();
        if let Some((dir, _)) = name.rsplit_once('/') {
            copy.create_dir(dir).unwrap();
        }
        copy.open(&name, Mode::CreateNew).unwrap().write_at(0, &bytes).unwrap();
    }
    copy
}

fn files(device: &dyn Device, dir: &str) -> Vec<String> {
    let mut names = Vec::new();
    for entry in device.list(dir).unwrap() {
        let name = device::join(dir, &entry.name);
        if entry.is_dir { names.extend(files(device, &name)) } else { names.push(name) }
    }
    names
}

/// Returns the reason why a read does not find all that was written, if there is one.
fn failure_to_read(device: &Arc<dyn Device>) -> Result<(), Error> {
    let db = Db::open_on(Arc::clone(device), "other", options())?;
    for (name, _) in KEYSPACES {
        let space = db.existing_keyspace(name)?;
        for number in 0..KEYS {
            assert_eq!(space.get(&number.to_be_bytes())?.as_deref(), Some(&[3; 50][..]));
        }
        assert_eq!(space.get(b"journaled")?.as_deref(), Some(&b"value"[..]));
    }
    db.close()
}

/// Whether a call finds the database whole. It fails for nothing but damage.
fn is_whole(outcome: Result<bool, Error>, case: &str) -> bool {
    outcome.unwrap_or_else(|error| {
        assert!(error.corruption().is_some(), "{case}: {error:?}");
        false
    })
}

#[test]
fn the_files_of_a_database() {
    let whole = filled();
    let is_own = |name: &String| {
        let (dir, file) = name.rsplit_once('/').unwrap_or(("", name));
        dir.is_empty() || file == "KEYSPACE" || dir == "journal"
    };
    let names: Vec<String> = files(&*whole, "").into_iter().filter(is_own).collect();
    for file in ["THERMOCLINE", "CLOSED", "LOCK", "journal/END"] {
        assert!(names.iter().any(|name| name == file), "{file} of {names:?}");
    }
    assert!(names.iter().filter(|name| name.ends_with("KEYSPACE")).count() == 2, "{names:?}");
    for name in &names {
        for length in LENGTHS {
            let case = format!("{length:?} {name}");
            let device = copy_of(&whole);
            length.give_to(&*device, name);
            let checked = check_on(Arc::clone(&device), "other").map(|report| report.is_whole());
            let new = device::memory();
            let salvaged = salvage_on((Arc::clone(&device), "other"), (new, "new"), options());
            let salvaged = salvaged.map(|found| found.damage_count() == 0);
            let opened = failure_to_read(&device).map(|()| true);
            let found = [("check", checked), ("salvage", salvaged), ("open", opened)]
                .map(|(call, outcome)| is_whole(outcome, &format!("{case}, {call}")));
            assert!(found.iter().all(|one| *one == found[0]), "{case}: {found:?}");
            // They hold no data: a length means nothing.
            let means_nothing = ["CLOSED", "LOCK", "ballast"].contains(&name.as_str());
            let may_be_zeros = name == "journal/END" && !matches!(length, Length::Noise(_));
            assert!(!means_nothing || found[0], "{case}");
            // A crash may leave any bytes behind the last frame of a segment, and end within its
            // last mark.
            let is_lost = matches!(length, Length::Half | Length::None);
            let may_be_a_tail = name.ends_with(".journal") && !is_lost;
            assert!(
                means_nothing || may_be_zeros || may_be_a_tail || !found[0],
                "{case} is noticed"
            );
        }
    }
}

#[test]
fn the_files_of_a_backup() {
    let db = Db::open_on(filled(), "whole", options()).unwrap();
    let whole = device::memory();
    let backups = Backups::open_on(Arc::clone(&whole), "backups").unwrap();
    db.backup(&backups, &Progress::default()).unwrap();
    db.close().unwrap();
    let names = files(&*whole, "");
    for file in ["BACKUP", "KEYSPACE", "END", "superblock"] {
        assert!(names.iter().any(|name| name.ends_with(&format!("/{file}"))), "{names:?}");
    }
    for name in names.iter().filter(|name| name.as_str() != "LOCK") {
        for length in LENGTHS {
            let case = format!("{length:?} {name}");
            let device = copy_of(&whole);
            length.give_to(&*device, name);
            let backups = Backups::open_on(Arc::clone(&device), "backups").unwrap();
            let verified = backups.verify(None, &Progress::default()).map(|_| true);
            let target = device::memory();
            let restored = backups.restore_on(None, &target, "new", &Progress::default());
            let restored = restored.map(|_| true);
            let (verified, restored) = (is_whole(verified, &case), is_whole(restored, &case));
            let was_empty = whole.open(name, Mode::Read).unwrap().len().unwrap() == 0;
            let is_the_same = was_empty && !matches!(length, Length::Zeros(_) | Length::Noise(_));
            assert_eq!((verified, restored), (is_the_same, is_the_same), "{case}");
        }
    }
}

/// The length of a sparse file is not believed: no memory is taken for it.
#[test]
fn a_length_without_bounds_is_damage() {
    let place = tempfile::tempdir().unwrap();
    let device = device::open(place.path(), device::Options::default()).unwrap();
    let db = Db::open_on(Arc::clone(&device), "whole", options()).unwrap();
    db.keyspace("space", KeyspaceOptions::default()).unwrap();
    db.close().unwrap();
    let is_own = |name: &String| name.ends_with("THERMOCLINE") || name.ends_with("KEYSPACE");
    let names: Vec<String> = files(&*device, "").into_iter().filter(is_own).collect();
    assert_eq!(names.len(), 2);
    for name in names {
        let file = device.open(&name, Mode::Write).unwrap();
        let len = file.len().unwrap();
        file.set_len(1 << 42).unwrap();
        let report = check_on(Arc::clone(&device), "long").unwrap();
        assert!(report.damage[0].what.contains("are expected"), "{name}: {:?}", report.damage);
        file.set_len(len).unwrap();
    }
    assert!(check_on(device, "whole").unwrap().is_whole());
}
