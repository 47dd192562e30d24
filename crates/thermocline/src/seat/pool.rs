//! Seats of one engine that are lent to whoever waits for one look-up.
//!
//! Making a seat takes longer than a read, since it makes a queue of the device. So a few are kept.

use engine::{Engine, Seat};
use parking_lot::Mutex;

use crate::error::Result;

/// Seats that are kept. With more threads than these waiting at once, some make their own.
const SPARE_MAX: usize = 8;
/// Look-ups of one who waits for it.
const DEPTH: usize = 1;

/// Seats that nobody uses just now.
#[derive(Default)]
pub(crate) struct SeatPool(Mutex<Vec<Box<dyn Seat>>>);

/// A seat, lent.
pub(crate) struct Lent<'a> {
    pool: &'a SeatPool,
    /// Always there before the drop.
    seat: Option<Box<dyn Seat>>,
}

impl SeatPool {
    /// A seat of `engine`, always the same one; `None` if it has none.
    ///
    /// # Errors
    /// The device has no queue left; the engine is closed.
    pub(crate) fn lend(&self, engine: &dyn Engine) -> Result<Option<Lent<'_>>> {
        let spare = self.0.lock().pop();
        let seat = match spare {
            Some(seat) => Some(seat),
            None => engine.seat(DEPTH)?,
        };
        Ok(seat.map(|seat| Lent { pool: self, seat: Some(seat) }))
    }
}

impl Lent<'_> {
    pub(crate) fn get(&mut self) -> &mut dyn Seat {
        &mut **self.seat.as_mut().expect("it is here until it is dropped")
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let Some(seat) = self.seat.take() else { return };
        // After an error, or a panic of who was told, something may be pending.
        if seat.pending() > 0 || std::thread::panicking() {
            return;
        }
        let mut spare = self.pool.0.lock();
        if spare.len() < SPARE_MAX {
            spare.push(seat);
        }
    }
}
