//! Replies come out in the order of their commands, in any order of their lookups.

use super::{ReplyQueue, Waiting};
use crate::commands::Parked;
use crate::protocol::Parser;
use crate::protocol::{Bounds, Step};
use crate::store::session::Purpose;

fn waiting(key: &str) -> Waiting {
    let line = format!("GET {key}\r\n");
    let mut parser = Parser::default();
    let step = parser.step(line.as_bytes(), &Bounds::UNAUTHENTICATED);
    assert!(matches!(step, Step::Command { .. }));
    let parked = Parked { command: 0, purpose: Purpose::Read, is_muted: false, begun: None };
    Waiting::new(parked, parser.args(line.as_bytes()), 1, None)
}

fn say(reply_queue: &mut ReplyQueue, text: &str) {
    let mut tail = reply_queue.take_tail();
    tail.extend_from_slice(text.as_bytes());
    reply_queue.put_tail(tail);
}

fn answer(reply_queue: &mut ReplyQueue, number: u64, text: &str, out: &mut Vec<u8>) -> Option<u64> {
    reply_queue.take(number).expect("it waits");
    let next = reply_queue.next_of(number);
    let reply = match reply_queue.is_first(number) {
        true => {
            out.extend_from_slice(text.as_bytes());
            Vec::new()
        }
        false => text.as_bytes().to_vec(),
    };
    reply_queue.answer(number, reply, out);
    next
}

#[test]
fn what_is_answered_early_waits_for_what_is_before_it() {
    let (mut reply_queue, mut out) = (ReplyQueue::default(), Vec::new());
    assert_eq!(reply_queue.push(waiting("a")), Some(0));
    say(&mut reply_queue, "1");
    say(&mut reply_queue, "2");
    assert_eq!(reply_queue.push(waiting("b")), Some(2));
    say(&mut reply_queue, "");
    assert_eq!(reply_queue.push(waiting("c")), Some(3));
    say(&mut reply_queue, "5");
    assert_eq!((reply_queue.waiting(), reply_queue.reply_bytes()), (3, 3));
    answer(&mut reply_queue, 2, "3", &mut out);
    assert!(out.is_empty());
    answer(&mut reply_queue, 0, "0", &mut out);
    assert_eq!(out, b"0123");
    answer(&mut reply_queue, 3, "4", &mut out);
    assert_eq!(out, b"012345");
    assert!(reply_queue.is_empty());
    assert_eq!((reply_queue.waiting(), reply_queue.reply_bytes()), (0, 0));
    assert_eq!(reply_queue.memory_bytes, 0);
    assert_eq!(reply_queue.push(waiting("d")), Some(5), "numbers are not used twice");
    assert!(reply_queue.take(3).is_none());
}

#[test]
fn those_that_want_the_same_key_follow_each_other() {
    let (mut reply_queue, mut out) = (ReplyQueue::default(), Vec::new());
    assert_eq!(reply_queue.push(waiting("a")), Some(0));
    assert_eq!(reply_queue.push(waiting("b")), Some(1));
    assert_eq!(reply_queue.push(waiting("a")), None);
    assert_eq!(reply_queue.push(waiting("a")), None);
    assert_eq!(reply_queue.lookup_of(b"a"), Some(0));
    assert_eq!(answer(&mut reply_queue, 0, "0", &mut out), Some(2));
    assert_eq!(reply_queue.lookup_of(b"a"), Some(2));
    assert_eq!(answer(&mut reply_queue, 2, "2", &mut out), Some(3));
    assert_eq!(answer(&mut reply_queue, 1, "1", &mut out), None);
    assert_eq!(out, b"012");
    assert_eq!(answer(&mut reply_queue, 3, "3", &mut out), None);
    assert_eq!(out, b"0123");
}
