//! The progress of a transfer, completion by completion.

use super::transfer::{Next, Transfer, sync_outcome};
use super::{Collect, collect_all};
use crate::error::Result;
use rustix::io::Errno;

const UNIT: usize = 512;

#[test]
fn a_short_transfer_goes_on_where_it_stopped() {
    let mut transfer = Transfer::new(1000, 100, 100, 1);
    assert_eq!(transfer.rest(), (1000, 0..100));
    assert_eq!(transfer.advance(30), Next::Again);
    assert_eq!(transfer.rest(), (1030, 30..100));
    assert_eq!(transfer.advance(69), Next::Again);
    assert_eq!(transfer.rest(), (1099, 99..100));
    assert_eq!(transfer.advance(1), Next::Done);
}

#[test]
fn nothing_moved_is_the_end() {
    let mut transfer = Transfer::new(0, 100, 100, 1);
    assert_eq!(transfer.advance(99), Next::Again);
    assert_eq!(transfer.advance(0), Next::End);
}

#[test]
fn a_direct_read_that_stops_within_a_unit_met_the_end() {
    let mut transfer = Transfer::new(0, 4 * UNIT, 4 * UNIT, UNIT);
    assert_eq!(transfer.advance(UNIT as i32), Next::Again);
    assert_eq!(transfer.advance(UNIT as i32 + 1), Next::End);
    let mut enough = Transfer::new(0, 4 * UNIT, 2 * UNIT + 1, UNIT);
    assert_eq!(enough.advance(2 * UNIT as i32 + 1), Next::Done);
}

#[test]
fn interruptions_are_repeated_and_errors_are_not() {
    let mut transfer = Transfer::new(0, 10, 10, 1);
    assert_eq!(transfer.advance(4), Next::Again);
    for errno in [Errno::INTR, Errno::AGAIN] {
        assert_eq!(transfer.advance(-errno.raw_os_error()), Next::Again);
        assert_eq!(transfer.rest(), (4, 4..10));
    }
    assert_eq!(transfer.advance(-Errno::IO.raw_os_error()), Next::Failed(Errno::IO));
    assert_eq!(sync_outcome(0), Next::Done);
    assert_eq!(sync_outcome(-Errno::IO.raw_os_error()), Next::Failed(Errno::IO));
}

#[test]
fn no_entry_asks_for_more_than_a_piece() {
    let transfer = Transfer::new(0, usize::MAX, usize::MAX, 1);
    let (_, range) = transfer.rest();
    assert!(u32::try_from(range.len()).is_ok());
}

/// A ring whose kernel keeps its flag set.
struct Flagged {
    missing: usize,
    entries: usize,
    entered: Vec<usize>,
}

impl Collect for Flagged {
    fn missing(&self) -> usize {
        self.missing
    }

    fn has_entries(&mut self) -> bool {
        self.entries > 0
    }

    fn is_flagged(&mut self) -> bool {
        true
    }

    fn enter(&mut self, count: usize) -> Result<()> {
        assert!(self.entered.len() < 10, "it enters for ever");
        self.entered.push(count);
        self.missing = self.missing.saturating_sub(1);
        self.entries = 0;
        Ok(())
    }
}

#[test]
fn a_flag_that_stays_set_keeps_no_thread_in_the_kernel() {
    for (missing, entries, expected) in
        [(0, 0, vec![0]), (2, 0, vec![2, 1]), (0, 3, vec![0]), (1, 1, vec![1])]
    {
        let mut ring = Flagged { missing, entries, entered: Vec::new() };
        assert_eq!(collect_all(&mut ring), Ok(()));
        assert_eq!(ring.entered, expected);
    }
}
