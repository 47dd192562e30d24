//! The overlay shows the same as a store with the changes written.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::store::Store;
use crate::tests::map_store::MapStore;

use super::Transaction;

fn all(store: &dyn Store, from: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut pairs = Vec::new();
    let scanned = store.walk(0, Some(from), &mut |key, value| {
        pairs.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    });
    scanned.expect("a map can be walked over");
    pairs
}

fn whole(store: &dyn Store) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut pairs = Vec::new();
    let scanned = store.walk(0, None, &mut |key, value| {
        pairs.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    });
    scanned.expect("a map can be walked over");
    pairs
}

#[test]
fn an_overlay_over_an_ordered_store_reads_like_it_after_the_commit() {
    reads_like_the_store_after_its_commit(MapStore::default());
}

#[test]
fn an_overlay_over_an_unordered_store_reads_like_it_after_the_commit() {
    reads_like_the_store_after_its_commit(MapStore::hashed());
}

fn reads_like_the_store_after_its_commit(store: MapStore) {
    let store = Arc::new(store);
    for key in ["b", "d", "f", "h"] {
        store.put(0, key.as_bytes(), b"old").expect("puts");
    }
    store.put(1, b"c", b"other database").expect("puts");
    let overlay = Transaction::new(&*store, None);
    for key in ["a", "d", "e", "z"] {
        overlay.put(0, key.as_bytes(), b"new").expect("puts");
    }
    overlay.update(0, b"f", &mut |_| crate::store::Change::Delete).expect("deletes");
    let shown: Vec<_> = [&b""[..], b"d", b"dd", b"g", b"zz"].map(|from| all(&overlay, from)).into();
    let (count, everything) = (overlay.counted_keys(0), whole(&overlay));
    assert_eq!(whole(&*store).len(), 4, "nothing is written before the commit");
    overlay.commit(Some(&|| ())).expect("commits");
    let written: Vec<_> =
        [&b""[..], b"d", b"dd", b"g", b"zz"].map(|from| all(&*store, from)).into();
    assert_eq!(shown, written);
    assert_eq!(everything, whole(&*store));
    assert_eq!(everything.len(), 6);
    assert_eq!(count, store.counted_keys(0));
    assert!(count.is_ok_and(|count| count.is_none_or(|count| count == 6)), "it is counted");

    let overlay = Transaction::new(&*store, None);
    overlay.clear(0).expect("clears");
    overlay.put(0, b"m", b"1").expect("puts");
    assert_eq!(whole(&overlay).len(), 1);
    let mut seen = 0;
    let scanned = overlay.walk(0, None, &mut |_, _| {
        seen += 1;
        ControlFlow::Break(())
    });
    scanned.expect("scans");
    assert_eq!(seen, 1, "a scan that was broken off goes on");
    overlay.commit(Some(&|| ())).expect("commits");
    assert_eq!(whole(&*store), [(b"m".to_vec(), b"1".to_vec())]);
    assert_eq!(store.get(1, b"c", &mut Vec::new()), Ok(true), "another database was cleared");
}

/// A walk in slices, begun again at the last key. The store's changes are written in the midst of
/// the walk: no key is lost or met twice, whichever of the two it was in.
#[test]
fn a_walk_goes_on_over_the_store_after_the_commit() {
    for store in [MapStore::default(), MapStore::hashed()] {
        let name = |index: u32| format!("key:{index}").into_bytes();
        for index in (0..300).step_by(3) {
            store.put(0, &name(index), b"old").expect("puts");
        }
        let mut overlay = Some(Transaction::new(&store, None));
        for index in (0..300).filter(|index| index % 3 != 1) {
            overlay.as_ref().expect("it is open").put(0, &name(index), b"new").expect("puts");
        }
        let (mut met, mut from) = (Vec::new(), None::<Vec<u8>>);
        for slice in 0.. {
            if slice == 7 {
                overlay.take().expect("it is open").commit(Some(&|| ())).expect("commits");
            }
            let shown: &dyn Store = overlay.as_ref().map_or(&store, |overlay| overlay);
            let (begin, until) = (from.take(), met.len() + 10);
            let walked = shown.walk(0, begin.as_deref(), &mut |key, _| {
                if met.len() == until {
                    from = Some(key.to_vec());
                    return ControlFlow::Break(());
                }
                met.push(key.to_vec());
                ControlFlow::Continue(())
            });
            walked.expect("a map can be walked over");
            if from.is_none() {
                break;
            }
        }
        assert_eq!(met.len(), 200);
        met.sort_unstable();
        met.dedup();
        assert_eq!(met.len(), 200, "a key was met twice");
    }
}
