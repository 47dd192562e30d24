//! The overlay shows what a store with the changes written would.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::store::{Durable, Store};
use crate::tests::map_store::MapStore;

use super::Transaction;

fn all(store: &dyn Store, from: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut pairs = Vec::new();
    let scanned = store.scan(0, from, &mut |key, value| {
        pairs.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    });
    scanned.expect("a map can be scanned");
    pairs
}

#[test]
fn an_overlay_reads_like_the_store_after_its_commit() {
    let store = Arc::new(MapStore::default());
    for key in ["b", "d", "f", "h"] {
        store.put(0, key.as_bytes(), b"old").expect("puts");
    }
    store.put(1, b"c", b"other database").expect("puts");
    let overlay = Transaction::new(&*store);
    for key in ["a", "d", "e", "z"] {
        overlay.put(0, key.as_bytes(), b"new").expect("puts");
    }
    overlay.update(0, b"f", &mut |_| crate::store::Change::Delete).expect("deletes");
    let shown: Vec<_> = [&b""[..], b"d", b"dd", b"g", b"zz"].map(|from| all(&overlay, from)).into();
    let count = overlay.key_count(0);
    assert_eq!(all(&*store, b"").len(), 4, "nothing is written before the commit");
    overlay.commit().expect("commits");
    let written: Vec<_> =
        [&b""[..], b"d", b"dd", b"g", b"zz"].map(|from| all(&*store, from)).into();
    assert_eq!(shown, written);
    assert_eq!(count, store.commands().key_count(0));

    let overlay = Transaction::new(&*store);
    overlay.clear(0).expect("clears");
    overlay.put(0, b"m", b"1").expect("puts");
    assert_eq!(all(&overlay, b"").len(), 1);
    let mut seen = 0;
    let scanned = overlay.scan(0, b"", &mut |_, _| {
        seen += 1;
        ControlFlow::Break(())
    });
    scanned.expect("scans");
    assert_eq!(seen, 1, "a scan that was broken off goes on");
    overlay.commit().expect("commits");
    assert_eq!(all(&*store, b""), [(b"m".to_vec(), b"1".to_vec())]);
    assert_eq!(store.key_count(1), Ok(1), "another database was cleared");
}
