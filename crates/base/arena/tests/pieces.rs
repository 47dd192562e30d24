//! The pool of pieces against the addresses of the pieces that it handed out, and with threads.
//!
//! A random test prints its seed; with `SEED=<seed>` and the test's name it is replayed.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::scope;

use crate::random::Random;
use thermocline_arena::pieces::{Meter, Piece, Pool};

/// A page of the system.
const PAGE: usize = 4096;
const SLAB: usize = 256 << 10;

/// The bytes reported to the meter, at present and at most.
#[derive(Debug, Default)]
struct Told {
    bytes: AtomicU64,
    most: AtomicU64,
}

impl Meter for Told {
    fn add(&self, bytes: u64) {
        let now = self.bytes.fetch_add(bytes, Relaxed) + bytes;
        self.most.fetch_max(now, Relaxed);
    }

    fn subtract(&self, bytes: u64) {
        let before = self.bytes.fetch_sub(bytes, Relaxed);
        assert!(before >= bytes, "{bytes} bytes less of {before}");
    }
}

/// A piece, and the byte that it is full of.
type Held = (Piece, u8);

fn fill(mut piece: Piece, byte: u8) -> Held {
    piece.fill(byte);
    (piece, byte)
}

fn check_whole((piece, byte): &Held) {
    assert!(piece.iter().all(|found| found == byte), "a piece of {} bytes", piece.len());
}

/// The figures, as the pieces' addresses say.
fn check_figures(pool: &Pool, told: &Told, held: &[Held]) {
    let (mut pages, mut places) = (BTreeSet::new(), BTreeSet::new());
    for (piece, _) in held {
        let (begin, end) = (piece.as_ptr().addr(), piece.as_ptr().addr() + piece.capacity());
        pages.extend(begin / PAGE..end.div_ceil(PAGE));
        places.insert((begin, end));
    }
    assert_eq!(places.len(), held.len(), "P1");
    let apart = places.iter().zip(places.iter().skip(1)).all(|(a, b)| a.1 <= b.0);
    assert!(apart, "P1: two pieces overlap");
    let used: usize = held.iter().map(|(piece, _)| piece.capacity()).sum();
    assert_eq!(pool.used(), used as u64);
    assert_eq!(pool.resident() - pool.idle(), (pages.len() * PAGE) as u64);
    assert_eq!(pool.resident(), told.bytes.load(Relaxed), "P2");
}

#[test]
fn figures_are_exact_and_pieces_apart_whatever_comes_and_goes() {
    let mut random = Random::new("figures_are_exact_and_pieces_apart_whatever_comes_and_goes");
    for _ in 0..20 {
        let told = Arc::new(Told::default());
        let slab_bytes = [32 << 10, 64 << 10, SLAB, 4 << 20][random.below(4)];
        let pool = Pool::metered(slab_bytes, Arc::clone(&told) as _);
        let mut held: Vec<Held> = Vec::new();
        // Lengths are similar for a while, and then others are.
        let mut longest = 1;
        for step in 0..2000 {
            if step % 250 == 0 {
                longest = [64, 300, 4300, 9000, 17_000, 150_000][random.below(6)];
            }
            match random.below(16) {
                0..8 => {
                    let (least, byte) = (longest * 3 / 4, random.below(256) as u8);
                    let len = least + random.below(longest - least + 1);
                    held.push(fill(pool.take(len), byte));
                }
                8..14 if !held.is_empty() => {
                    check_whole(&held.swap_remove(random.below(held.len())));
                }
                14 => {
                    let (idle, resident) = (pool.idle(), pool.resident());
                    let wanted = random.below(8 * PAGE) as u64;
                    let given_back = pool.release(wanted);
                    assert!(given_back >= wanted.min(idle), "{given_back} of {wanted}");
                    assert_eq!(pool.resident(), resident - given_back);
                    assert_eq!(pool.idle(), idle - given_back);
                }
                // Most of them, at random or the last ones.
                _ if random.below(20) == 0 => {
                    let at_random = random.below(2) == 0;
                    for _ in 0..held.len() * 3 / 4 {
                        let last = held.len() - 1;
                        held.swap_remove(if at_random { random.below(last + 1) } else { last });
                    }
                }
                _ => {}
            }
            if step % 50 == 0 {
                check_figures(&pool, &told, &held);
            }
        }
        held.iter().for_each(check_whole);
        pool.release(u64::MAX);
        assert_eq!(pool.idle(), 0);
        check_figures(&pool, &told, &held);
        held.iter().for_each(check_whole);
        held.clear();
        pool.release(u64::MAX);
        assert_eq!((pool.resident(), pool.used(), pool.idle()), (0, 0, 0));
    }
}

