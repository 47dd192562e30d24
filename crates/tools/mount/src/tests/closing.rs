//! Closing spaces: all changes are stored, or their writer gets an error.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;

use device::{Failure, Fault, FaultDevice, Lasting, OperationKind};
use environment::Environment;
use flexspace::space::{FlexSpace, Options};
use rustix::io::Errno;
use sync::Mutex;

use crate::names::Names;
use crate::node::Node;
use crate::refusal::Refusal;
use crate::source::{Source, device_of};

fn names(dir: &Path, reported: &Arc<Mutex<Vec<String>>>) -> Names {
    let source = Source::new(dir, 64 << 10).expect("a directory");
    let reported = reported.clone();
    let report = Box::new(move |text: &str| reported.lock().push(text.to_owned()));
    Names::new(source, Environment::real(), report)
}

fn make(names: &Names, name: &str) -> Arc<Node> {
    let owner = (rustix::process::geteuid().as_raw(), 0);
    names.create(OsStr::new(name), 0o600, owner).expect("a new name")
}

/// Returns a file whose device can be made to fail; once it was closed it is opened again on one
/// that cannot.
fn on_faults(dir: PathBuf) -> (Node, Arc<FaultDevice>) {
    let device = FaultDevice::new(device_of(&dir).expect("a directory"));
    let options = Options { segment_bytes: 16 << 10, ..Options::default() };
    let space = FlexSpace::create(device.clone(), options).expect("a device");
    (Node::created(2, dir, space), device)
}

fn fail(device: &FaultDevice, kind: OperationKind, failure: Failure) {
    let nth = device.count(Some(kind)) + 1;
    device.fail(Fault { kind: Some(kind), nth, failure, lasting: Lasting::ForGood });
}

fn write(node: &Node, offset: Option<u64>, bytes: &[u8]) -> Result<(), Refusal> {
    node.change(&Environment::real(), |file| file.write(offset, bytes))
}

fn len(node: &Node) -> u64 {
    node.stat().expect("it is there").0
}

fn errno<T>(answer: Result<T, Refusal>) -> Option<Errno> {
    answer.err().map(|refusal| refusal.errno())
}

/// A write that has begun is done in the middle of a close: while the data is synced, and when the
/// stored state is cut already.
#[test]
fn what_is_acknowledged_beside_the_end_is_stored() {
    for kind in [OperationKind::Sync, OperationKind::SyncDir] {
        let dir = tempfile::tempdir().unwrap();
        let (node, device) = on_faults(dir.path().to_owned());
        write(&node, None, b"before").expect("room");
        let [(begun, has_begun), (go, may_go), (done, is_done)] =
            std::array::from_fn(|_| channel());
        let acknowledged = std::thread::scope(|scope| {
            let (node, may_go) = (&node, Mutex::new(may_go));
            let writer = scope.spawn(move || {
                node.change(&Environment::real(), |file| {
                    begun.send(()).expect("somebody waits for it");
                    may_go.lock().recv().expect("somebody says so");
                    let written = file.write(None, b", beside");
                    done.send(()).expect("somebody waits for it");
                    written
                })
            });
            has_begun.recv().expect("it begins");
            device.interpose(kind, move || {
                go.send(()).expect("it waits for that");
                is_done.recv().expect("it is done, or refused");
            });
            node.close().expect("a device");
            writer.join().expect("it ends").is_ok()
        });
        let stored = len(&Node::new(2, dir.path().to_owned()));
        assert_eq!(stored, if acknowledged { 14 } else { 6 }, "{kind:?}");
    }
}

#[test]
fn a_space_that_somebody_has_open_is_not_idle() {
    let dir = tempfile::tempdir().unwrap();
    let names = names(dir.path(), &Arc::default());
    let node = make(&names, "file");
    names.open(&node).expect("it is there");
    node.close_if_idle().expect("nothing is to be done");
    assert!(node.is_open());
    names.release(&node).expect("a device");
    node.close_if_idle().expect("a device");
    assert!(!node.is_open());
}

