//! Models of the sequence under shuttle: very many random schedules of a few threads.
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle" cargo test -p thermocline-sequence --profile models \
//!   --lib models --target-dir target/shuttle
//! ```
//!
//! Shuttle runs are sequentially consistent, and so are all of the sequence's accesses: there is no
//! weaker order here for loom to find. The ring is four slots long, so that it wraps and fills.

use std::sync::Arc;

use codec::SeqNo;
use shuttle::sync::Mutex;
use shuttle::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use shuttle::thread::spawn;
use sync::schedules::Schedules;

use super::Sequence;

const SCHEDULES: Schedules = Schedules::new(20_000);
const WRITERS: u64 = 2;
const WRITES: u64 = 3;

struct Shared {
    sequence: Arc<Sequence>,
    /// By number: whether the write was applied.
    applied: Vec<AtomicBool>,
    acknowledged: AtomicU64,
    /// The number of the pin that is held; zero while none is for sure.
    held: AtomicU64,
}

/// Writers finish in any order next to a thread that takes pins and one that reads the horizon.
fn pins_beside_writers() {
    let count = WRITERS * WRITES;
    let shared = Arc::new(Shared {
        sequence: Arc::new(Sequence::new()),
        applied: (0..=count).map(|_| AtomicBool::new(false)).collect(),
        acknowledged: AtomicU64::new(0),
        held: AtomicU64::new(0),
    });
    let mut threads: Vec<_> = (0..WRITERS)
        .map(|_| {
            let shared = Arc::clone(&shared);
            spawn(move || {
                for _ in 0..WRITES {
                    let ticket = shared.sequence.begin();
                    let number = ticket.seqno().get();
                    shared.applied[number as usize].store(true, SeqCst);
                    drop(ticket);
                    shared.acknowledged.fetch_max(number, SeqCst);
                }
            })
        })
        .collect();
    let pinner = Arc::clone(&shared);
    threads.push(spawn(move || {
        for must_not_wait in [false, true] {
            let before = pinner.acknowledged.load(SeqCst);
            let pin = match must_not_wait {
                true => pinner.sequence.try_pin(),
                false => Some(pinner.sequence.pin()),
            };
            let Some(pin) = pin else { continue };
            let number = pin.seqno().get();
            assert!(number >= before, "I1: pin {number} misses {before}");
            let applied = |at: u64| pinner.applied[at as usize].load(SeqCst);
            assert!((1..=number).all(applied), "I2: below pin {number} not all is applied");
            pinner.held.store(number, SeqCst);
            assert!(pinner.sequence.horizon().get() <= number, "I3: the pin itself");
            pinner.held.store(0, SeqCst);
        }
    }));
    let asker = Arc::clone(&shared);
    threads.push(spawn(move || {
        for _ in 0..2 {
            let horizon = asker.sequence.horizon().get();
            // Held now, so it was held when the horizon was read, or was taken later.
            let held = asker.held.load(SeqCst);
            assert!(held == 0 || horizon <= held, "I3: horizon {horizon}, pin {held}");
        }
    }));
    for thread in threads {
        thread.join().expect("a model thread fails by panicking");
    }
    assert_eq!(shared.sequence.visible(), SeqNo::new(count), "a finish was missed");
    assert_eq!(shared.sequence.oldest_pin(), None);
    assert_eq!(shared.sequence.horizon(), SeqNo::new(count), "a pin counts that there is not");
}

/// Returns the pins below a number: [`Sequence::pins_below`], or a wrong way of it.
type PinsBelow = fn(&Sequence, SeqNo) -> Option<Vec<SeqNo>>;

/// A compaction takes the pins below the newest number that it has, while another thread pins and
/// others write. It must get every pin below that number, the pins that are taken later included.
fn pins_of_a_compaction(pins_below: PinsBelow) {
    let sequence = Arc::new(Sequence::new());
    let writers: Vec<_> = (0..WRITERS)
        .map(|_| {
            let sequence = Arc::clone(&sequence);
            spawn(move || (0..2).for_each(|_| drop(sequence.begin())))
        })
        .collect();
    let of_pinner = Arc::clone(&sequence);
    let pinner = spawn(move || of_pinner.pin());
    let of_compaction = Arc::clone(&sequence);
    let compaction = spawn(move || {
        let newest = of_compaction.last();
        (newest, pins_below(&of_compaction, newest))
    });
    let pin = pinner.join().expect("a model thread fails by panicking");
    let (newest, below) = compaction.join().expect("a model thread fails by panicking");
    let number = pin.seqno();
    let is_listed = below.as_ref().is_none_or(|below| below.contains(&number));
    assert!(number >= newest || is_listed, "pin {number:?} below {newest:?} is not in {below:?}");
    drop(pin);
    for writer in writers {
        writer.join().expect("a model thread fails by panicking");
    }
    assert_eq!(sequence.pins_below(newest), Some(Vec::new()), "no pin is held");
}

/// Two writers take their numbers under a journal's lock, and one of them cannot end before it had
/// that lock again, as where it waits for a flush. Meanwhile others use all numbers that there are.
fn numbers_under_a_lock() {
    let sequence = Arc::new(Sequence::new());
    let journal = Arc::new(Mutex::new(()));
    let journaled = |writes: u64, waits: bool| {
        let (sequence, journal) = (Arc::clone(&sequence), Arc::clone(&journal));
        spawn(move || {
            for _ in 0..writes {
                let ticket = loop {
                    let locked = journal.lock().expect("no model thread panics with it");
                    let taken = sequence.try_begin();
                    drop(locked);
                    match taken {
                        Some(ticket) => break ticket,
                        None => sequence.wait_for_room(),
                    }
                };
                if waits {
                    drop(journal.lock().expect("no model thread panics with it"));
                }
                drop(ticket);
            }
        })
    };
    let mut threads = vec![journaled(1, true), journaled(2, false)];
    let unjournaled = Arc::clone(&sequence);
    threads.push(spawn(move || (0..4).for_each(|_| drop(unjournaled.begin()))));
    for thread in threads {
        thread.join().expect("a model thread fails by panicking");
    }
    assert_eq!(sequence.visible(), SeqNo::new(7), "a finish was missed");
}

#[test]
fn a_number_under_a_lock_blocks_no_other_thread() {
    SCHEDULES.check("numbers_under_a_lock", numbers_under_a_lock);
}

#[test]
fn pins_and_horizons_hold_on_every_schedule_tried() {
    SCHEDULES.check("pins_beside_writers", pins_beside_writers);
}

#[test]
fn a_compaction_gets_every_pin_below_its_newest_number() {
    SCHEDULES.check("pins_of_a_compaction", || pins_of_a_compaction(Sequence::pins_below));
}

/// The list of the pins misses a pin that is being taken.
#[test]
#[should_panic(expected = "is not in")]
fn the_list_of_pins_alone_is_not_enough() {
    let listed: PinsBelow =
        |sequence, newest| Some(sequence.pins().into_iter().filter(|pin| *pin < newest).collect());
    SCHEDULES.check("the_list_of_pins", move || pins_of_a_compaction(listed));
}
