//! The queue of values between threads.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use thermocline_sync::channel::{NoValue, channel};

#[test]
fn values_of_many_senders_arrive_in_the_order_of_each() {
    let (sender, receiver) = channel();
    thread::scope(|scope| {
        for thread in 0..4_u64 {
            let sender = sender.clone();
            scope.spawn(move || (0..1000_u64).for_each(|number| sender.send((thread, number))));
        }
        drop(sender);
        let mut next = [0; 4];
        for (thread, number) in receiver {
            assert_eq!(number, next[thread as usize]);
            next[thread as usize] += 1;
        }
        assert_eq!(next, [1000; 4]);
    });
}

#[test]
fn a_receiver_learns_that_no_sender_is_left() {
    let (sender, receiver) = channel::<u64>();
    assert_eq!(receiver.recv_timeout(Duration::from_millis(1)), Err(NoValue::TimedOut));
    thread::scope(|scope| {
        let waiting = scope.spawn(move || (receiver.recv(), receiver.recv()));
        sender.send(7);
        drop(sender);
        assert_eq!(waiting.join().unwrap(), (Ok(7), Err(NoValue::Closed)));
    });
}

#[test]
fn values_without_a_receiver_are_dropped() {
    let (sender, receiver) = channel();
    let value = Arc::new(());
    sender.send(Arc::clone(&value));
    drop(receiver);
    sender.send(Arc::clone(&value));
    assert_eq!(Arc::strong_count(&value), 1);
}