#[test]
fn a_space_without_room_to_be_stored_stays_open() {
    let dir = tempfile::tempdir().unwrap();
    let (node, device) = on_faults(dir.path().to_owned());
    for number in 0..2000_u64 {
        node.change(&Environment::real(), |file| {
            let bytes = &[number as u8];
            file.shift(crate::shift::Shift::Insert { offset: number / 2, bytes })
        })
        .expect("room");
    }
    fail(&device, OperationKind::Resize, Failure::NoSpace);
    let refused = node.close_if_idle();
    assert_eq!(errno(refused.clone()), Some(Errno::NOSPC));
    assert!(node.is_news(&refused));
    assert!(!node.is_news(&refused), "it is known");
    assert!(node.is_open());
    assert_eq!(len(&node), 2000);
    assert_eq!(errno(node.tidy()), Some(Errno::NOSPC));
    assert_eq!(errno(node.tidy()), Some(Errno::NOSPC), "it is still to be stored");
    assert_eq!(errno(node.sync()), Some(Errno::NOSPC));
    device.heal();
    write(&node, None, b"!").expect("room");
    node.tidy().expect("room");
    node.close_if_idle().expect("room");
    assert!(!node.is_open());
    assert_eq!(len(&node), 2001);
}

#[test]
fn what_a_failed_close_lost_is_told_once() {
    for is_synced in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let (node, device) = on_faults(dir.path().to_owned());
        write(&node, None, b"synced").expect("room");
        node.sync().expect("a device");
        write(&node, None, b" and not").expect("room");
        fail(&device, OperationKind::Sync, Failure::Io);
        assert_eq!(errno(node.close_if_idle()), Some(Errno::IO));
        node.tidy().expect("nothing is to be done");
        let told = if is_synced { node.sync() } else { node.open() };
        assert_eq!(errno(told), Some(Errno::IO), "synced {is_synced}");
        node.open().expect("it was told");
        node.sync().expect("it was told");
        assert!(len(&node) >= 6);
    }
}

#[test]
fn a_close_for_good_that_failed_is_told_by_every_sync() {
    let dir = tempfile::tempdir().unwrap();
    let (node, device) = on_faults(dir.path().to_owned());
    write(&node, None, b"not stored").expect("room");
    fail(&device, OperationKind::Sync, Failure::Io);
    assert_eq!(errno(node.close()), Some(Errno::IO));
    assert_eq!(errno(node.sync()), Some(Errno::IO));
    assert_eq!(errno(node.sync()), Some(Errno::IO));
}

#[test]
fn an_unasked_failure_is_reported_to_the_next_caller() {
    let dir = tempfile::tempdir().unwrap();
    let reported = Arc::default();
    let names = names(dir.path(), &reported);
    let node = make(&names, "file");
    node.looked_up();
    write(&node, None, b"not stored").expect("room");
    // No log can be made in a directory that was removed.
    std::fs::remove_dir_all(node.dir()).unwrap();
    names.forget(node.number, 1);
    assert_eq!(reported.lock().len(), 1, "{:?}", reported.lock());
    assert!(!node.is_open());
    assert_eq!(names.node(node.number).map(|node| node.number), Ok(node.number));
    assert!(names.open(&node).is_err());
}

#[test]
fn a_length_is_looked_at_again_when_others_stored_the_space() {
    let dir = tempfile::tempdir().unwrap();
    let names = names(dir.path(), &Arc::default());
    let node = make(&names, "file");
    node.close_if_idle().expect("a device");
    assert_eq!(len(&node), 0);
    let device = device_of(&node.dir()).expect("a directory");
    let space = FlexSpace::open(device, Options::default()).expect("nobody has it open");
    space.append(b"of another").expect("room");
    space.close().expect("a device");
    assert_eq!(len(&node), 10);
}
