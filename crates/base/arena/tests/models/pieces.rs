//! Models of the pool of pieces.
//!
//! In models a page has two slots of the shortest class, and a slab four. A slot is a box, which is
//! missing if it is handed out twice or released while its owner uses it.

use std::sync::Arc;

use sync::thread::spawn;
use thermocline_arena::pieces::{Piece, Pool};

/// Lengths of two classes of which the longer one has room for the shorter.
const SHORT: usize = 60;
const LONG: usize = 100;

fn filled(pool: &Pool, len: usize, byte: u8) -> Piece {
    let mut piece = pool.take(len);
    piece.fill(byte);
    piece
}

fn check_whole(piece: &Piece, byte: u8) {
    assert!(piece.iter().all(|found| *found == byte), "another one is in the slot");
}

/// Checks that the last thread finds all of the pool free.
fn check_empty(pool: &Pool) {
    assert_eq!(pool.used(), 0);
    assert_eq!(pool.resident(), pool.idle(), "pages on which nobody is are idle");
    pool.release(u64::MAX);
    assert_eq!((pool.resident(), pool.idle()), (0, 0), "all of it was given back");
}

/// One thread takes and drops pieces, while another one drops the piece it was given, and takes
/// one.
pub fn pieces_go_while_others_are_taken() {
    let pool = Arc::new(Pool::new(256));
    let theirs = (Arc::clone(&pool), filled(&pool, SHORT, 1));
    let other = spawn(move || {
        let (pool, given) = theirs;
        check_whole(&given, 1);
        drop(given);
        check_whole(&filled(&pool, SHORT, 2), 2);
    });
    let (first, second) = (filled(&pool, SHORT, 3), filled(&pool, LONG, 4));
    check_whole(&first, 3);
    drop(first);
    check_whole(&second, 4);
    drop(second);
    other.join().expect("it does not panic");
    check_empty(&pool);
}

/// One thread releases idle pages, while another one takes and drops pieces.
pub fn pages_are_given_back_while_pieces_are_taken() {
    let pool = Arc::new(Pool::new(256));
    let stays = filled(&pool, SHORT, 1);
    let goes = [filled(&pool, SHORT, 2), filled(&pool, SHORT, 3)];
    let theirs = Arc::clone(&pool);
    let other = spawn(move || {
        drop(goes);
        check_whole(&filled(&theirs, SHORT, 4), 4);
    });
    pool.release(u64::MAX);
    check_whole(&stays, 1);
    other.join().expect("it does not panic");
    check_whole(&stays, 1);
    drop(stays);
    check_empty(&pool);
}