#[test]
fn slots_are_hardly_longer_than_pieces() {
    let pool = Pool::new(SLAB);
    for len in 0..70_000 {
        let capacity = Pool::capacity_of(len);
        assert!(capacity >= len);
        let waste = capacity - len;
        let most = if len < 512 {
            64
        } else if len < 2048 {
            len / 8
        } else {
            len / 16
        };
        assert!(waste <= most, "{capacity} for {len}");
        if len % 97 == 0 {
            assert_eq!(pool.take(len).capacity(), capacity);
        }
    }
    for exact in [1 << 10, 4 << 10, 16 << 10, 48 << 10, 64 << 10, 128 << 10] {
        assert_eq!(Pool::capacity_of(exact), exact);
    }
    assert_eq!(Pool::capacity_of(4200), 4224, "a block and a little");
}

#[test]
fn what_is_free_is_filled_before_memory_is_taken() {
    let pool = Pool::new(SLAB);
    let mut held: Vec<_> = (0..1000).map(|_| pool.take(4200)).collect();
    let resident = pool.resident();
    let mut count = 0;
    held.retain(|_| {
        count += 1;
        count % 3 != 0
    });
    assert!(pool.has_room(4200) && pool.has_room(4000), "also for what is a little shorter");
    assert!(!pool.has_room(3000) && !pool.has_room(4300));
    held.extend((0..200).map(|_| pool.take(4200)));
    held.extend((0..133).map(|_| pool.take(4000)));
    assert_eq!(pool.resident(), resident, "all of them had room");
    assert!(!pool.has_room(4200));
    held.push(pool.take(4200));
    assert!(pool.resident() > resident);
}

#[test]
fn slabs_become_empty_where_less_is_wanted_while_pieces_come_and_go() {
    let mut random = Random::new("slabs_become_empty");
    let pool = Pool::new(SLAB);
    let mut held: Vec<_> = (0..8000).map(|_| pool.take(4200)).collect();
    while held.len() > 2000 {
        held.swap_remove(random.below(held.len()));
    }
    let after = pool.resident();
    assert!(after - pool.idle() > pool.used() * 3 / 2, "pieces at random leave little free");
    for _ in 0..20_000 {
        held.swap_remove(random.below(held.len()));
        held.push(pool.take(4200));
    }
    assert!(pool.resident() < after / 2, "slabs went by themselves");
    pool.release(u64::MAX);
    let (resident, used) = (pool.resident(), pool.used());
    assert!(resident < used * 21 / 20, "{resident} bytes for {used}");
}

#[test]
fn as_much_is_given_back_as_was_asked_for() {
    let pool = Pool::new(SLAB);
    let mut held: Vec<_> = (0..304).map(|_| pool.take(16 << 10)).collect();
    let resident = pool.resident();
    assert_eq!((resident, pool.idle()), (304 * (16 << 10), 0));
    assert_eq!(pool.release(u64::MAX), 0, "every page has a piece");
    // Each slab keeps one piece: no slab is empty.
    let mut count = 0;
    held.retain(|_| {
        count += 1;
        count % 16 == 0
    });
    assert_eq!(pool.release(PAGE as u64), PAGE as u64);
    assert_eq!(pool.release(10 * PAGE as u64 - 1), 10 * PAGE as u64);
    assert_eq!(pool.resident(), resident - 11 * PAGE as u64);
    pool.release(u64::MAX);
    assert_eq!(pool.resident(), held.len() as u64 * (16 << 10));
    held.extend((0..300).map(|_| pool.take(16 << 10)));
    assert_eq!(pool.resident(), held.len() as u64 * (16 << 10));
}

#[test]
fn a_piece_becomes_longer_up_to_its_capacity() {
    let pool = Pool::new(SLAB);
    let mut piece = pool.copy(b"begun");
    piece.set_len(piece.capacity());
    assert!(piece.starts_with(b"begun"));
    piece[5..].fill(7);
    piece.set_len(6);
    assert_eq!(&*piece, b"begun\x07");
    assert!(pool.take(0).is_empty());
}

