//! Reads that wait for the device beside each other: many at once, and on seats.

use std::collections::BTreeMap;
use std::sync::Arc;

use codec::SeqNo;
use engine::{Begun, BegunOld, Engine, Error, Listener, NoJournal, Old, Op, Result, Seat};
use memory_budget::MemoryBudget;

use super::stores::{Bench, key, small};
use crate::Options;

/// A store of 500 keys, every third one deleted again, of which the cache has nothing.
fn cold() -> Bench {
    let bench = Bench::new();
    for number in 0..500 {
        bench.put(&key(number), &[number as u8; 50]);
    }
    for number in (0..500).step_by(3) {
        bench.delete(&key(number));
    }
    bench.settle();
    bench.reopen()
}

fn expected(number: u64) -> Option<Vec<u8>> {
    (number < 500 && !number.is_multiple_of(3)).then(|| vec![number as u8; 50])
}

/// What a seat has told of, by tag.
#[derive(Default)]
struct Told {
    values: BTreeMap<u64, Result<Option<Vec<u8>>>>,
    olds: BTreeMap<u64, (Option<Vec<u8>>, bool)>,
}

impl Listener for Told {
    fn value(&mut self, tag: u64, value: Result<Option<&[u8]>>) {
        let value = value.map(|value| value.map(<[u8]>::to_vec));
        assert!(self.values.insert(tag, value).is_none(), "told of {tag} twice");
    }
    fn old(&mut self, tag: u64, old: Result<Old<'_>>) {
        let old = old.expect("nothing is damaged");
        let told = (old.value.map(<[u8]>::to_vec), old.is_newest());
        assert!(self.olds.insert(tag, told).is_none(), "told of {tag} twice");
    }
}

fn finish(seat: &mut dyn Seat, told: &mut Told) {
    while seat.pending() > 0 {
        assert!(seat.complete(true, told).expect("the queue works") > 0, "it waits for one");
    }
}

#[test]
fn many_keys_are_read_at_once() {
    let bench = cold();
    bench.put(&key(7), b"in memory");
    let numbers: Vec<u64> = (0..600).map(|at| at * 7 % 510).collect();
    let keys: Vec<Vec<u8>> = numbers.iter().map(|number| key(*number)).collect();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    for _ in 0..2 {
        let mut found = vec![None; keys.len()];
        let mut tell = |index: usize, value: Option<&[u8]>| {
            assert!(found[index].is_none(), "told of {index} twice");
            found[index] = Some(value.map(<[u8]>::to_vec));
        };
        bench.store.multi_get(&keys, &mut tell).expect("nothing is damaged");
        for (number, found) in numbers.iter().zip(found) {
            let expected =
                if *number == 7 { Some(b"in memory".to_vec()) } else { expected(*number) };
            assert_eq!(found, Some(expected), "{number}");
        }
    }
}

#[test]
fn a_seat_keeps_as_many_pending_as_it_may() {
    let bench = cold();
    let mut seat = bench.store.seat(4).expect("the store is open").expect("it has seats");
    let mut told = Told::default();
    let (mut into, mut most) = (Vec::new(), 0);
    for number in 0..500 {
        loop {
            match seat.begin_get(number, &key(number), &mut into).expect("nothing is damaged") {
                Begun::Found => assert_eq!(expected(number).as_ref(), Some(&into)),
                Begun::Absent => assert_eq!(expected(number), None),
                Begun::Pending => {}
                Begun::Full => {
                    assert_eq!(seat.pending(), 4);
                    seat.complete(true, &mut told).expect("the queue works");
                    continue;
                }
            }
            break;
        }
        most = most.max(seat.pending());
    }
    finish(&mut *seat, &mut told);
    assert_eq!(most, 4);
    assert!(told.values.len() > 50, "{} had to be read", told.values.len());
    for (number, value) in told.values {
        assert_eq!(value, Ok(expected(number)), "{number}");
    }
}

/// A seat's user who looks at the budget whenever it is told of a value.
struct Weighing {
    budget: Arc<MemoryBudget>,
    most_bytes: u64,
    told: BTreeMap<u64, Vec<u8>>,
}

impl Weighing {
    fn weigh(&mut self) {
        self.most_bytes = self.most_bytes.max(self.budget.used());
    }
}

impl Listener for Weighing {
    fn value(&mut self, tag: u64, value: Result<Option<&[u8]>>) {
        let value = value.expect("nothing is damaged").expect("it is there");
        assert!(self.told.insert(tag, value.to_vec()).is_none(), "told of {tag} twice");
        self.weigh();
    }
    fn old(&mut self, tag: u64, _old: Result<Old<'_>>) {
        panic!("{tag} was not asked for")
    }
}

#[test]
fn long_values_are_read_a_few_at_a_time_and_their_buffers_are_charged() {
    const COUNT: u64 = 16;
    const VALUE_BYTES: u64 = 1 << 20;
    let long = |number: u64| -> Vec<u8> {
        // Nothing that compression makes shorter.
        let words = (0..VALUE_BYTES / 8).map(|word| codec::hash64(number, &word.to_le_bytes()));
        words.flat_map(u64::to_le_bytes).collect()
    };
    let roomy = Options { memtable_bytes_max: 8 << 20, ..small() };
    let bench = Bench::with_options(device::memory(), Arc::new(NoJournal), 128 << 20, roomy);
    let bench = bench.expect("an empty device opens");
    for number in 0..COUNT {
        bench.put(&key(number), &long(number));
    }
    bench.settle();
    // Its cache is smaller than a value.
    let bench = bench.reopen();
    let mut seat = bench.store.seat(128).expect("open").expect("it has seats");
    let budget = Arc::clone(&bench.budget);
    let mut user = Weighing { budget, most_bytes: 0, told: BTreeMap::new() };
    for number in 0..COUNT {
        let begun = seat.begin_get(number, &key(number), &mut Vec::new());
        assert_eq!(begun, Ok(Begun::Pending));
        user.weigh();
    }
    while seat.pending() > 0 {
        let told = seat.complete(false, &mut user).expect("the queue works");
        assert!(told as u64 * VALUE_BYTES <= 4 << 20, "{told} values at once");
        user.weigh();
    }
    assert_eq!(user.told.len() as u64, COUNT);
    for (number, value) in &user.told {
        assert!(*value == long(*number), "{number}");
    }
    let most = user.most_bytes;
    assert!((3 * VALUE_BYTES..5 * VALUE_BYTES).contains(&most), "{most} bytes were charged");
    drop(seat);
    assert!(bench.budget.used() < VALUE_BYTES, "the buffers are given back");
}

