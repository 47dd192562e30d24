//! Fuzzes a whole database directory: some bytes of its files are changed, then it is checked and
//! opened. Nothing may panic, and no value may be served that was not written.
#![no_main]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::OnceLock;

use device::{Device, Mode};
use libfuzzer_sys::fuzz_target;
use thermocline::{Db, KeyRange, Options};

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

/// The files of a database with ten keys, half of them flushed and half in the journal alone.
fn whole() -> &'static Files {
    static WHOLE: OnceLock<Files> = OnceLock::new();
    WHOLE.get_or_init(|| {
        let device = device::memory();
        let db = Db::open_on(device.clone(), "fuzzed", options()).expect("an empty device");
        let keyspace = db.keyspace("keys", Default::default()).expect("a new keyspace");
        for number in 0..10_u8 {
            keyspace.put(&[number], &value(number)).expect("a memory device does not fail");
            if number == 4 {
                keyspace.flush().expect("a memory device does not fail");
            }
        }
        db.close().expect("a memory device does not fail");
        let mut files = Files::new();
        collect(&*device, "", &mut files);
        files
    })
}

fn value(number: u8) -> Vec<u8> {
    vec![number ^ 0x5a; 5 + usize::from(number)]
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

fuzz_target!(|changes: Vec<(u8, u16, u8)>| {
    let mut files = whole().clone();
    let names: Vec<String> = files.keys().cloned().collect();
    for (file, position, byte) in changes {
        let name = &names[usize::from(file) % names.len()];
        if let Some(bytes) = files.get_mut(name).filter(|bytes| !bytes.is_empty()) {
            let position = usize::from(position) % bytes.len();
            bytes[position] ^= byte;
        }
    }
    // Damage is an answer; a panic is not.
    let _ = thermocline::check_on(lay_out(&files), "fuzzed");
    let Ok(db) = Db::open_on(lay_out(&files), "fuzzed", options()) else { return };
    for keyspace in db.keyspaces() {
        let Ok(scan) = keyspace.scan(KeyRange::all()) else { continue };
        for (key, found) in scan.map_while(Result::ok) {
            let [number] = key[..] else { panic!("a key that was never written: {key:?}") };
            assert_eq!(found, value(number), "a value that was never written");
        }
    }
});
