//! Decisions, by tables of figures.

use super::*;

const MIB: u64 = 1 << 20;
/// Enough to say something.
const MUCH: u64 = 100 * EVIDENCE_BYTES;

fn share(mib: u64, saved: u64) -> ShareFigures {
    let bytes = mib * MIB;
    ShareFigures { bytes, least: MIB, most: u64::MAX, saved, reach: bytes / 16 }
}

fn figures<const N: usize>(shares: [ShareFigures; N]) -> Figures {
    let whole = 256 * MIB;
    Figures { whole, free: 0, shares: shares.to_vec(), last: (None, None) }
}

fn step(from: usize, to: usize, bytes: u64) -> Decision {
    Decision::Move(Step { from: Some(from), to, bytes })
}

#[test]
fn nothing_moves_where_nobody_gains() {
    let table = [
        (figures([]), Decision::Wait),
        (figures([share(96, 0), share(96, 0)]), Decision::Wait),
        (figures([share(96, EVIDENCE_BYTES - 1), share(96, 0)]), Decision::Wait),
        (figures([share(96, MUCH)]), Decision::Keep),
        (figures([share(96, MUCH), share(96, MUCH)]), Decision::Keep),
        (figures([share(96, MUCH), share(96, MUCH / 3 * 2 + 2)]), Decision::Keep),
        // The larger one has read more, but not for each byte.
        (figures([share(96, 3 * MUCH), share(32, MUCH)]), Decision::Keep),
    ];
    for (figures, wanted) in table {
        assert_eq!(plan_move(&figures), wanted, "{figures:?}");
    }
}

#[test]
fn the_one_that_gains_most_gets_a_step_of_the_one_that_gains_least() {
    let table = [
        (figures([share(96, MUCH), share(96, 0)]), step(1, 0, 4 * MIB)),
        (figures([share(96, MUCH), share(96, MUCH / 3 * 2 - 2)]), step(1, 0, 4 * MIB)),
        (
            figures([share(96, 2 * MUCH), share(32, 2 * MUCH), share(64, MUCH / 2)]),
            step(2, 1, 4 * MIB),
        ),
        // Of two that gain the same the larger one gives.
        (figures([share(16, 0), share(96, MUCH), share(32, 0)]), step(2, 1, 4 * MIB)),
        // A small one takes at most half of its own size, and gives at most an eighth.
        (figures([share(4, MUCH), share(96, 0)]), step(1, 0, 2 * MIB)),
        (figures([share(96, MUCH), share(16, 0)]), step(1, 0, 2 * MIB)),
        (figures([share(96, MUCH), share(1, 0)]), Decision::Keep),
    ];
    for (figures, wanted) in table {
        assert_eq!(plan_move(&figures), wanted, "{figures:?}");
    }
}

#[test]
fn nobody_leaves_its_bounds() {
    let fixed = |mib, saved| {
        let share = share(mib, saved);
        ShareFigures { least: share.bytes, most: share.bytes, ..share }
    };
    let up_to = |most, saved| ShareFigures { most, ..share(96, saved) };
    let down_to = |least, saved| ShareFigures { least, ..share(96, saved) };
    let table = [
        (figures([share(96, MUCH), fixed(96, 0)]), Decision::Keep),
        (figures([fixed(96, MUCH), share(96, 0)]), Decision::Keep),
        // The next best takes, the next one gives.
        (figures([fixed(96, MUCH), share(64, MUCH / 2), share(32, 0)]), step(2, 1, 4 * MIB)),
        (figures([fixed(96, 0), share(64, MUCH), share(32, 0)]), step(2, 1, 4 * MIB)),
        (figures([up_to(97 * MIB, MUCH), share(96, 0)]), step(1, 0, MIB)),
        (figures([share(96, MUCH), down_to(95 * MIB, 0)]), step(1, 0, MIB)),
        (figures([share(96, MUCH), down_to(96 * MIB - STEP_BYTES_MIN + 1, 0)]), Decision::Keep),
        (figures([share(96, MUCH), down_to(200 * MIB, 0)]), Decision::Keep),
    ];
    for (figures, wanted) in table {
        assert_eq!(plan_move(&figures), wanted, "{figures:?}");
    }
}

#[test]
fn what_is_free_goes_first_and_to_the_member_that_gains() {
    let free = |free, shares: [ShareFigures; 2]| Figures { free, ..figures(shares) };
    let gift = |to, bytes| Decision::Move(Step { from: None, to, bytes });
    let table = [
        (free(64 * MIB, [share(96, 0), share(96, 0)]), Decision::Wait),
        (free(64 * MIB, [share(96, MUCH), share(96, MUCH)]), gift(1, 4 * MIB)),
        (free(MIB, [share(96, MUCH), share(96, 0)]), gift(0, MIB)),
        (free(STEP_BYTES_MIN - 1, [share(96, MUCH), share(96, 0)]), step(1, 0, 4 * MIB)),
    ];
    for (figures, wanted) in table {
        assert_eq!(plan_move(&figures), wanted, "{figures:?}");
    }
}

#[test]
fn a_step_back_takes_more() {
    let back = |saved, last| Figures { last, ..figures([share(96, saved), share(96, MUCH)]) };
    assert_eq!(plan_move(&back(2 * MUCH, (None, Some(1)))), step(1, 0, 4 * MIB));
    assert_eq!(plan_move(&back(2 * MUCH, (Some(0), Some(1)))), Decision::Keep);
    assert_eq!(plan_move(&back(3 * MUCH + 1, (Some(0), Some(1)))), step(1, 0, 4 * MIB));
}

/// Two keyspaces whose gain falls with their memory, as if the most popular data is read most.
/// Their shares reach sizes at which a byte is worth the same in both, and stay there.
#[test]
fn steps_come_to_an_end() {
    let mut bytes = [32 * MIB, 160 * MIB];
    let weights = [30, 10];
    let mut moves = Vec::new();
    let mut last = (None, None);
    for _ in 0..200 {
        let of = |at: usize| {
            let worth = weights[at] * MUCH / (bytes[at] / MIB);
            let reach = bytes[at] / 16;
            ShareFigures {
                bytes: bytes[at],
                least: MIB,
                most: u64::MAX,
                saved: worth * (reach / MIB).max(1),
                reach,
            }
        };
        match plan_move(&Figures { last, ..figures([of(0), of(1)]) }) {
            Decision::Move(Step { from: Some(from), to, bytes: step }) => {
                bytes[from] -= step;
                bytes[to] += step;
                last = (Some(from), Some(to));
                moves.push(to);
            }
            decision => assert_eq!(decision, Decision::Keep),
        }
    }
    assert!((10..60).contains(&moves.len()), "{moves:?}");
    assert!(moves.iter().all(|to| *to == 0), "there and back: {moves:?}");
    assert!(bytes[0] > 100 * MIB && bytes[0] + bytes[1] == 192 * MIB, "{bytes:?}");
}
