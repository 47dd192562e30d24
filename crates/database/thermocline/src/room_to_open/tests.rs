//! The bytes that an opening needs.

use super::*;
use crate::catalog::Entry;
use crate::options::KeyspaceOptions;

/// A directory that is missing stays missing: the opening reports it.
#[test]
fn counting_the_bytes_makes_no_directory() {
    let device = device::memory();
    let mut catalog = Catalog::new([7; 16]);
    for (id, engine) in (1..).zip(EngineKind::ALL) {
        let options = KeyspaceOptions { engine: *engine, ..KeyspaceOptions::default() };
        catalog.keyspaces.push(Entry { id, name: engine.name().to_owned(), options });
    }
    catalog.store(&*device).expect("memory takes it");
    device.create_dir(JOURNAL_DIR).expect("memory makes it");
    let before = device.list("").expect("memory lists").len();
    let bytes = bytes_to_open(&*device).expect("is counted");
    assert!(bytes >= opening_bytes_max() + held_bytes(&catalog), "{bytes}");
    assert_eq!(device.list("").expect("memory lists").len(), before, "nothing is made");
}
