//! Fuzzes whole databases: work over keyspaces of all engines is compared with maps.
//! The work is single writes, batches and transactions, with clearings, drops and reopenings. Then
//! some bytes of the files are changed, and the rest is checked, read, opened and salvaged. Nothing
//! may panic, and no value may be returned that was not written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thermocline::{Db, check_on, salvage_on};
use thermocline_fuzz::files::{self, Change};
use thermocline_fuzz::work::{Step, Work, Written, content};

/// Checks that all readable pairs were written once.
fn judge(db: &Db, written: &Written) {
    for keyspace in db.keyspaces() {
        let is_known = |key: &[u8], value: &[u8]| {
            let values = written.get(&(keyspace.name().to_owned(), key.to_vec()));
            values.is_some_and(|values| values.contains(value))
        };
        // Damage is an answer; a panic is not.
        let _ = keyspace.walk(None, &mut |key: &[u8], value: &[u8]| {
            assert!(is_known(key, value), "{key:?} has a value that was never written");
            std::ops::ControlFlow::Continue(())
        });
        for ((name, key), values) in written {
            if let (true, Ok(Some(value))) = (name == keyspace.name(), keyspace.get(key)) {
                assert!(values.contains(&value), "{key:?} has a value that was never written");
            }
        }
    }
    let _ = content(db);
}

fn opened(opened: thermocline::Result<Db>, written: &Written) {
    if let Ok(db) = opened {
        judge(&db, written);
        let _ = db.close();
    }
}

fuzz_target!(|input: (u8, Vec<Step>, Vec<Change>)| {
    let (shape, steps, changes) = input;
    let mut work = Work::new(shape);
    work.go(&steps);
    work.reopen();
    let (device, options, written) = work.close();
    let report = check_on(device.clone(), "fuzzed").expect("it was closed");
    assert!(report.is_whole(), "{:?}", report.damage);
    if changes.is_empty() {
        return;
    }
    let mut files = files::collect(&*device);
    files::change(&mut files, &changes);
    let laid_out = || files::lay_out(&files);
    let _ = check_on(laid_out(), "fuzzed");
    opened(Db::open_read_only_on(laid_out(), "fuzzed", options.clone()), &written);
    opened(Db::open_on(laid_out(), "fuzzed", options.clone()), &written);
    let into = device::memory();
    let (from, to) = ((laid_out(), "fuzzed"), (into.clone(), "salvaged"));
    if salvage_on(from, to, options.clone()).is_ok() {
        let db = Db::open_on(into, "salvaged", options.clone()).expect("it was salvaged");
        judge(&db, &written);
    }
});
