//! Seats of one engine that are lent to whoever waits for one look-up.
//!
//! Making a seat takes longer than a read, since it makes a queue of the device, of which a process may have
//! only so many. So some are kept, and no more than [`SEATS_MAX`] are made: who finds all of them lent waits
//! for one, which is a few reads of the device away. So does who cannot make one while others have some.
//! Where nobody has any and none can be made, there is no seat to be had, and the caller goes another way.
//!
//! Nobody who has a seat waits for another one, nor holds a lock while waiting for a seat.

use engine::Seat;
use sync::locks::{Condvar, Mutex};

/// Seats at once: reads of those who wait for them. More keep few devices busier.
const SEATS_MAX: usize = 32;
/// Seats that are kept while nobody uses them.
const SPARE_MAX: usize = 8;

/// What there is of seats.
#[derive(Default)]
pub(crate) struct SeatPool {
    seats: Mutex<Seats>,
    /// One was given back, or could not be made.
    changed: Condvar,
}

#[derive(Default)]
struct Seats {
    spare: Vec<Box<dyn Seat>>,
    /// Those that are lent or being made.
    lent: usize,
}

/// A seat, lent.
pub(crate) struct Lent<'a> {
    pool: &'a SeatPool,
    /// Always there before the drop.
    seat: Option<Box<dyn Seat>>,
}

impl SeatPool {
    /// A seat that nobody uses, or a new one; `make` always is of the same engine. Waits where there are
    /// enough of them; `None` if none can be made and none is lent.
    pub(crate) fn lend(
        &self,
        make: impl Fn() -> engine::Result<Option<Box<dyn Seat>>>,
    ) -> Option<Lent<'_>> {
        let mut seats = self.seats.lock();
        loop {
            if let Some(seat) = seats.spare.pop() {
                seats.lent += 1;
                return Some(Lent { pool: self, seat: Some(seat) });
            }
            if seats.lent < SEATS_MAX {
                seats.lent += 1;
                drop(seats);
                if let Ok(Some(seat)) = make() {
                    return Some(Lent { pool: self, seat: Some(seat) });
                }
                seats = self.seats.lock();
                seats.lent -= 1;
                // Others may wait for this one.
                self.changed.notify_all();
                if seats.lent == 0 && seats.spare.is_empty() {
                    return None;
                }
                if !seats.spare.is_empty() {
                    continue;
                }
            }
            self.changed.wait(&mut seats);
        }
    }
}

impl Lent<'_> {
    pub(crate) fn get(&mut self) -> &mut dyn Seat {
        &mut **self.seat.as_mut().expect("it is here until it is dropped")
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        // After an error, or a panic of who was told, something may be pending.
        let is_panicking = std::thread::panicking();
        let seat = self.seat.take().filter(|seat| seat.pending() == 0 && !is_panicking);
        let mut seats = self.pool.seats.lock();
        if seats.spare.len() < SPARE_MAX {
            seats.spare.extend(seat);
        } else {
            drop(seat);
        }
        seats.lent -= 1;
        drop(seats);
        self.pool.changed.notify_one();
    }
}

#[cfg(test)]
mod tests;