#[test]
#[should_panic(expected = "a piece has a capacity")]
fn a_piece_becomes_no_longer_than_its_capacity() {
    let mut piece = Pool::new(SLAB).take(4200);
    piece.set_len(piece.capacity() + 1);
}

#[test]
fn pieces_outlive_their_pool() {
    let told = Arc::new(Told::default());
    let pool = Pool::metered(SLAB, Arc::clone(&told) as _);
    let held: Vec<_> = [10, 5000, 100_000].map(|len| fill(pool.take(len), 9)).into();
    drop(pool);
    held.iter().for_each(check_whole);
    assert!(told.bytes.load(Relaxed) > 105_000);
    drop(held);
    // One empty slab a class is kept, and went with the last piece.
    let left = told.bytes.load(Relaxed);
    assert_eq!(left, 0, "{left} bytes are told to be resident");
}

/// Threads take pieces, and hand them to others, which look at them and drop them. All of them
/// release pages.
#[test]
fn threads_hand_pieces_to_each_other() {
    let told = Arc::new(Told::default());
    let pool = Pool::metered(64 << 10, Arc::clone(&told) as _);
    let shelf: Mutex<Vec<Held>> = Mutex::default();
    scope(|scope| {
        for thread in 0..4_u8 {
            let (pool, shelf) = (&pool, &shelf);
            scope.spawn(move || {
                let mut random = Random(u64::from(thread));
                for turn in 0..5000 {
                    let len = [100, 4000, 4200, 16 << 10, 80_000][random.below(5)];
                    let ours = fill(pool.take(len - random.below(60)), thread ^ turn as u8);
                    let mut shelf = shelf.lock().expect("nobody panics under it");
                    shelf.push(ours);
                    let theirs = (shelf.len() > 40).then(|| {
                        let at = random.below(shelf.len());
                        shelf.swap_remove(at)
                    });
                    drop(shelf);
                    theirs.iter().for_each(check_whole);
                    drop(theirs);
                    if random.below(50) == 0 {
                        pool.release(random.below(1 << 20) as u64);
                    }
                }
            });
        }
    });
    let held = shelf.into_inner().expect("nobody panicked");
    held.iter().for_each(check_whole);
    check_figures(&pool, &told, &held);
    assert!(told.most.load(Relaxed) < 8 << 20, "40 pieces of 21 KB on average, and what is free");
}

/// Of pieces that went at random the others are copied together, one for each that went, and all of
/// that is idle.
#[test]
fn what_is_copied_out_of_sparse_slabs_leaves_them_idle() {
    let mut random = Random::new("what_is_copied_out_of_sparse_slabs_leaves_them_idle");
    let pool = Pool::new(SLAB);
    let held = |number: usize| {
        let held = fill(pool.take(4200), number as u8);
        held.0.mark(number as u64);
        Some(held)
    };
    let mut pieces: Vec<Option<Held>> = (0..4000).map(held).collect();
    // A piece without a mark, and one of another class, which must not be reported.
    let others = [pool.take(4200), pool.take(9000)];
    let (in_use, mut marks) = (|| pool.resident() - pool.idle(), Vec::new());
    assert!(!pool.sparse(&mut marks) && marks.is_empty(), "nothing is free");
    let (before, mut gone) = (in_use(), 0);
    while gone < 1000 {
        gone += usize::from(pieces[random.below(4000)].take().is_some());
    }
    assert!(before - in_use() < 1000 * 4224 / 2);
    let mut copies = 0;
    while pool.sparse(&mut marks) {
        let before = in_use();
        for mark in marks.drain(..) {
            let place = &mut pieces[mark as usize];
            let (old, byte) = place.take().expect("it is marked");
            let new = pool.copy(&old);
            new.mark(mark);
            *place = Some((new, byte));
            copies += 1;
        }
        assert!(in_use() < before, "what they were copied from is idle");
    }
    assert!(copies <= 1000, "{copies} were copied where 1000 went");
    assert!(in_use() < pool.used() + SLAB as u64, "{} bytes of {}", in_use(), pool.used());
    pool.release(u64::MAX);
    assert_eq!(others.iter().map(|other| other.len()).sum::<usize>(), 4200 + 9000);
    pieces.iter().flatten().for_each(check_whole);
}