#[test]
fn what_would_wait_is_not_done_at_once() {
    let bench = cold();
    let mut into = Vec::new();
    assert_eq!(bench.store.get_at_once(&key(1), &mut into), Ok(None));
    let mut never = |_: Option<&[u8]>| -> engine::Change { panic!("nothing may change") };
    let ticket = bench.sequence.begin();
    assert_eq!(bench.store.rmw_at_once(&key(1), &mut never, ticket.seqno()), Ok(false));
    drop(ticket);
    assert_eq!(bench.get(&key(1)), expected(1));
    assert_eq!(bench.store.get_at_once(&key(1), &mut into), Ok(Some(true)), "it is cached");
}

#[test]
fn an_old_value_is_the_newest_until_it_is_written() {
    type Meanwhile = fn(&Bench) -> SeqNo;
    let cases: [(Meanwhile, bool); 5] = [
        (|_| SeqNo::ZERO, true),
        (|bench| bench.put(&key(2), b"other"), true),
        (|bench| bench.put(&key(1), b"new"), false),
        (|bench| bench.delete(&key(1)), false),
        (
            |bench| {
                let seqno = bench.put(&key(1), b"new");
                bench.store.flush().expect("memory takes it");
                seqno
            },
            false,
        ),
    ];
    for (index, (meanwhile, is_newest)) in cases.into_iter().enumerate() {
        let bench = cold();
        let mut seat = bench.store.seat(4).expect("open").expect("it has seats");
        assert_eq!(seat.begin_old(9, &key(1)), Ok(BegunOld::Pending));
        meanwhile(&bench);
        let mut told = Told::default();
        finish(&mut *seat, &mut told);
        assert_eq!(told.olds.remove(&9), Some((expected(1), is_newest)), "case {index}");
        if index == 0 {
            assert_eq!(seat.begin_old(9, &key(1)), Ok(BegunOld::AtOnce), "it is cached");
        }
    }
}

/// Whoever writes a key holds its lock (law L6), and whoever looks an old value up does not, before it is told
/// of it (law L7). So the writer may have entered a memtable that another one has the place of by then.
#[test]
fn an_old_value_is_not_the_newest_if_a_slow_writer_has_put_another_one() {
    let bench = cold();
    let shared = &bench.store.shared;
    let mut seat = bench.store.seat(4).expect("open").expect("it has seats");
    let active = || {
        let state = shared.open_state().expect("it is open");
        Arc::clone(state.active(&key(1), SeqNo::ZERO).expect("it is open").0)
    };
    let slow = active();
    std::thread::scope(|scope| {
        let entered = slow.enter().expect("it is not sealed");
        scope.spawn(|| shared.seal(&[Arc::clone(&slow)]));
        while active().id() == slow.id() {
            std::thread::yield_now();
        }
        assert_eq!(seat.begin_old(7, &key(1)), Ok(BegunOld::Pending));
        let ticket = bench.sequence.begin();
        entered.insert(&Op::Put { key: &key(1), value: b"slow" }, ticket.seqno());
        shared.family.note_applied(ticket.seqno());
        drop(entered);
    });
    bench.store.flush().expect("memory takes it");
    let mut told = Told::default();
    finish(&mut *seat, &mut told);
    assert_eq!(told.olds.remove(&7), Some((expected(1), false)));
}

#[test]
fn damage_is_told_of_the_look_up_that_meets_it() {
    let bench = cold();
    let state = bench.store.shared.state.load_full();
    for (_, table) in state.version.tables() {
        let name = format!("table-{}", table.summary().id.number);
        let file = bench.device.open(&name, device::Mode::Write).expect("it is there");
        file.write_at(20, b"damage").expect("memory writes");
    }
    let mut seat = bench.store.seat(600).expect("open").expect("it has seats");
    let (mut told, mut into) = (Told::default(), Vec::new());
    for number in 0..500 {
        seat.begin_get(number, &key(number), &mut into).expect("it waits");
    }
    finish(&mut *seat, &mut told);
    let (damaged, whole): (Vec<_>, Vec<_>) =
        told.values.into_iter().partition(|(_, value)| value.is_err());
    assert!(!damaged.is_empty() && !whole.is_empty(), "some blocks are damaged, some are not");
    for (number, value) in damaged {
        assert!(matches!(value, Err(Error::Corruption(_))), "{number}: {value:?}");
    }
    for (number, value) in whole {
        assert_eq!(value, Ok(expected(number)));
    }
}

#[test]
fn a_seat_of_a_closed_store_says_so() {
    let bench = cold();
    let mut seat = bench.store.seat(4).expect("open").expect("it has seats");
    bench.store.close().expect("closes");
    assert_eq!(seat.begin_get(1, b"k", &mut Vec::new()), Err(Error::Closed));
    assert_eq!(seat.begin_old(1, b"k"), Err(Error::Closed));
    assert!(bench.store.seat(4).is_err());
}
