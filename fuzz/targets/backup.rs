//! Fuzzes a directory of backups: some bytes of its files are changed, then it is listed, verified and
//! restored; and a manifest of any bytes is read. Nothing may panic, and what is restored is what was there.
#![no_main]

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use device::{Device, Mode};
use libfuzzer_sys::fuzz_target;
use thermocline::{Backups, Db, KeyRange, Options, Progress};

/// Files by name.
type Files = BTreeMap<String, Vec<u8>>;

fn options() -> Options {
    Options { sync_interval: None, background_threads: 1, ..Options::default() }
}

fn collect(device: &dyn Device, dir: &str, files: &mut Files) {
    for entry in device.list(dir).expect("a memory device does not fail") {
        let name = device::join(dir, &entry.name);
        if entry.is_dir {
            collect(device, &name, files);
            continue;
        }
        let file = device.open(&name, Mode::Read).expect("it was listed");
        let mut bytes = vec![0; file.len().expect("a memory device does not fail") as usize];
        file.read_at(0, &mut bytes).expect("within the file");
        files.insert(name, bytes);
    }
}

/// A backup of ten keys, half of them flushed.
fn whole() -> &'static Files {
    static WHOLE: OnceLock<Files> = OnceLock::new();
    WHOLE.get_or_init(|| {
        let db = Db::open_on(device::memory(), "fuzzed", options()).expect("an empty device");
        let keyspace = db.keyspace("keys", Default::default()).expect("a new keyspace");
        for number in 0..10_u8 {
            keyspace.put(&[number], &[number; 7]).expect("a memory device does not fail");
            if number == 4 {
                keyspace.flush().expect("a memory device does not fail");
            }
        }
        let device = device::memory();
        let backups = Backups::open_on(Arc::clone(&device), "backups").expect("an empty device");
        db.backup(&backups, &Progress::default()).expect("a memory device does not fail");
        let mut files = Files::new();
        collect(&*device, "", &mut files);
        files
    })
}

fn lay_out(files: &Files) -> Arc<dyn Device> {
    let device = device::memory();
    for (name, bytes) in files {
        if let Some((dir, _)) = name.rsplit_once('/') {
            device.create_dir(dir).expect("a memory device does not fail");
        }
        let file = device.open(name, Mode::Create).expect("a memory device does not fail");
        file.write_at(0, bytes).expect("a memory device does not fail");
    }
    device
}

/// Restores the newest backup, if that is let.
fn restored(files: &Files) -> Option<Db> {
    let backups = Backups::open_on(lay_out(files), "fuzzed").ok()?;
    // Damage is an answer; a panic is not.
    let _ = backups.list();
    let verified = backups.verify(None, &Progress::default());
    let target = device::memory();
    let outcome = backups.restore_on(None, &target, "target", &Progress::default());
    if outcome.is_err() {
        let left = target.list("").expect("a memory device does not fail");
        assert!(left.is_empty(), "something is left: {left:?}");
    }
    let told = outcome.ok()?;
    assert_eq!(Ok(told), verified);
    Some(Db::open_on(target, "target", options()).expect("it was restored"))
}

fuzz_target!(|input: (Vec<(u8, u16, u8)>, Vec<u8>)| {
    let (changes, raw) = input;
    let mut files = whole().clone();
    let names: Vec<String> = files.keys().cloned().collect();
    for (file, position, byte) in changes {
        let name = &names[usize::from(file) % names.len()];
        if let Some(bytes) = files.get_mut(name).filter(|bytes| !bytes.is_empty()) {
            let position = usize::from(position) % bytes.len();
            bytes[position] ^= byte;
        }
    }
    if let Some(db) = restored(&files) {
        let keyspace = db.existing_keyspace("keys").expect("it was in the backup");
        let scan = keyspace.scan(KeyRange::all()).expect("it keeps an order");
        let pairs: Vec<_> = scan.map_while(Result::ok).collect();
        let expected: Vec<_> = (0..10_u8).map(|number| (vec![number], vec![number; 7])).collect();
        assert_eq!(pairs, expected, "what was restored is something else");
    }
    // With a sound header and checksum, so that what is behind them is read.
    let mut manifest = whole()["backup-000001/BACKUP"][..16].to_vec();
    manifest.extend_from_slice(&codec::crc32c(&raw).to_le_bytes());
    manifest.extend_from_slice(&raw);
    files.insert("backup-000001/BACKUP".to_owned(), manifest);
    if let Ok(backups) = Backups::open_on(lay_out(&files), "fuzzed") {
        let _ = (backups.list(), backups.verify(None, &Progress::default()));
        let _ = backups.restore_on(None, &device::memory(), "target", &Progress::default());
    }
});
