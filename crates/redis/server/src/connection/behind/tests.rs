//! Replies come out in the order of their commands, in any order of their lookups.

use super::{Behind, Waiting};
use crate::commands::Parked;
use crate::protocol::Parser;
use crate::protocol::{Bounds, Step};
use crate::store::session::Purpose;

fn waiting(key: &str) -> Waiting {
    let line = format!("GET {key}\r\n");
    let mut parser = Parser::default();
    let step = parser.step(line.as_bytes(), &Bounds::UNAUTHENTICATED);
    assert!(matches!(step, Step::Command { .. }));
    let waits = Parked { command: 0, purpose: Purpose::Read, is_muted: false, begun: None };
    Waiting::new(waits, parser.args(line.as_bytes()), 1, None)
}

fn say(behind: &mut Behind, text: &str) {
    let mut tail = behind.take_tail();
    tail.extend_from_slice(text.as_bytes());
    behind.put_tail(tail);
}

fn answer(behind: &mut Behind, number: u64, text: &str, out: &mut Vec<u8>) -> Option<u64> {
    behind.take(number).expect("it waits");
    let next = behind.next_of(number);
    let reply = match behind.is_first(number) {
        true => {
            out.extend_from_slice(text.as_bytes());
            Vec::new()
        }
        false => text.as_bytes().to_vec(),
    };
    behind.answer(number, reply, out);
    next
}

#[test]
fn what_is_answered_early_waits_for_what_is_before_it() {
    let (mut behind, mut out) = (Behind::default(), Vec::new());
    assert_eq!(behind.push(waiting("a")), Some(0));
    say(&mut behind, "1");
    say(&mut behind, "2");
    assert_eq!(behind.push(waiting("b")), Some(2));
    say(&mut behind, "");
    assert_eq!(behind.push(waiting("c")), Some(3));
    say(&mut behind, "5");
    assert_eq!((behind.waiting(), behind.reply_bytes()), (3, 3));
    answer(&mut behind, 2, "3", &mut out);
    assert!(out.is_empty());
    answer(&mut behind, 0, "0", &mut out);
    assert_eq!(out, b"0123");
    answer(&mut behind, 3, "4", &mut out);
    assert_eq!(out, b"012345");
    assert!(behind.is_empty());
    assert_eq!((behind.waiting(), behind.reply_bytes()), (0, 0));
    assert_eq!(behind.memory_bytes, 0);
    assert_eq!(behind.push(waiting("d")), Some(5), "numbers are not used twice");
    assert!(behind.take(3).is_none());
}

#[test]
fn those_that_want_the_same_key_follow_each_other() {
    let (mut behind, mut out) = (Behind::default(), Vec::new());
    assert_eq!(behind.push(waiting("a")), Some(0));
    assert_eq!(behind.push(waiting("b")), Some(1));
    assert_eq!(behind.push(waiting("a")), None);
    assert_eq!(behind.push(waiting("a")), None);
    assert_eq!(behind.lookup_of(b"a"), Some(0));
    assert_eq!(answer(&mut behind, 0, "0", &mut out), Some(2));
    assert_eq!(behind.lookup_of(b"a"), Some(2));
    assert_eq!(answer(&mut behind, 2, "2", &mut out), Some(3));
    assert_eq!(answer(&mut behind, 1, "1", &mut out), None);
    assert_eq!(out, b"012");
    assert_eq!(answer(&mut behind, 3, "3", &mut out), None);
    assert_eq!(out, b"0123");
}
