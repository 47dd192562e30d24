//! The result of a future whose answer is that the engine which was asked is closed.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::error::Error;
use crate::session::async_reader::{Answer, Outcome, Request};
use crate::stand_in::OneRead;
use crate::{AsyncGet, Db, Keyspace, KeyspaceOptions, Options};

/// Returns a get whose request was handed to the engine that fills the keyspace now, and dropped
/// there.
fn dropped(space: &Keyspace) -> AsyncGet {
    let answer = Arc::new(Answer::default());
    drop(Request::new(Box::new(OneRead::default()), Arc::clone(&answer)));
    let asked = Arc::downgrade(&space.entry.instance().expect("it is there"));
    AsyncGet { answer: Some(answer), asked, ..space.futures().get(b"key") }
}

fn poll(mut get: AsyncGet) -> Poll<Outcome> {
    Pin::new(&mut get).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_get_that_was_under_way_when_its_keyspace_was_cleared_is_begun_again() {
    let dir = tempfile::tempdir().expect("there is room");
    let db = Db::open(dir.path(), Options::default()).expect("opens");
    let space = db.keyspace("s", KeyspaceOptions::default()).expect("opens");
    space.put(b"key", b"old").expect("is put");
    assert_eq!(poll(dropped(&space)), Poll::Ready(Err(Error::Closed)), "nothing was cleared");
    let [first, second] = [dropped(&space), dropped(&space)];
    space.clear().expect("is cleared");
    assert_eq!(poll(first), Poll::Ready(Ok(None)));
    space.put(b"key", b"new").expect("is put");
    assert_eq!(poll(second), Poll::Ready(Ok(Some(b"new".to_vec()))));
    let third = dropped(&space);
    db.drop_keyspace("s").expect("is dropped");
    assert!(matches!(poll(third), Poll::Ready(Err(Error::NoKeyspace { .. }))));
}
